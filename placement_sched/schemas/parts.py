"""Schemas of which others are made, and flavors and images as requests and records have them."""

from typing import Any

from placement_sched.limits import MAX_EXTRA_SPECS, MAX_REQUEST_IMAGE_PROPERTIES
from placement_sched.model.document import Json
from placement_sched.model.provider import MAX_INT

#: Host, node and project names as nova's columns keep them.
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


def an_object(properties: Json, *required: str) -> Json:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def a_mapping(names: Json, values: Json) -> Json:
    """Return the schema of an object whose keys are free."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def a_list(items: Json, **limits: Any) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **limits}


def or_null(schema: Json) -> Json:
    """Return the schema of the same value or null, so that errors inside keep their place."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    changed: Json = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        changed["enum"] = [*schema["enum"], None]
    return changed


def or_id(schema: Json) -> Json:
    """Return the schema of the same object, or the id or name of a stored one."""
    return {**schema, "type": [schema["type"], "string"], "minLength": 1, "maxLength": 255}


#: How a list is narrowed to a page: at most ``limit`` after the one that ``marker`` names.
PAGING: Json = {"limit": {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}, "marker": UUID}

#: nova's Flavor: memory and swap in MB, disks in GB. The compute API writes no swap as "".
FLAVOR: Json = an_object(
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
        "description": or_null({"type": "string"}),
    }
)

#: What a property may be: glance keeps text, up to 65 535 bytes, other clients send what JSON has
#: for it.
_PROPERTY: Json = {"type": ["string", "number", "boolean", "null"], "maxLength": 65535}
#: The properties that nova keeps as lists of objects, under their names of then and now.
_LISTS = ("block_device_mapping", "img_block_device_mapping", "img_mappings", "mappings")

_SIZE: Json = {"type": ["integer", "null"], "minimum": 0}

#: glance's image: ``min_ram`` in MB, ``min_disk`` in GB, properties as they are kept.
IMAGE: Json = an_object(
    {
        **dict.fromkeys(("id", "name", "status", "visibility", "owner"), NULLABLE_TEXT),
        **dict.fromkeys(("disk_format", "container_format"), NULLABLE_TEXT),
        **dict.fromkeys(("size", "virtual_size"), _SIZE),
        **dict.fromkeys(("min_ram", "min_disk"), or_null(AMOUNT)),
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
