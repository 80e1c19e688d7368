# SPDX-License-Identifier: Apache-2.0
"""OpenAPI document of the Placement API, built from its routes."""

from typing import cast

from flask import current_app

from placement_sched.api import openapi
from placement_sched.api.blueprint import Api, Blueprint, Route
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.responses import INTEGER, TEXT, UPPER_CASE, UUID, strict_object
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.schemas.parts import list_schema, object_schema

blueprint = Blueprint("openapi", __name__)

_OBJECT = {"type": "object"}
SHOW_ANSWER = Schemas(
    {
        "type": "object",
        "properties": {
            "openapi": {"type": "string", "pattern": r"^3\.1\.[0-9]+$"},
            "info": _OBJECT,
            "paths": _OBJECT,
        },
        "required": ["openapi", "info", "paths"],
    }
)

_REQUIRED: Json = dict.fromkeys(("status", "title", "detail", "request_id"), TEXT)
_PROPERTIES: Json = {
    **_REQUIRED,
    "status": INTEGER,
    # Present if the caller sent it.
    "global_request_id": TEXT,
    # Present if the requested microversion is not supported.
    "min_version": TEXT,
    "max_version": TEXT,
}
# Absent if a request is rejected before its microversion is parsed.
_CODE: Json = {"code": {"type": "string", "pattern": "^placement\\."}}


def _errors_schema(properties: Json) -> Json:
    return strict_object(errors=list_schema(object_schema(properties, *_REQUIRED), minItems=1))


ERRORS = Schemas(
    (mv.OLDEST, _errors_schema(_PROPERTIES)),
    (mv.ERROR_CODES, _errors_schema({**_PROPERTIES, **_CODE})),
)


@blueprint.get("/openapi.json", public=True, dated=False, answer=SHOW_ANSWER)
def show(call: ApiCall) -> ApiResponse:
    """Show the OpenAPI document of the requested microversion, by default the newest."""
    version = mv.VERSIONING.negotiate(call.headers, legacy="latest")
    api = cast("Api", current_app.blueprints["placement"])
    return ApiResponse(body=openapi.document(describe(api.routes), version, call.base or "/"))


def describe(routes: tuple[Route, ...]) -> openapi.Description:
    """Build the description of the routes for the OpenAPI document."""
    return openapi.Description(
        title="Placement API",
        service=mv.VERSIONING.service,
        routes=routes,
        names={
            **dict.fromkeys(("uuid", "consumer_uuid"), UUID),
            **dict.fromkeys(("resource_class", "name"), UPPER_CASE),
        },
        errors=ERRORS,
        dated_since=mv.LAST_MODIFIED,
    )
