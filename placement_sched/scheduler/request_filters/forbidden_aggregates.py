"""forbidden_aggregates: keep requests out of aggregates that are reserved by traits."""

from collections.abc import Iterable

from placement_sched.config import Settings
from placement_sched.config.aliased import AliasedBoolOpt
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
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
    sync_traits``. nova calls the filter isolate_aggregates. Off by default.
    """

    name = "forbidden_aggregates"
    aliases = ("isolate_aggregates",)
    options = (
        (
            "scheduler",
            AliasedBoolOpt(
                "enable_isolated_aggregate_filtering",
                alias="enable_forbidden_aggregates_filter",
                default=False,
                help="Keep instances out of aggregates with metadata trait:X=required, unless "
                "flavor or image require X, too.",
            ),
        ),
    )

    def enabled(self, settings: Settings) -> bool:
        """Return whether ``[scheduler] enable_isolated_aggregate_filtering`` is set."""
        return bool(settings.scheduler.enable_isolated_aggregate_filtering)

    def apply(self, spec: RequestSpec, world: World) -> Outcome:
        """Return the request without the aggregates that are reserved for others."""
        return kept_out(spec, forbidden_to(required_traits(spec), world.host_aggregates()))


def forbidden_to(required: frozenset[str], aggregates: Iterable[HostAggregate]) -> list[str]:
    """Return the uuids of the aggregates that a request for these traits may not use."""
    return sorted(
        aggregate.uuid
        for aggregate in aggregates
        if not required.issuperset(aggregate.reserving_traits)
    )
