# SPDX-License-Identifier: Apache-2.0
"""required_aggregates_by_trait: request filter by aggregates for traits."""

from placement_sched.config.settings import Settings
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler import request_groups
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    require_aggregates,
)


class RequiredAggregatesByTrait(BaseRequestFilter):
    """Request filter that confines requests to aggregates for their traits.

    If the request requires a trait X (by flavor, image, port or accelerator, in any group), and any
    aggregate has ``trait:X=required``, the host must be in such an aggregate. It is not enough that
    the host has the trait. Aggregates that are forbidden to the request are not used. If all
    aggregates with the tag are forbidden, the request is rejected. Traits that tag no aggregate
    have no effect. Its counterpart, forbidden_aggregates, keeps other requests out of these
    aggregates.

    Enabled by ``[scheduler] required_aggregates_by_trait = require``. The default is off. With
    ``prefer`` RequiredAggregatesByTraitWeigher prefers hosts of these aggregates instead. nova has
    no such filter.
    """

    name = "required_aggregates_by_trait"
    options = (request_groups.TAGGED_AGGREGATES_OPTION,)

    def enabled(self, settings: Settings) -> bool:
        return request_groups.get_tagged_aggregates_mode(settings) == request_groups.REQUIRE

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | None:
        required = request_groups.collect_required_traits(spec)
        tagged = request_groups.map_tagged_aggregates(required, context.host_aggregates())
        forbidden, offered = spec.destination.forbidden, {}
        for trait, tagged_uuids in tagged.items():
            offered[trait] = uuids = [uuid for uuid in tagged_uuids if uuid not in forbidden]
            if not uuids:
                return Rejection(kind="no_allowed_aggregate", values={"traits": [trait]})
            spec = require_aggregates(spec, uuids).spec
        return RequestFilterResult(spec, {"aggregates_by_trait": offered}) if offered else None
