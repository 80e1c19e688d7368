# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import filters
from nova.scheduler.client import report


class MaxUnitFilter(filters.BaseHostFilter):
    def __init__(self):
        super().__init__()
        self.placement = report.SchedulerReportClient()

    def host_passes(self, host_state, spec_obj):
        found = self.placement._get_inventory(spec_obj._context, host_state.uuid)
        return found["inventories"]["VCPU"]["max_unit"] >= 32
