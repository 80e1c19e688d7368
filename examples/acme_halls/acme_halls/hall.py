# SPDX-License-Identifier: Apache-2.0
"""acme_hall: a flavor may be for one hall."""

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    with_destination,
)


class Hall(BaseRequestFilter):
    """Confines requests to the hall that the extra spec ``acme:hall`` of their flavor names.

    Halls are the host aggregates whose metadata ``acme:hall`` is that name. Without the extra spec
    it is ``[acme_halls] default_hall``; without that too, any hall will do.
    """

    name = "acme_hall"

    options = (
        (
            "acme_halls",
            cfg.StrOpt("default_hall", help="The hall of flavors that name none; none is any."),
        ),
    )

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | None:
        """Return the request confined to its hall, or that there is no such hall."""
        hall = spec.flavor.extra_specs.get("acme:hall", self.settings.acme_halls.default_hall)
        if hall is None:
            return None
        uuids = [
            aggregate.uuid
            for aggregate in context.host_aggregates()
            if aggregate.metadata.get("acme:hall") == hall
        ]
        if not uuids:
            return Rejection(f"there is no hall {hall}")
        return RequestFilterResult(
            with_destination(spec, spec.destination.requiring(uuids)), {"aggregates": uuids}
        )
