# SPDX-License-Identifier: Apache-2.0
import re

from nova.objects.request_spec import RequestSpec
from nova.scheduler import filters
from nova.scheduler.host_manager import HostState


class HostnameFilter(filters.BaseHostFilter):
    """Accept hosts whose name matches the hint."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        pattern = spec_obj.get_scheduler_hint("hostname", ".*")
        return re.fullmatch(pattern, host_state.host) is not None
