"""Schemas of resource providers (Placement API reference, "Resource providers")."""

from typing import Any

from placement_sched.api.placement.schemas.parts import (
    INTEGER,
    TEXT,
    UUID,
    UUID_OR_NULL,
    links,
    listing,
    record,
)
from placement_sched.api.schema import REPEATED, Json, Schemas

_NAME = {"type": "string", "maxLength": 200}

# In a query a uuid has to be written with its hyphens.
_HYPHENATED = {
    "type": "string",
    "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
}
_TEXT = {"type": "string"}
_TEXTS = {**_TEXT, REPEATED: True}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_PUT = {"name": _NAME}
# An existing provider may be given an empty name, a new one may not.
_POST = {"name": {**_NAME, "minLength": 1}, "uuid": UUID}
_NESTED = {"parent_provider_uuid": UUID_OR_NULL}

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
_LIST_1_24 = {**_LIST_1_18, "member_of": _TEXTS}
_LIST_1_39 = {**_LIST_1_24, "required": _TEXTS}

LIST = Schemas(
    ((1, 0), _object(_LIST_1_0)),
    ((1, 3), _object(_LIST_1_3)),
    ((1, 4), _object(_LIST_1_4)),
    ((1, 14), _object(_LIST_1_14)),
    ((1, 18), _object(_LIST_1_18)),
    ((1, 24), _object(_LIST_1_24)),
    ((1, 39), _object(_LIST_1_39)),
)


def _shown(*relations: str, **more: Json) -> Json:
    """Return the schema of a provider with these links beside those of 1.0."""
    return record(
        uuid=UUID,
        name=TEXT,
        generation=INTEGER,
        links=links("self", "inventories", "usages", *relations),
        **more,
    )


_TREE: dict[str, Json] = {"parent_provider_uuid": UUID_OR_NULL, "root_provider_uuid": UUID}
_SHOWN: dict[tuple[int, int], Json] = {
    (1, 0): _shown(),
    (1, 1): _shown("aggregates"),
    (1, 6): _shown("aggregates", "traits"),
    (1, 11): _shown("aggregates", "traits", "allocations"),
    (1, 14): _shown("aggregates", "traits", "allocations", **_TREE),
}

ANSWER = Schemas(*_SHOWN.items())

LIST_ANSWER = Schemas(
    *((since, record(resource_providers=listing(one))) for since, one in _SHOWN.items())
)
