# SPDX-License-Identifier: Apache-2.0
"""TopologySpreadFilter: filter that spreads a server group over domains."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.preferences import MAX_SKEW
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
)


class TopologySpreadFilter(BaseHostFilter):
    """Filter for hosts in failure domains with few members of the group.

    The flavor sets a metadata key of aggregates as ``scheduler:spread_by=rack``, and
    ``scheduler:max_skew=1``. The request may override both by hints of these names without the
    prefix. The values of the key are the domains. The skew of a domain is its number of members
    with the new instance, less the smallest number of members of any domain in the requested zone
    and aggregates, even of a full domain. A host is rejected if the skew exceeds ``max_skew``, or
    if it is in no domain. The claim checks the skew again under a lock on the stored group.

    Every host passes without a server group, or with ``scheduler:spread_mode=soft``, which is the
    default without ``max_skew``. The filter is not enabled by default, and requests that need it
    are then rejected. nova has no such filter.
    """

    def compares_hosts(self, spec_obj: RequestSpec) -> bool:
        return spec_obj.spread is not None and spec_obj.spread.request.is_hard

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        spread = spec_obj.spread
        if spread is None or not spread.request.is_hard:
            return None
        emptiest, instance = spread.find_emptiest_domain(), spec_obj.instance_uuid
        # All hosts of a domain have the same result, except the current host of the instance.
        results: dict[tuple[str, ...], Rejection | None] = {}
        current_host = None if instance is None else spread.current_hosts.get(instance)

        def check_host(host_state: HostState) -> Rejection | None:
            host = host_state.host
            if host == current_host:
                return None
            domains = spread.domains_by_host.get(host, ())
            if domains not in results:
                results[domains] = spread.find_rejection(host, instance, emptiest)
            return results[domains]

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        rejection = self.rejection(host_state, spec_obj)
        spread = spec_obj.spread
        if rejection is not None and spread is not None and rejection.actual is not None:
            request = replace(spread.request, max_skew=rejection.actual)
            changed = replace(spec_obj, spread=replace(spread, request=request))
            yield build_change("raise_skew", {MAX_SKEW: rejection.actual}, spec=changed)
        changed = replace(spec_obj, instance_group=None, spread=None)
        yield build_change("leave_group", kind="topology_spread", spec=changed)
