# SPDX-License-Identifier: Apache-2.0
"""OpenAPI document of the scheduler API, built from its routes."""

from typing import cast

from flask import current_app

from placement_sched.api import openapi
from placement_sched.api.blueprint import Api, Blueprint, Route
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.placement.openapi import SHOW_ANSWER
from placement_sched.api.response import JSON
from placement_sched.api.scheduler import answers, compute_nodes, instances
from placement_sched.api.scheduler.request_schema import REQUEST_SPEC
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.schemas.node_report import SENT_REPORT
from placement_sched.schemas.parts import NAME, UUID, list_schema

blueprint = Blueprint("openapi", __name__)

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
        "funnel": answers.FUNNEL,
        "decision": UUID,
    },
    "required": list(_FIELDS),
}
ERRORS = Schemas(
    {
        "type": "object",
        "properties": {"errors": list_schema(_ERROR, minItems=1)},
        "required": ["errors"],
    }
)


@blueprint.get("/v1/openapi.json", public=True, answer=SHOW_ANSWER)
def show(call: ApiCall) -> ApiResponse:
    """Show the OpenAPI document of this API."""
    api = cast("Api", current_app.blueprints["scheduler"])
    return ApiResponse(body=openapi.document(describe(api.routes), call.version, call.base or "/"))


def describe(routes: tuple[Route, ...]) -> openapi.Description:
    """Build the description of the routes for the OpenAPI document."""
    return openapi.Description(
        title="Scheduler API",
        service="scheduler",
        routes=routes,
        names={**dict.fromkeys(("host", "name"), NAME), "uuid": UUID, "instance": UUID},
        errors=ERRORS,
        error_types=(JSON,),
        about="Clients ignore unknown keys of answers.",
        schemas={
            "RequestSpec": REQUEST_SPEC,
            "NodeReport": SENT_REPORT,
            "Node": compute_nodes.NODE,
            "Instance": instances.INSTANCE,
            "Selection": answers.SELECTION,
            "Funnel": answers.FUNNEL,
            "Explanation": answers.EXPLANATION,
            "Decision": answers.DECISION,
        },
    )
