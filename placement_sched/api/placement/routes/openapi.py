"""The OpenAPI document of the Placement API, made from its route table."""

from typing import cast

from flask import current_app

from placement_sched.api import openapi
from placement_sched.api.blueprint import Blueprint, Face, Route
from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.conventions import INTEGER, TEXT, UPPER_CASE, UUID, record
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.schemas.parts import a_list, an_object

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
_SHOWN: Json = {
    **_REQUIRED,
    "status": INTEGER,
    # The caller's, where it sent one.
    "global_request_id": TEXT,
    # What is served, where a microversion asked for is not.
    "min_version": TEXT,
    "max_version": TEXT,
}
# Absent where a request is refused before its microversion is known.
_CODE: Json = {"code": {"type": "string", "pattern": "^placement\\."}}


def _errors(properties: Json) -> Json:
    return record(errors=a_list(an_object(properties, *_REQUIRED), minItems=1))


ERRORS = Schemas((mv.OLDEST, _errors(_SHOWN)), (mv.ERROR_CODES, _errors({**_SHOWN, **_CODE})))


@blueprint.get("/openapi.json", public=True, dated=False, answer=SHOW_ANSWER)
def show(call: Call) -> Answer:
    """Return the OpenAPI document of the microversion asked for, without one of the newest."""
    version = mv.VERSIONING.negotiate(call.headers, legacy="latest")
    face = cast("Face", current_app.blueprints["placement"])
    return Answer(body=openapi.document(describe(face.routes), version, call.base or "/"))


def describe(routes: tuple[Route, ...]) -> openapi.Description:
    """Return what the document describes: the routes of every noun."""
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
