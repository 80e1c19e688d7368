"""Schemas of resource providers (Placement API reference, "Resource providers")."""

from typing import Any

from placement_sched.api.schema import Schemas

_NAME = {"type": "string", "maxLength": 200}
_UUID = {"type": "string", "format": "uuid"}
_PARENT = {"anyOf": [_UUID, {"type": "null"}]}

# In a query a uuid has to be written with its hyphens.
_HYPHENATED = {
    "type": "string",
    "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
}
_TEXT = {"type": "string"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_PUT = {"name": _NAME}
# An existing provider may be given an empty name, a new one may not.
_POST = {"name": {**_NAME, "minLength": 1}, "uuid": _UUID}
_NESTED = {"parent_provider_uuid": _PARENT}

POST = Schemas(
    ((1, 0), _object(_POST, "name")),
    ((1, 14), _object({**_POST, **_NESTED}, "name")),
)

PUT = Schemas(
    ((1, 0), _object(_PUT, "name")),
    ((1, 14), _object({**_PUT, **_NESTED}, "name")),
)

_LIST_1_0 = {"name": _TEXT, "uuid": _HYPHENATED}
_LIST_1_3 = {**_LIST_1_0, "member_of": _TEXT}
_LIST_1_4 = {**_LIST_1_3, "resources": _TEXT}
_LIST_1_14 = {**_LIST_1_4, "in_tree": _HYPHENATED}
_LIST_1_18 = {**_LIST_1_14, "required": _TEXT}

LIST = Schemas(
    ((1, 0), _object(_LIST_1_0)),
    ((1, 3), _object(_LIST_1_3)),
    ((1, 4), _object(_LIST_1_4)),
    ((1, 14), _object(_LIST_1_14)),
    ((1, 18), _object(_LIST_1_18)),
)
