# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import filters


class RolesFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = {a.metadata["role"] for a in host_state.aggregates if "role" in a.metadata}
        return wanted <= set(spec_obj._context.roles)
