# SPDX-License-Identifier: Apache-2.0
from nova import exception
from nova.objects import instance_group
from nova.scheduler import filters


class NoGroupFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        for uuid in host_state.instances:
            try:
                instance_group.InstanceGroup.get_by_instance_uuid(spec_obj._context, uuid)
            except exception.InstanceGroupNotFound as error:
                return uuid not in error.format_message()
        return True
