"""What the body of a reshape looks like, by microversion."""

from typing import Any

from placement_sched.api.placement.schemas.allocations import BY_CONSUMER
from placement_sched.api.placement.schemas.inventories import BY_CLASS
from placement_sched.api.placement.schemas.parts import UUID_KEY
from placement_sched.api.schema import Json, Schemas

_INVENTORIES: Json = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        UUID_KEY: {
            "type": "object",
            "properties": {
                "resource_provider_generation": {"type": "integer"},
                "inventories": BY_CLASS,
            },
            "required": ["resource_provider_generation", "inventories"],
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}


def _reshape(claims: Json) -> dict[str, Any]:
    """Return the schema of a reshape; it may move inventories alone."""
    return {
        "type": "object",
        "properties": {
            "inventories": _INVENTORIES,
            "allocations": {**claims, "minProperties": 0},
        },
        "required": ["inventories", "allocations"],
        "additionalProperties": False,
    }


POST = Schemas(
    ((1, 30), _reshape(BY_CONSUMER[1, 28])),
    ((1, 34), _reshape(BY_CONSUMER[1, 34])),
    ((1, 38), _reshape(BY_CONSUMER[1, 38])),
)
