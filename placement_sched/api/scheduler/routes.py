# SPDX-License-Identifier: Apache-2.0
"""The scheduler API: routes, version negotiation and error responses."""

from collections.abc import Mapping
from http import HTTPStatus

from placement_sched.api.blueprint import Api, ErrorContext
from placement_sched.api.call import ApiResponse
from placement_sched.api.placement.style import PlacementStyle
from placement_sched.api.scheduler import (
    capacity,
    compute_nodes,
    decisions,
    failover_capacity,
    hosts,
    instances,
    openapi,
    plan,
    plan_runs,
    root,
    select_destinations,
)
from placement_sched.api.versions import Version, Versioning
from placement_sched.errors import Error

_PLACEMENT_PREFIX = "placement."

#: Default error codes of this API by status.
CODES: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "scheduler.bad_value",
    HTTPStatus.UNAUTHORIZED: "scheduler.unauthorized",
    HTTPStatus.FORBIDDEN: "scheduler.forbidden",
    HTTPStatus.NOT_FOUND: "scheduler.not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "scheduler.method_not_allowed",
    HTTPStatus.NOT_ACCEPTABLE: "scheduler.not_acceptable",
    HTTPStatus.CONFLICT: "scheduler.conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "scheduler.too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "scheduler.unsupported_media_type",
    HTTPStatus.INTERNAL_SERVER_ERROR: "scheduler.failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "scheduler.unavailable",
}

#: Codes of the Placement API that are more specific than the status, and this API's codes.
ALSO_HERE: Mapping[str, str] = {
    "placement.concurrent_update": "scheduler.concurrent_update",
    "placement.duplicate_name": "scheduler.duplicate",
    "placement.query.too_complex": "scheduler.too_complex",
}


class SchedulerStyle(PlacementStyle):
    """Conventions of the scheduler API: placement's errors, a single version, own codes."""

    checks_every_value = True

    def __init__(self) -> None:
        super().__init__(Versioning("scheduler", Version(1, 0), Version(1, 0)), codes_since=None)

    def error(self, error: Error, status: int, title: str, seen: ErrorContext) -> ApiResponse:
        """Render an error in placement's JSON format with a code of this API."""
        if error.code.startswith(_PLACEMENT_PREFIX):
            default = CODES.get(status, CODES[HTTPStatus.INTERNAL_SERVER_ERROR])
            error.code = ALSO_HERE.get(error.code, default)
        return self.in_json(error, status, title, seen)  # even if the client does not accept JSON


_MODULES = (
    root,
    capacity,
    compute_nodes,
    decisions,
    failover_capacity,
    hosts,
    instances,
    openapi,
    plan,
    plan_runs,
    select_destinations,
)

API = Api("scheduler", SchedulerStyle(), [module.blueprint for module in _MODULES])
