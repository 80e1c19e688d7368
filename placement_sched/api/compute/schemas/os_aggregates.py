"""Bodies of host aggregate requests (compute API reference, "Host aggregates")."""

from typing import Any

from placement_sched.api.schema import Schemas
from placement_sched.model import naming

_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "format": "printable-name"}
_ZONE = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 255,
    "format": "printable-name",
    "pattern": naming.ZONE,
}
_HOST = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": naming.HOST}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _wrapped(key: str, inner: dict[str, Any]) -> Schemas:
    return Schemas(((2, 1), _object({key: inner}, required=[key])))


_FIELDS = {"name": _NAME, "availability_zone": _ZONE}

CREATE = _wrapped("aggregate", _object(_FIELDS, required=["name"]))
UPDATE = _wrapped("aggregate", _object(_FIELDS, minProperties=1))
ADD_HOST = _wrapped("add_host", _object({"host": _HOST}, required=["host"]))
REMOVE_HOST = _wrapped("remove_host", _object({"host": _HOST}, required=["host"]))

_VALUE = {"type": ["string", "null"], "maxLength": 255}
_METADATA = {
    "type": "object",
    "patternProperties": {naming.KEY: _VALUE},
    "additionalProperties": False,
}
SET_METADATA = _wrapped("set_metadata", _object({"metadata": _METADATA}, required=["metadata"]))

_IMAGE = _object({"id": {"type": "string", "format": "uuid"}}, required=["id"])
IMAGES = Schemas(
    (
        (2, 81),
        _object({"cache": {"type": "array", "minItems": 1, "items": _IMAGE}}, required=["cache"]),
    )
)
