# SPDX-License-Identifier: Apache-2.0
"""TypeAffinityFilter and AggregateTypeAffinityFilter: filters by flavor."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.flavor import Flavor
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
)
from placement_sched.scheduler.filters.utils import collect_aggregate_values


class TypeAffinityFilter(BaseHostFilter):
    """Filter that rejects hosts with instances of other flavors.

    Each host then has instances of a single flavor. Flavors are equal if their ids are equal, or
    their names if either has no id. An unknown flavor is another flavor. nova had this filter until
    Pike (16). Combine it with a negative ``ram_weight_multiplier``, which fills hosts.
    """

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        requested = spec_obj.flavor
        flavors = (instance.flavor for instance in host_state.instances.values())
        names = sorted(
            {each.name if each else "unknown" for each in flavors if not _is_same(each, requested)}
        )
        if not names:
            return None
        return Rejection(kind="other_flavors", requested=requested.name or None, actual=names)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        items = host_state.instances.items()
        remaining = {uuid: each for uuid, each in items if _is_same(each.flavor, spec_obj.flavor)}
        count = len(host_state.instances) - len(remaining)
        yield build_change(
            "remove_instances",
            {"instances": count},
            kind="other_flavors",
            host={"instances": remaining},
        )


def _is_same(flavor: Flavor | None, requested: Flavor) -> bool:
    if flavor is None:
        return False
    ids = [each.flavorid or each.id for each in (flavor, requested)]
    return flavor.name == requested.name if None in ids else str(ids[0]) == str(ids[1])


class AggregateTypeAffinityFilter(BaseHostFilter):
    """Filter for hosts whose aggregates allow the request's flavor.

    The metadata key ``instance_type`` of an aggregate lists names of flavors, separated by commas.
    A host is open to every flavor if none of its aggregates has the key.
    """

    run_filter_once_per_request = True

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        names = sorted(collect_aggregate_values(host_state, "instance_type"))
        requested = spec_obj.flavor.name
        if not names or requested in names:
            return None
        return Rejection(kind="aggregate_flavors", requested=requested or None, actual=names)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        names = sorted(collect_aggregate_values(host_state, "instance_type"))
        name = spec_obj.flavor.name
        changed = replace(spec_obj, flavor=replace(spec_obj.flavor, name=names[0]))
        values = {"flavors": names}
        yield build_change(
            "change_request", values, kind="aggregate_flavors", spec=changed, flavor=name
        )
