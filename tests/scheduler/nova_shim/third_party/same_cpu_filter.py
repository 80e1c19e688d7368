# SPDX-License-Identifier: Apache-2.0
from nova import context, exception, objects
from nova.scheduler import filters


class SameCpuFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        admin = context.get_admin_context()
        uuid = spec_obj.get_scheduler_hint("like")
        try:
            mapping = objects.InstanceMapping.get_by_instance_uuid(admin, uuid)
            with context.target_cell(admin, mapping.cell_mapping) as cell:
                instance = objects.Instance.get_by_uuid(cell, uuid)
                node = objects.ComputeNode.get_by_host_and_nodename(
                    cell, instance.host, instance.node
                )
        except (exception.InstanceMappingNotFound, exception.ComputeHostNotFound):
            return False
        return node.vcpus == host_state.vcpus_total
