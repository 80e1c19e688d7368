"""Pieces of which the schemas of the scheduler API are made."""

from typing import Any

from placement_sched.model.inventory import MAX_INT

Json = dict[str, Any]

#: Host, node and project names as nova's columns keep them.
NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": "^[^\\x00-\\x1f\\x7f]*$",
}
NULLABLE_NAME: Json = {**NAME, "type": ["string", "null"]}
TEXT: Json = {"type": "string", "maxLength": 255, "pattern": "^[^\\x00-\\x1f\\x7f]*$"}
NULLABLE_TEXT: Json = {**TEXT, "type": ["string", "null"]}
UUID: Json = {"type": "string", "format": "uuid"}
NULLABLE_UUID: Json = {"type": ["string", "null"], "format": "uuid"}
BOOLEAN: Json = {"type": "boolean"}
AMOUNT: Json = {"type": "integer", "minimum": 0, "maximum": MAX_INT}
COUNT: Json = {"type": "integer", "minimum": 1, "maximum": MAX_INT}


def an_object(properties: Json, *required: str) -> Json:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def a_list(items: Json, **limits: Any) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **limits}


def or_null(schema: Json) -> Json:
    """Return the schema of the same value or null, so that a fault inside is still told inside."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    changed: Json = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        changed["enum"] = [*schema["enum"], None]
    return changed


def or_id(schema: Json) -> Json:
    """Return the schema of the same object, or the id or name of a stored one."""
    return {**schema, "type": [schema["type"], "string"], "minLength": 1, "maxLength": 255}


#: How a list is narrowed to a page: at most ``limit`` from behind the one that ``marker`` names.
PAGING: Json = {
    "limit": {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
    "marker": UUID,
}
