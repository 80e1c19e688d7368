# SPDX-License-Identifier: Apache-2.0
"""Schemas of simulated changes, as ``{"drain": [...]}``: objects with a single key."""

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
    list_schema,
    map_schema,
    nullable,
    object_schema,
)

_HOSTS = list_schema(NAME, minItems=1, maxItems=MAX_CHANGED_HOSTS)

#: The schema of each kind of change, by its key.
KINDS: Json = {
    "drain": _HOSTS,
    "remove": _HOSTS,
    "add": object_schema({"like": NAME, "count": {**COUNT, "maximum": MAX_HOST_COPIES}}, "like"),
    "inventory": object_schema(
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
    "aggregate": object_schema(
        {
            "name": NAME,
            "add_hosts": list_schema(NAME, maxItems=MAX_CHANGED_HOSTS),
            "remove_hosts": list_schema(NAME, maxItems=MAX_CHANGED_HOSTS),
            "metadata": {
                **map_schema(fields.KEY, nullable(fields.VALUE)),
                "maxProperties": MAX_AGGREGATE_METADATA,
            },
        },
        "name",
    ),
}

#: A list of changes. The reader rejects an unknown key and suggests the nearest valid key.
CHANGES: Json = nullable(
    list_schema(
        {"type": "object", "properties": KINDS, "minProperties": 1, "maxProperties": 1},
        maxItems=MAX_CHANGES,
    )
)
