# SPDX-License-Identifier: Apache-2.0
"""Common parts of schemas, and flavors and images in requests and records."""

from typing import Any

from placement_sched.limits import MAX_EXTRA_SPECS, MAX_REQUEST_IMAGE_PROPERTIES
from placement_sched.model.document import Json
from placement_sched.model.provider import MAX_INT

#: Names of hosts, nodes and projects, as in nova's columns.
NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": "^[^\\x00-\\x1f\\x7f]*$",
}
NULLABLE_NAME: Json = {**NAME, "type": ["string", "null"]}
TEXT: Json = {"type": "string", "maxLength": 255, "pattern": "^[^\\x00-\\x1f\\x7f]*$"}
NULLABLE_TEXT: Json = {**TEXT, "type": ["string", "null"]}
UUID: Json = {"type": "string", "format": "uuid"}
NULLABLE_UUID: Json = {"type": ["string", "null"], "format": "uuid"}
BOOLEAN: Json = {"type": "boolean"}
AMOUNT: Json = {"type": "integer", "minimum": 0, "maximum": MAX_INT}
COUNT: Json = {"type": "integer", "minimum": 1, "maximum": MAX_INT}


def object_schema(properties: Json, *required: str) -> Json:
    """Build the schema of an object with only these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def map_schema(names: Json, values: Json) -> Json:
    """Build the schema of an object with arbitrary keys."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def list_schema(items: Json, **limits: Any) -> Json:
    """Build the schema of a list."""
    return {"type": "array", "items": items, **limits}


def nullable(schema: Json) -> Json:
    """Extend a schema by null.

    Errors inside the value keep their path.
    """
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    extended: Json = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        extended["enum"] = [*schema["enum"], None]
    return extended


def nullable_id(schema: Json) -> Json:
    """Build the schema of an object itself, or of a stored object's id or name."""
    return {**schema, "type": [schema["type"], "string"], "minLength": 1, "maxLength": 255}


#: Parameters of a page of a list: at most ``limit`` entries after the entry ``marker``.
PAGING: Json = {"limit": {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}, "marker": UUID}

#: nova's Flavor: memory and swap in MB, disks in GB. In the compute API, "" means no swap.
FLAVOR: Json = object_schema(
    {
        "id": {"type": ["string", "integer", "null"]},
        "flavorid": NULLABLE_TEXT,
        "name": TEXT,
        **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), AMOUNT),
        "swap": {**AMOUNT, "type": ["integer", "string"], "pattern": "^$"},
        "extra_specs": {
            "type": ["object", "null"],
            "maxProperties": MAX_EXTRA_SPECS,
            "propertyNames": {"minLength": 1, "maxLength": 255},
            "additionalProperties": {"type": ["string", "number"], "maxLength": 255},
        },
        "rxtx_factor": {"type": ["number", "null"]},
        "vcpu_weight": {"type": ["integer", "null"]},
        **dict.fromkeys(("disabled", "is_public"), BOOLEAN),
        "description": nullable({"type": "string"}),
    }
)

#: A property. glance stores text of up to 65 535 bytes. Other clients also send JSON numbers,
#: booleans and null.
_PROPERTY: Json = {"type": ["string", "number", "boolean", "null"], "maxLength": 65535}
#: Properties that nova stores as lists of objects, with their old and new names.
_LISTS = ("block_device_mapping", "img_block_device_mapping", "img_mappings", "mappings")

_SIZE: Json = {"type": ["integer", "null"], "minimum": 0}

#: glance's image: ``min_ram`` in MB, ``min_disk`` in GB, properties as stored.
IMAGE: Json = object_schema(
    {
        **dict.fromkeys(("id", "name", "status", "visibility", "owner"), NULLABLE_TEXT),
        **dict.fromkeys(("disk_format", "container_format"), NULLABLE_TEXT),
        **dict.fromkeys(("size", "virtual_size"), _SIZE),
        **dict.fromkeys(("min_ram", "min_disk"), nullable(AMOUNT)),
        "tags": {"type": ["array", "null"], "items": TEXT},
        "properties": {
            "type": ["object", "null"],
            "maxProperties": MAX_REQUEST_IMAGE_PROPERTIES,
            "propertyNames": {"minLength": 1, "maxLength": 255},
            "properties": {
                name: {"type": ["array", "null"], "items": {"type": "object"}} for name in _LISTS
            },
            "additionalProperties": _PROPERTY,
        },
    }
)
