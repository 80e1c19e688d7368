# SPDX-License-Identifier: Apache-2.0
"""TenantsAggregate: confine a project to its own aggregates."""

from placement_sched.config import Settings
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    with_destination,
)


class TenantsAggregate(BaseRequestFilter):
    """Confines a project's requests to the aggregates whose metadata ``tenant`` names it."""

    name = "tenants_aggregate"

    def enabled(self, settings: Settings) -> bool:
        """Return True: installing it enables it."""
        return True

    def apply(self, spec: RequestSpec, world: RequestFilterContext) -> RequestFilterResult | None:
        """Return the request confined to the aggregates of its project, or None if it has none."""
        own = [
            aggregate.uuid
            for aggregate in world.host_aggregates()
            if spec.project_id and aggregate.metadata.get("tenant") == spec.project_id
        ]
        if not own:
            return None
        return RequestFilterResult(
            with_destination(spec, spec.destination.requiring(own)), {"aggregates": own}
        )
