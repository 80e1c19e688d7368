# SPDX-License-Identifier: Apache-2.0
"""Scheduler API: conventions, root and OpenAPI documents, and routes."""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from itertools import chain
from typing import cast

from flask import current_app

from placement_sched.api import openapi
from placement_sched.api.placement.routes import OPENAPI_RESPONSE, PlacementConventions
from placement_sched.api.request import JSON
from placement_sched.api.routing import Api, ApiCall, ApiResponse, Blueprint, ErrorContext, Route
from placement_sched.api.scheduler import (
    compute_nodes,
    decisions,
    hosts,
    instances,
    responses,
    scheduling,
)
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version, Versioning
from placement_sched.errors import Error
from placement_sched.model.document import Json
from placement_sched.model.extension import load_hooks
from placement_sched.schemas.node_report import SENT_REPORT
from placement_sched.schemas.parts import NAME, UUID, build_list_schema
from placement_sched.schemas.request_spec import REQUEST_SPEC

openapi_blueprint = Blueprint("openapi", __name__)

_TEXT: Json = {"type": "string"}
_FIELDS = ("status", "title", "detail", "code", "request_id")
_ERROR: Json = {
    "type": "object",
    "properties": {
        **dict.fromkeys((*_FIELDS, "global_request_id"), _TEXT),
        "status": {"type": "integer"},
        "code": {"type": "string", "pattern": r"^scheduler\."},
        # The invalid value of a 400, and the funnel of a request without a valid host.
        "fault": {"type": "object", "required": ["problem", "path"]},
        "funnel": responses.FUNNEL,
        "decision": UUID,
    },
    "required": list(_FIELDS),
}
ERRORS = Schemas(responses.build_schema({"errors": build_list_schema(_ERROR, minItems=1)}))
#: A path of the API with a single name below ``/v1/``.
_RESOURCE = re.compile(r"/v1/(\w+)")
_root_blueprint = Blueprint("root", __name__)
_PLACEMENT_PREFIX = "placement."
#: Default error codes of this API by status.
DEFAULT_CODES: Mapping[int, str] = {
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
#: Codes of this API for specific error codes of the Placement API.
SCHEDULER_CODES: Mapping[str, str] = {
    "placement.concurrent_update": "scheduler.concurrent_update",
    "placement.duplicate_name": "scheduler.duplicate",
    "placement.query.too_complex": "scheduler.too_complex",
}


@openapi_blueprint.get("/v1/openapi.json", public=True, response=OPENAPI_RESPONSE)
def show_document(call: ApiCall) -> ApiResponse:
    """Show the OpenAPI document of this API."""
    description = describe_openapi(_get_api().routes)
    return ApiResponse(body=openapi.build_document(description, call.version, call.base or "/"))


def _get_api() -> Api:
    return cast("Api", current_app.blueprints["scheduler"])


def describe_openapi(routes: tuple[Route, ...]) -> openapi.Description:
    """Build the description of the routes for the OpenAPI document."""
    return openapi.Description(
        title="Scheduler API",
        service="scheduler",
        routes=routes,
        names={**dict.fromkeys(("host", "name"), NAME), "uuid": UUID, "instance": UUID},
        errors=ERRORS,
        error_types=(JSON,),
        about="Clients ignore unknown keys of responses.",
        schemas={
            "RequestSpec": REQUEST_SPEC,
            "NodeReport": SENT_REPORT,
            "Node": compute_nodes.NODE,
            "Instance": instances.INSTANCE,
            "Selection": responses.SELECTION,
            "RejectionKind": responses.REJECTION_KIND,
            "Funnel": responses.FUNNEL,
            "Explanation": responses.EXPLANATION,
            "Decision": responses.DECISION,
        },
    )


@_root_blueprint.get("/", policy="scheduler:root:show", response=responses.ROOT)
def index(call: ApiCall) -> ApiResponse:
    """List the resources at the root of the API."""
    return show(call)


@_root_blueprint.get("/v1", policy="scheduler:root:show", response=responses.ROOT)
@_root_blueprint.get("/v1/", policy="scheduler:root:show", response=responses.ROOT)
def show(call: ApiCall) -> ApiResponse:
    """List the resources and their addresses."""
    paths = {route.path for route in _get_api().routes}
    names = sorted(match[1] for match in map(_RESOURCE.fullmatch, paths) if match)
    links = {name: f"{call.base}/v1/{name}" for name in names}
    return ApiResponse(body={"id": "v1", "status": "CURRENT", "resources": links})


class SchedulerConventions(PlacementConventions):
    """Placement's conventions with a single version and other error codes."""

    checks_every_value = True

    def __init__(self) -> None:
        super().__init__(Versioning("scheduler", Version(1, 0), Version(1, 0)), codes_since=None)

    def render_error(
        self, error: Error, status: int, title: str, context: ErrorContext
    ) -> ApiResponse:
        """Render an error in placement's JSON format with a code of this API."""
        if error.code.startswith(_PLACEMENT_PREFIX):
            default = DEFAULT_CODES.get(status, DEFAULT_CODES[HTTPStatus.INTERNAL_SERVER_ERROR])
            error.code = SCHEDULER_CODES.get(error.code, default)
        # Even if the client does not accept JSON.
        return self.render_json_error(error, status, title, context)


def build_api(disabled_extensions: Collection[str] = ()) -> Api:
    """Build the API with the routes of the extensions that are not disabled."""
    blueprints = (
        _root_blueprint,
        compute_nodes.blueprint,
        decisions.blueprint,
        hosts.blueprint,
        instances.blueprint,
        openapi_blueprint,
        scheduling.select_blueprint,
        *chain.from_iterable(load_hooks("blueprints", disabled_extensions)),
    )
    return Api("scheduler", SchedulerConventions(), blueprints)


#: The API with the routes of all installed extensions.
API = build_api()
