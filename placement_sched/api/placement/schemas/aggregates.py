"""Schemas of a provider's aggregates ("Resource provider aggregates" of the API reference)."""

from placement_sched.api.placement.schemas.parts import INTEGER, UUID, listing, record
from placement_sched.api.schema import Schemas

_UUIDS = {"type": "array", "items": {"type": "string", "format": "uuid"}, "uniqueItems": True}

PUT = Schemas(
    ((1, 1), _UUIDS),
    (
        (1, 19),
        {
            "type": "object",
            "properties": {
                "aggregates": _UUIDS,
                "resource_provider_generation": {"type": "integer"},
            },
            "required": ["aggregates", "resource_provider_generation"],
            "additionalProperties": False,
        },
    ),
)

ANSWER = Schemas(
    ((1, 1), record(aggregates=listing(UUID))),
    ((1, 19), record(aggregates=listing(UUID), resource_provider_generation=INTEGER)),
)
