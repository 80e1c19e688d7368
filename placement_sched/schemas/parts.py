# SPDX-License-Identifier: Apache-2.0
"""Parts of request schemas: names, amounts, flavors, images, changes.

Sources: compute, image and placement API references.
"""

from typing import Any

from placement_sched.limits import (
    MAX_AGGREGATE_METADATA,
    MAX_CHANGED_HOSTS,
    MAX_CHANGES,
    MAX_EXTRA_SPECS,
    MAX_HOST_COPIES,
    MAX_REQUEST_IMAGE_PROPERTIES,
)
from placement_sched.model import names
from placement_sched.model.aggregates import POLICIES
from placement_sched.model.document import Json
from placement_sched.model.image import CONTAINER_FORMATS, DISK_FORMATS, STATUSES, VISIBILITIES
from placement_sched.model.provider import MAX_FLOAT, MAX_INT

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
#: Parameters of a page of a list: at most ``limit`` entries after the entry ``marker``.
PAGING: Json = {"limit": {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}, "marker": UUID}
#: An image property in a request spec. glance stores text of up to 65 535 bytes, but clients also
#: send numbers, booleans and null.
_PROPERTY: Json = {"type": ["string", "number", "boolean", "null"], "maxLength": 65535}
#: Old and new names of the image properties that nova stores as lists of objects.
_LISTS = ("block_device_mapping", "img_block_device_mapping", "img_mappings", "mappings")
_SIZE: Json = {"type": ["integer", "null"], "minimum": 0}
_SHORT_TEXT: Json = {"type": "string", "maxLength": 255}
_NAMED: Json = {"type": "string", "minLength": 1, "maxLength": 255}
#: A name given by users: printable, without leading or trailing blanks, which databases ignore.
PRINTABLE_NAME: Json = {**_NAMED, "format": "printable-name"}
#: A name of a trait, resource class or consumer type.
SYMBOL: Json = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}
DESCRIPTION: Json = {"type": ["string", "null"], "maxLength": 65535, "format": "printable"}
FLAVOR_ID: Json = {**_NAMED, "pattern": names.FLAVOR_ID}
#: Bandwidth multiplier of a flavor.
RXTX_FACTOR: Json = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_FLOAT}
#: Keys and values of extra specs and metadata.
KEY: Json = {"pattern": names.KEY}
VALUE: Json = _SHORT_TEXT
HOST: Json = {**_NAMED, "pattern": names.HOST}
ZONE: Json = {**PRINTABLE_NAME, "pattern": names.ZONE}
DISABLED_REASON: Json = _NAMED
SERVICE_STATUS: Json = {"type": "string", "enum": ["enabled", "disabled"]}
GROUP_POLICY: Json = {"type": "string", "enum": list(POLICIES)}
#: A tag of an image.
TAG: Json = {**_SHORT_TEXT, "format": "printable-name"}
IMAGE_PROPERTY_NAME: Json = PRINTABLE_NAME
#: A property of a stored image. The maximum length is that of glance's column on MariaDB.
IMAGE_PROPERTY: Json = {"type": "string", "maxLength": 65535}
_IMAGE_ID: Json = {"type": ["null", "string"], "pattern": names.UUID}
#: Image properties that are ids of other images.
IMAGE_IDS: Json = {"kernel_id": _IMAGE_ID, "ramdisk_id": _IMAGE_ID}
IMAGE_FIELDS: Json = {
    "name": {"type": ["null", "string"], "maxLength": 255},
    "status": {"type": "string", "enum": list(STATUSES)},
    "visibility": {"type": "string", "enum": list(VISIBILITIES)},
    "owner": {"type": ["null", "string"], "maxLength": 255},
    "protected": {"type": "boolean"},
    "os_hidden": {"type": "boolean"},
    "disk_format": {"type": ["null", "string"], "enum": [None, *DISK_FORMATS]},
    "container_format": {"type": ["null", "string"], "enum": [None, *CONTAINER_FORMATS]},
    "min_ram": AMOUNT,
    "min_disk": AMOUNT,
}
#: An inventory without its allocation ratio.
INVENTORY: Json = {
    "total": COUNT,
    "reserved": AMOUNT,
    "min_unit": COUNT,
    "max_unit": COUNT,
    "step_size": COUNT,
}
PROVIDER_NAME: Json = {"type": "string", "maxLength": 200}
#: The project or user id of a consumer.
OWNER: Json = _NAMED


def build_object_schema(properties: Json, *required: str) -> Json:
    """Build the schema of an object that may have no other keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def build_map_schema(names: Json, values: Json) -> Json:
    """Build the schema of an object from schemas of its keys and values."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def build_list_schema(items: Json, **limits: Any) -> Json:
    """Build the schema of a list, with limits such as ``maxItems``."""
    return {"type": "array", "items": items, **limits}


def make_nullable(schema: Json) -> Json:
    """Return a schema that also accepts null (``anyOf`` would lose paths)."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    extended: Json = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        extended["enum"] = [*schema["enum"], None]
    return extended


def make_object_or_id(schema: Json) -> Json:
    """Build the schema of an object, or of a stored object's id or name."""
    return {**schema, "type": [schema["type"], "string"], "minLength": 1, "maxLength": 255}


#: nova's flavor, with memory and swap in MB, and disks in GB. An empty ``swap`` means no swap.
FLAVOR: Json = build_object_schema(
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
        "description": make_nullable({"type": "string"}),
    }
)


#: glance's image, with ``min_ram`` in MB, ``min_disk`` in GB, and properties as glance stores them.
IMAGE: Json = build_object_schema(
    {
        **dict.fromkeys(("id", "name", "status", "visibility", "owner"), NULLABLE_TEXT),
        **dict.fromkeys(("disk_format", "container_format"), NULLABLE_TEXT),
        **dict.fromkeys(("size", "virtual_size"), _SIZE),
        **dict.fromkeys(("min_ram", "min_disk"), make_nullable(AMOUNT)),
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


_CHANGED_HOSTS = build_list_schema(NAME, minItems=1, maxItems=MAX_CHANGED_HOSTS)

#: The schema of each kind of simulated change, by its key.
CHANGE_KINDS: Json = {
    "drain": _CHANGED_HOSTS,
    "remove": _CHANGED_HOSTS,
    "add": build_object_schema(
        {"like": NAME, "count": {**COUNT, "maximum": MAX_HOST_COPIES}}, "like"
    ),
    "inventory": build_object_schema(
        {
            "host": NAME,
            "provider": NAME,
            "resource_class": SYMBOL,
            "total": AMOUNT,
            "reserved": AMOUNT,
            "allocation_ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
        },
        "host",
        "resource_class",
    ),
    "aggregate": build_object_schema(
        {
            "name": NAME,
            "add_hosts": build_list_schema(NAME, maxItems=MAX_CHANGED_HOSTS),
            "remove_hosts": build_list_schema(NAME, maxItems=MAX_CHANGED_HOSTS),
            "metadata": {
                **build_map_schema(KEY, make_nullable(VALUE)),
                "maxProperties": MAX_AGGREGATE_METADATA,
            },
        },
        "name",
    ),
}

#: A list of simulated changes. The error for an unknown key suggests the nearest valid key.
CHANGES: Json = make_nullable(
    build_list_schema(
        {"type": "object", "properties": CHANGE_KINDS, "minProperties": 1, "maxProperties": 1},
        maxItems=MAX_CHANGES,
    )
)
