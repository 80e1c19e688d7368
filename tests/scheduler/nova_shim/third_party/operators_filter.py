# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import filters
from nova.scheduler.filters import extra_specs_ops, utils


class OperatorsFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = spec_obj.flavor.extra_specs.get("acme:rack")
        racks = utils.aggregate_values_from_key(host_state, "rack")
        return wanted is None or any(extra_specs_ops.match(rack, wanted) for rack in racks)
