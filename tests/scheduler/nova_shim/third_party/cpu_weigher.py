# SPDX-License-Identifier: Apache-2.0
from nova import weights
from nova.openstack.common import cfg
from nova.scheduler import weights as host_weights

CONF = cfg.CONF
CONF.import_opt("cpu_allocation_ratio", "nova.scheduler.filters.core_filter")


class FreeCpuWeigher(host_weights.BaseHostWeigher):
    minval = 0

    def _weigh_object(self, host_state, weight_properties):
        return float(host_state.vcpus_total - host_state.vcpus_used)


class OldWeigher(weights.BaseWeigher):
    def _weight_multiplier(self):
        return -1.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.vcpus_total
