# SPDX-License-Identifier: Apache-2.0
"""forbidden_aggregates: request filter by aggregates reserved by traits."""

from collections.abc import Iterable

from placement_sched.config.settings import AliasedBoolOpt
from placement_sched.model.aggregates import HostAggregate
from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    RequestSpec,
    forbid_aggregates,
)
from placement_sched.scheduler.request_groups import collect_required_traits


class ForbiddenAggregates(BaseRequestFilter):
    """Request filter that forbids aggregates reserved for other traits.

    An aggregate with ``trait:X=required`` in its metadata accepts only requests that require X. The
    trait may come from ``trait:X=required``, or ``trait<suffix>:X=required`` for a group, in the
    flavor's extra specs or the image's properties, from an extra spec or property that is
    translated to X, such as ``hw:tpm_version``, or from a port or accelerator. If the metadata have
    several such keys, the request must require all of the traits. Other values than ``required``
    have no effect. Traits that request filters or ``request_level_params`` require of root
    providers do not count. The candidates query has all forbidden aggregates, also of the requested
    destination, in a single ``member_of=!in:``.

    The filter does not add the traits to the hosts' providers: use ``placement-sched placement
    sync_traits``. nova calls the filter isolate_aggregates. Enabled by ``[scheduler]
    enable_isolated_aggregate_filtering``. The default is false.
    """

    name = "forbidden_aggregates"
    aliases = ("isolate_aggregates",)
    enabled_by = "enable_isolated_aggregate_filtering"
    options = build_group_options(
        "scheduler",
        AliasedBoolOpt(
            "enable_isolated_aggregate_filtering",
            alias="enable_forbidden_aggregates_filter",
            default=False,
        ),
        "Keep instances out of aggregates with metadata trait:X=required, unless the flavor or "
        "image also requires X.",
    )

    def apply(self, spec: RequestSpec, context: RequestFilterContext) -> RequestFilterResult:
        return forbid_aggregates(
            spec, find_forbidden(collect_required_traits(spec), context.host_aggregates())
        )


def find_forbidden(required: frozenset[str], aggregates: Iterable[HostAggregate]) -> list[str]:
    """Return uuids of aggregates that a request for these traits may not use."""
    return sorted(
        each.uuid for each in aggregates if not required.issuperset(each.reserving_traits)
    )
