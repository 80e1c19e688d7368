"""forbidden_aggregates: keep requests out of aggregates that are reserved by traits."""

from collections.abc import Iterable

from placement_sched.config.opts import AliasedBoolOpt
from placement_sched.model.aggregates import HostAggregate
from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    RequestSpec,
    World,
    kept_out,
)
from placement_sched.scheduler.tagged_aggregates import required_traits


class ForbiddenAggregates(BaseRequestFilter):
    """Keeps requests out of aggregates whose metadata require traits that they do not.

    An aggregate with ``trait:X=required`` in its metadata takes only requests that require X as
    well: by ``trait:X=required``, or with the suffix of a group ``trait<suffix>:X=required``, in
    the flavor's extra specs or the image's properties; by another extra spec or property that is
    translated to it, such as ``hw:tpm_version``; or by a port or accelerator. With several such
    keys, all of them. Other values than ``required`` say nothing. What request filters ask of root
    providers, and ``request_level_params``, open nothing. All aggregates that a request may not use
    are forbidden to it in one ``member_of=!in:``, beside those that its requested destination
    forbids.

    The traits are not put on the hosts' providers by this: see ``placement-sched placement
    sync_traits``. nova calls the filter isolate_aggregates. Off unless ``[scheduler]
    enable_isolated_aggregate_filtering`` is set.
    """

    name = "forbidden_aggregates"
    aliases = ("isolate_aggregates",)
    enabled_by = "enable_isolated_aggregate_filtering"
    options = in_group(
        "scheduler",
        AliasedBoolOpt(
            "enable_isolated_aggregate_filtering",
            alias="enable_forbidden_aggregates_filter",
            default=False,
        ),
        "Keep instances out of aggregates with metadata trait:X=required, unless flavor or image "
        "require X, too.",
    )

    def apply(self, spec: RequestSpec, world: World) -> Outcome:
        """Return the request without the aggregates that are reserved for others."""
        return kept_out(spec, forbidden_to(required_traits(spec), world.host_aggregates()))


def forbidden_to(required: frozenset[str], aggregates: Iterable[HostAggregate]) -> list[str]:
    """Return the uuids of the aggregates that a request for these traits may not use."""
    return sorted(one.uuid for one in aggregates if not required.issuperset(one.reserving_traits))
