# SPDX-License-Identifier: Apache-2.0
from nova import utils as nova_utils
from nova.openstack.common import jsonutils, timeutils
from nova.scheduler import filters


class OldUtilsFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        version = nova_utils.convert_version_to_int("8.2.0")
        cpu_info = jsonutils.loads(host_state.cpu_info or "{}")
        is_fresh = not timeutils.is_older_than(host_state.updated, 10**9)
        return host_state.hypervisor_version >= version and is_fresh and cpu_info == {}
