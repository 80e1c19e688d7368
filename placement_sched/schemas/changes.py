"""Schemas of simulated changes: ``{"drain": [...]}`` and others, each object with one key."""

from placement_sched.limits import (
    MAX_AGGREGATE_METADATA,
    MAX_CHANGED_HOSTS,
    MAX_CHANGES,
    MAX_HOST_COPIES,
)
from placement_sched.model.document import Json
from placement_sched.schemas import fields
from placement_sched.schemas.parts import (
    AMOUNT,
    COUNT,
    NAME,
    a_list,
    a_mapping,
    an_object,
    nullable,
)

_HOSTS = a_list(NAME, minItems=1, maxItems=MAX_CHANGED_HOSTS)

#: The schema of each kind of change, by its key.
KINDS: Json = {
    "drain": _HOSTS,
    "remove": _HOSTS,
    "add": an_object({"like": NAME, "count": {**COUNT, "maximum": MAX_HOST_COPIES}}, "like"),
    "inventory": an_object(
        {
            "host": NAME,
            "provider": NAME,
            "resource_class": fields.SYMBOL,
            "total": AMOUNT,
            "reserved": AMOUNT,
            "allocation_ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
        },
        "host",
        "resource_class",
    ),
    "aggregate": an_object(
        {
            "name": NAME,
            "add_hosts": a_list(NAME, maxItems=MAX_CHANGED_HOSTS),
            "remove_hosts": a_list(NAME, maxItems=MAX_CHANGED_HOSTS),
            "metadata": {
                **a_mapping(fields.KEY, nullable(fields.VALUE)),
                "maxProperties": MAX_AGGREGATE_METADATA,
            },
        },
        "name",
    ),
}

#: A list of changes. The reader rejects an unknown key and suggests the nearest valid key.
CHANGES: Json = nullable(
    a_list(
        {"type": "object", "properties": KINDS, "minProperties": 1, "maxProperties": 1},
        maxItems=MAX_CHANGES,
    )
)
