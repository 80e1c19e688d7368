# SPDX-License-Identifier: Apache-2.0
"""Hall: confine requests to the hall of their flavor."""

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import Rejection
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    with_destination,
)


class Hall(BaseRequestFilter):
    """Confines requests to the hall that the extra spec ``acme:hall`` of their flavor names.

    The aggregates of a hall have its name as metadata ``acme:hall``. A flavor without the extra
    spec goes to ``[acme_halls] default_hall``, or to any hall if the option is not set.
    """

    name = "acme_hall"

    options = (
        (
            "acme_halls",
            cfg.StrOpt("default_hall", help="Hall of flavors without acme:hall; not set is any."),
        ),
    )

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | None:
        """Return the request confined to its hall, or a rejection if the hall does not exist."""
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
