"""Schemas of resource classes (Placement API reference, "Resource classes")."""

from placement_sched.api.placement.schemas.parts import UPPER_CASE, links, listing, record
from placement_sched.api.schema import Schema, Schemas
from placement_sched.model.resource_class import CUSTOM_PREFIX

_BY_NAME = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": f"^{CUSTOM_PREFIX}[A-Z0-9_]+$", "maxLength": 255}
    },
    "required": ["name"],
    "additionalProperties": False,
}

POST = Schemas(((1, 2), _BY_NAME))

#: A renaming; from 1.7 on PUT takes no body.
PUT = Schemas(((1, 2), _BY_NAME))

#: What 1.7 asks of a name that stands in the path.
NAMED = Schema(_BY_NAME)

_SHOWN = record(name=UPPER_CASE, links=links("self"))

LIST_ANSWER = Schemas(((1, 2), record(resource_classes=listing(_SHOWN))))

ANSWER = Schemas(((1, 2), _SHOWN))
