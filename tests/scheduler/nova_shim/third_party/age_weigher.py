# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import weights
from oslo_utils import timeutils


class AgeWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        now = timeutils.utcnow()
        ages = [now - instance.created_at for instance in host_state.instances.values()]
        return -sum(age.total_seconds() for age in ages) - len(ages)
