"""What every refusal of the Placement API looks like, by microversion."""

from typing import Any

from placement_sched.api.placement.schemas.parts import INTEGER, TEXT
from placement_sched.api.schema import Json, Schemas

_TOLD: dict[str, Json] = {
    "status": INTEGER,
    "title": TEXT,
    "detail": TEXT,
    "request_id": TEXT,
    # The caller's, where it sent one.
    "global_request_id": TEXT,
    # What is served, where a microversion asked for is not.
    "min_version": TEXT,
    "max_version": TEXT,
}
# Absent where a request is refused before its microversion is known.
_CODE: dict[str, Json] = {"code": {"type": "string", "pattern": "^placement\\."}}


def _errors(properties: dict[str, Json]) -> dict[str, Any]:
    error = {
        "type": "object",
        "properties": properties,
        "required": ["status", "title", "detail", "request_id"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"errors": {"type": "array", "items": error, "minItems": 1}},
        "required": ["errors"],
        "additionalProperties": False,
    }


ERRORS = Schemas(((1, 0), _errors(_TOLD)), ((1, 23), _errors({**_TOLD, **_CODE})))
