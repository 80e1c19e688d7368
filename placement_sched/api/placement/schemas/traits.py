"""Schemas of traits (Placement API reference, "Traits" and "Resource provider traits")."""

from placement_sched.api.placement.schemas.parts import INTEGER, UPPER_CASE, listing, record
from placement_sched.api.schema import Schemas

LIST = Schemas(
    (
        (1, 6),
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "associated": {"type": "string"}},
            "additionalProperties": False,
        },
    )
)

PUT_ON_PROVIDER = Schemas(
    (
        (1, 6),
        {
            "type": "object",
            "properties": {
                "traits": {
                    "type": "array",
                    # What no trait could be called is told as a trait that there is not.
                    "items": {"type": "string", "minLength": 1, "maxLength": 255},
                },
                "resource_provider_generation": {"type": "integer"},
            },
            "required": ["traits", "resource_provider_generation"],
            "additionalProperties": False,
        },
    )
)

_NAMES = listing(UPPER_CASE)

LIST_ANSWER = Schemas(((1, 6), record(traits=_NAMES)))

ON_PROVIDER_ANSWER = Schemas(((1, 6), record(traits=_NAMES, resource_provider_generation=INTEGER)))
