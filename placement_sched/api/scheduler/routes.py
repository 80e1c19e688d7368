# SPDX-License-Identifier: Apache-2.0
"""The scheduler API: conventions, root document and routes."""

from collections.abc import Mapping
from http import HTTPStatus

from placement_sched.api.blueprint import Api, Blueprint, ErrorContext
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.placement.routes import PlacementStyle
from placement_sched.api.scheduler import (
    answers,
    capacity,
    compute_nodes,
    decisions,
    hosts,
    instances,
    openapi,
    plan,
    select_destinations,
)
from placement_sched.api.versions import Version, Versioning
from placement_sched.errors import Error

#: Resources below ``/v1/``.
_COLLECTIONS = ("compute_nodes", "decisions", "hosts", "instances", "plan_runs", "policies")
_SUMMARIES = ("overview", "decision_counts", "aggregate_check")
_OPERATIONS = (
    "select_destinations",
    "explain",
    "plan",
    "rebalance",
    "capacity",
    "failover_capacity",
)

_root_blueprint = Blueprint("root", __name__)


@_root_blueprint.get("/", policy="scheduler:root:show", answer=answers.ROOT)
def index(call: ApiCall) -> ApiResponse:
    """List the resources at the root of the API."""
    return show(call)


@_root_blueprint.get("/v1", policy="scheduler:root:show", answer=answers.ROOT)
@_root_blueprint.get("/v1/", policy="scheduler:root:show", answer=answers.ROOT)
def show(call: ApiCall) -> ApiResponse:
    """List the resources and their addresses."""
    links = {name: f"{call.base}/v1/{name}" for name in (*_COLLECTIONS, *_SUMMARIES, *_OPERATIONS)}
    return ApiResponse(body={"id": "v1", "status": "CURRENT", "resources": links})


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


API = Api(
    "scheduler",
    SchedulerStyle(),
    (
        _root_blueprint,
        capacity.blueprint,
        compute_nodes.blueprint,
        decisions.blueprint,
        capacity.failover_blueprint,
        hosts.blueprint,
        instances.blueprint,
        openapi.blueprint,
        plan.blueprint,
        plan.runs_blueprint,
        select_destinations.blueprint,
    ),
)
