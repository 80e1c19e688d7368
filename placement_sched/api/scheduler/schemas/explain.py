"""Schema of ``POST /explain``."""

from placement_sched.api.scheduler.schemas.parts import (
    AMOUNT,
    NAME,
    Json,
    a_list,
    an_object,
    or_null,
)
from placement_sched.api.scheduler.schemas.select_destinations import PLACING
from placement_sched.api.schema import Schemas

#: An option's value in JSON; whether it is of the option's type, the settings tell.
_VALUE: Json = {
    "type": ["string", "number", "boolean", "array"],
    "items": {"type": ["string", "number", "boolean"]},
}

POST = Schemas(
    (
        (1, 0),
        an_object(
            {
                **PLACING,
                "overrides": or_null({"type": "object", "additionalProperties": _VALUE}),
                "hosts": or_null(a_list(NAME)),
                "max_rejected": AMOUNT,
                "policy": or_null(NAME),
            },
            "request_spec",
        ),
    )
)
