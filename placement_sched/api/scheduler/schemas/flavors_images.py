"""Flavors and images as they stand in requests and in records of instances."""

from placement_sched.api.scheduler.schemas.parts import (
    AMOUNT,
    BOOLEAN,
    NULLABLE_TEXT,
    TEXT,
    Json,
    an_object,
    or_null,
)

#: nova's Flavor: memory and swap in MB, disks in GB. The compute API writes no swap as "".
FLAVOR: Json = an_object(
    {
        "id": {"type": ["string", "integer", "null"]},
        "flavorid": NULLABLE_TEXT,
        "name": TEXT,
        "vcpus": AMOUNT,
        "memory_mb": AMOUNT,
        "root_gb": AMOUNT,
        "ephemeral_gb": AMOUNT,
        "swap": {"anyOf": [AMOUNT, {"const": ""}]},
        "extra_specs": {
            "type": ["object", "null"],
            "propertyNames": {"minLength": 1, "maxLength": 255},
            "additionalProperties": {"type": ["string", "number"]},
        },
        "rxtx_factor": {"type": ["number", "null"]},
        "vcpu_weight": {"type": ["integer", "null"]},
        "disabled": BOOLEAN,
        "is_public": BOOLEAN,
        "description": or_null({"type": "string"}),
    }
)

#: What a property may be: glance keeps text, other clients send what JSON has for it.
_PROPERTY: Json = {"type": ["string", "number", "boolean", "null"]}
#: The properties that nova keeps as lists of objects, under their names of then and now.
_LISTS = ("block_device_mapping", "img_block_device_mapping", "img_mappings", "mappings")

#: glance's image: ``min_ram`` in MB, ``min_disk`` in GB, properties as they are kept.
IMAGE: Json = an_object(
    {
        "id": NULLABLE_TEXT,
        "name": NULLABLE_TEXT,
        "status": NULLABLE_TEXT,
        "visibility": NULLABLE_TEXT,
        "owner": NULLABLE_TEXT,
        "size": {"type": ["integer", "null"], "minimum": 0},
        "virtual_size": {"type": ["integer", "null"], "minimum": 0},
        "disk_format": NULLABLE_TEXT,
        "container_format": NULLABLE_TEXT,
        "min_ram": or_null(AMOUNT),
        "min_disk": or_null(AMOUNT),
        "tags": {"type": ["array", "null"], "items": TEXT},
        "properties": {
            "type": ["object", "null"],
            "propertyNames": {"minLength": 1, "maxLength": 255},
            "properties": {
                name: {"type": ["array", "null"], "items": {"type": "object"}} for name in _LISTS
            },
            "additionalProperties": _PROPERTY,
        },
    }
)
