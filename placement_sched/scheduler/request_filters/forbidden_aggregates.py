"""forbidden_aggregates: keep requests out of aggregates that are reserved by traits."""

from collections.abc import Iterator

from placement_sched.config import Settings
from placement_sched.config.aliased import AliasedBoolOpt
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    narrowed,
)

_PREFIX = "trait:"


class ForbiddenAggregates(BaseRequestFilter):
    """Keeps requests out of aggregates whose metadata require traits that they do not.

    An aggregate with ``trait:X=required`` in its metadata takes only requests whose flavor extra
    specs or image properties have ``trait:X=required`` as well; with several such keys, all of
    them. Other values than ``required`` say nothing. All aggregates that a request may not use
    are forbidden to it in one ``member_of=!in:``.

    The traits are not put on the hosts' providers by this: see ``placement-sched placement
    sync_traits``. nova calls the filter isolate_aggregates. Off by default.
    """

    name = "forbidden_aggregates"
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
        required = spec.required_traits
        forbidden = sorted(
            aggregate.uuid
            for aggregate in world.host_aggregates()
            if any(trait not in required for trait in reserved_for(aggregate))
        )
        if not forbidden:
            return Outcome(spec)
        return Outcome(
            narrowed(spec, spec.destination.forbidding(forbidden)),
            {"forbidden_aggregates": forbidden},
        )


def reserved_for(aggregate: HostAggregate) -> Iterator[str]:
    """Yield the traits that an aggregate's metadata require of whoever uses its hosts."""
    for key, value in aggregate.metadata.items():
        if value == "required" and key.startswith(_PREFIX):
            yield key.removeprefix(_PREFIX)
