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
        },
    }
)
