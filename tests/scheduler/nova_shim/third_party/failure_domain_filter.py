# SPDX-License-Identifier: Apache-2.0
from nova import context as nova_context
from nova import objects
from nova.scheduler import filters


def domain_of(host):
    context = nova_context.get_admin_context()
    found = objects.AggregateList.get_by_host(context, host, key="rack")
    return {aggregate.metadata["rack"] for aggregate in found}


class FailureDomainFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        other = spec_obj.get_scheduler_hint("away_from")
        return not other or not domain_of(host_state.host) & domain_of(other)
