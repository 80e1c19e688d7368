"""What the bodies of allocation writes look like, by microversion."""

from typing import Any

from placement_sched.api.placement.schemas.parts import (
    AMOUNTS,
    INTEGER,
    NAME,
    TEXT,
    UUID_KEY,
    keyed,
    record,
)
from placement_sched.api.schema import Json, Schemas

_OWNER: Json = {"type": "string", "minLength": 1, "maxLength": 255}
_RESOURCES: Json = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {NAME: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_LIST: Json = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "resource_provider": {
                "type": "object",
                "properties": {"uuid": {"type": "string", "format": "uuid"}},
                "additionalProperties": False,
                "required": ["uuid"],
            },
            "resources": _RESOURCES,
        },
        "required": ["resource_provider", "resources"],
        "additionalProperties": False,
    },
}
# The generation is what GET shows; it is taken, and not looked at.
_BY_PROVIDER: Json = {
    "type": "object",
    "patternProperties": {
        UUID_KEY: {
            "type": "object",
            "properties": {"generation": {"type": "integer"}, "resources": _RESOURCES},
            "required": ["resources"],
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
_MAPPINGS: Json = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        "^[a-zA-Z0-9_-]+$": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "uuid"},
        }
    },
}


def _claim(allocations: Json, **more: Json) -> dict[str, Any]:
    """Return the schema of one consumer's claim; everything but ``mappings`` is required."""
    properties = {"allocations": allocations, **more}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name != "mappings"],
        "additionalProperties": False,
    }


def _by_consumer(claim: Json) -> dict[str, Any]:
    return {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {UUID_KEY: claim},
        "additionalProperties": False,
    }


_OWNERS: dict[str, Json] = {"project_id": _OWNER, "user_id": _OWNER}
_V1_28: dict[str, Json] = {**_OWNERS, "consumer_generation": {"type": ["integer", "null"]}}
_V1_34: dict[str, Json] = {**_V1_28, "mappings": _MAPPINGS}
_V1_38: dict[str, Json] = {
    **_V1_34,
    "consumer_type": {"type": "string", "pattern": NAME, "minLength": 1, "maxLength": 255},
}

#: Claims of consumers by uuid as ``POST /allocations`` and the reshaper take them, by version.
BY_CONSUMER: dict[tuple[int, int], dict[str, Any]] = {
    (1, 13): _by_consumer(_claim(_BY_PROVIDER, **_OWNERS)),
    (1, 28): _by_consumer(_claim(_BY_PROVIDER, **_V1_28)),
    (1, 34): _by_consumer(_claim(_BY_PROVIDER, **_V1_34)),
    (1, 38): _by_consumer(_claim(_BY_PROVIDER, **_V1_38)),
}

POST = Schemas(*BY_CONSUMER.items())

PUT = Schemas(
    ((1, 0), _claim(_LIST)),
    ((1, 8), _claim(_LIST, **_OWNERS)),
    ((1, 12), _claim({**_BY_PROVIDER, "minProperties": 1}, **_OWNERS)),
    ((1, 28), _claim(_BY_PROVIDER, **_V1_28)),
    ((1, 34), _claim(_BY_PROVIDER, **_V1_34)),
    ((1, 38), _claim(_BY_PROVIDER, **_V1_38)),
)

_HELD = keyed(UUID_KEY, record(generation=INTEGER, resources=AMOUNTS))


def _holding(**owner: Json) -> Json:
    """Return the schema of what a consumer holds; only one that holds something has an owner."""
    return {
        "type": "object",
        "properties": {"allocations": _HELD, **owner},
        "required": ["allocations"],
        "dependentRequired": {name: list(owner) for name in owner},
        "additionalProperties": False,
    }


OF_CONSUMER_ANSWER = Schemas(
    ((1, 0), _holding()),
    ((1, 12), _holding(project_id=TEXT, user_id=TEXT)),
    ((1, 28), _holding(project_id=TEXT, user_id=TEXT, consumer_generation=INTEGER)),
    (
        (1, 38),
        _holding(project_id=TEXT, user_id=TEXT, consumer_generation=INTEGER, consumer_type=TEXT),
    ),
)


def _of_provider(held: Json) -> Json:
    return record(allocations=keyed(UUID_KEY, held), resource_provider_generation=INTEGER)


OF_PROVIDER_ANSWER = Schemas(
    ((1, 0), _of_provider(record(resources=AMOUNTS))),
    ((1, 28), _of_provider(record(resources=AMOUNTS, consumer_generation=INTEGER))),
)
