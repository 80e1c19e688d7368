# SPDX-License-Identifier: Apache-2.0
from nova import objects
from nova.compute import task_states, vm_states
from nova.scheduler import filters


class BuildingFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        found = objects.InstanceList.get_by_host(spec_obj._context, host_state.host)
        busy = [
            instance
            for instance in found.objects
            if instance.vm_state == vm_states.BUILDING
            or instance.task_state == task_states.SPAWNING
        ]
        return not busy
