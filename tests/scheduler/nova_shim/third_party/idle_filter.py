# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import filters, weights

KEY = "acme.idle-ratio"


class IdleFilter(filters.BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        for number, host in enumerate(sorted(filter_obj_list, key=lambda state: state.host), 1):
            setattr(host, KEY, number / 10)
            if getattr(host, KEY) >= 0.2:
                yield host


class IdleWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return getattr(host_state, KEY, 0.0)
