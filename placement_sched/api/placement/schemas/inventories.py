"""Schemas of inventories (Placement API reference, "Resource provider inventories")."""

from typing import Any

from placement_sched.api.placement.schemas.parts import INTEGER, keyed, record
from placement_sched.api.schema import Json, Schemas
from placement_sched.model.inventory import MAX_INT

#: The pattern of every resource class name.
CLASS_NAME = "^[A-Z0-9_]+$"

# As large as the FLOAT column of the placement schema takes on MySQL.
_MAX_FLOAT = 3.40282e38

_INTEGER = {"type": "integer"}


def _amount(minimum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": MAX_INT}


_PROPERTIES = {
    # Taken inside an inventory too, where it means nothing.
    "resource_provider_generation": _INTEGER,
    "total": _amount(1),
    "reserved": _amount(0),
    "min_unit": _amount(1),
    "max_unit": _amount(1),
    "step_size": _amount(1),
    "allocation_ratio": {"type": "number", "minimum": -_MAX_FLOAT, "maximum": _MAX_FLOAT},
}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


#: Inventories by resource class, as a whole body and inside a reshape. What no class could be
#: called is told as a class that there is not.
BY_CLASS = {"type": "object", "additionalProperties": _object(_PROPERTIES, "total")}

_CLASS = {"type": "string", "pattern": CLASS_NAME}

POST = Schemas(
    ((1, 0), _object({**_PROPERTIES, "resource_class": _CLASS}, "resource_class", "total"))
)

PUT_ONE = Schemas(((1, 0), _object(_PROPERTIES, "total", "resource_provider_generation")))

PUT = Schemas(
    (
        (1, 0),
        _object(
            {"resource_provider_generation": _INTEGER, "inventories": BY_CLASS},
            "resource_provider_generation",
            "inventories",
        ),
    )
)

_SHOWN: dict[str, Json] = {
    **dict.fromkeys(("total", "reserved", "min_unit", "max_unit", "step_size"), INTEGER),
    "allocation_ratio": {"type": "number"},
}

ANSWER = Schemas(
    (
        (1, 0),
        record(
            resource_provider_generation=INTEGER,
            inventories=keyed(CLASS_NAME, record(**_SHOWN)),
        ),
    )
)

ONE_ANSWER = Schemas(((1, 0), record(**_SHOWN, resource_provider_generation=INTEGER)))
