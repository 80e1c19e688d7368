# SPDX-License-Identifier: Apache-2.0
"""Schema of fleet files (doc/source/fleet.rst), expanding name patterns."""

from collections.abc import Callable
from typing import Any

from placement_sched.model.aggregates import MAX_SERVER_PER_HOST
from placement_sched.model.compute_node import REPORT_KEYS
from placement_sched.model.document import Json
from placement_sched.model.provider import MAX_FLOAT
from placement_sched.operations.fleet.cloud import expand
from placement_sched.schemas import parts
from placement_sched.schemas.node_report import FILE_REPORT
from placement_sched.schemas.parts import (
    OWNER,
    PRINTABLE_NAME,
    SYMBOL,
    build_list_schema,
    build_map_schema,
    build_object_schema,
    make_nullable,
    make_object_or_id,
)
from placement_sched.schemas.request_spec import INSTANCE_REQUEST
from placement_sched.schemas.validation import UNCONVERTED, Conversion, Reader

#: The supported version of the file format.
VERSION = 1

_PATTERN: Json = {"type": "string", "maxLength": 65535}
_PATTERNS: Json = {**_PATTERN, "type": ["string", "array"], "items": _PATTERN}
_LABEL: Json = {"type": "string", "minLength": 1, "maxLength": 255}
_TIME: Json = {"type": "string", "format": "moment"}
#: Sizes of images are in bytes, in 64 bits.
_BYTES: Json = {"type": ["integer", "null"], "minimum": 0, "maximum": 2**63 - 1}


_REPORTED = FILE_REPORT["properties"]
#: Readers of the names that a pattern expands to, by kind of name.
_NAME_READERS: dict[str, Callable[[Any], str]] = {
    "uuid": Reader(parts.UUID),
    "host": Reader(_REPORTED["host"]),
    "node": Reader(_REPORTED["hypervisor_hostname"]),
    "member": Reader(parts.HOST),
    "name": Reader(parts.NAME),
    "address": Reader({"type": "string", "format": "ip-address"}),
}


def _build_names_schema(kind: str) -> Json:
    return {**_PATTERNS, "x-names": kind}


def _expand_names(value: Any, kind: str, _: Conversion) -> list[str] | None:
    if value is None:
        return None
    read, patterns = _NAME_READERS[kind], [value] if isinstance(value, str) else value
    return [read(name) for pattern in patterns for name in expand(pattern)]


_UUIDS = _build_names_schema("uuid")
_RATIO: Json = {"type": "number", "minimum": 0.0, "maximum": MAX_FLOAT}
_INVENTORY = build_object_schema({**parts.INVENTORY, "allocation_ratio": _RATIO}, "total")
_PROVIDER_CONTENTS: Json = {
    "inventories": build_map_schema(SYMBOL, make_nullable(_INVENTORY)),
    "traits": build_list_schema(SYMBOL),
    "providers": build_list_schema({"$ref": "#/$defs/provider"}),
}
_PROVIDER = build_object_schema(
    # Names may contain the name of the root, so they are expanded during the merge.
    {"name": _PATTERNS, "uuid": _UUIDS, "aggregates": _UUIDS, **_PROVIDER_CONTENTS},
    "name",
)
_HOST = build_object_schema(
    {
        # A report is validated by its own schema.
        **{key: {UNCONVERTED: True} for key in REPORT_KEYS},
        "host": _build_names_schema("host"),
        "node": _build_names_schema("node"),
        "uuid": _UUIDS,
        "host_ip": make_nullable(_build_names_schema("address")),
        "last_seen_up": _TIME,
        "provider": parts.BOOLEAN,
        "provider_aggregates": _UUIDS,
        **_PROVIDER_CONTENTS,
    },
    "host",
)
_SERVICE = build_object_schema(
    {
        "host": _build_names_schema("host"),
        "binary": PRINTABLE_NAME,
        "uuid": _UUIDS,
        "status": parts.SERVICE_STATUS,
        "disabled_reason": make_nullable(parts.DISABLED_REASON),
        "forced_down": parts.BOOLEAN,
        "last_seen_up": make_nullable(_TIME),
    },
    "host",
)
_FLAVOR = build_object_schema(
    {
        "name": PRINTABLE_NAME,
        "id": parts.FLAVOR_ID,
        **dict.fromkeys(("vcpus", "memory_mb"), parts.COUNT),
        **dict.fromkeys(("root_gb", "ephemeral_gb", "swap"), parts.AMOUNT),
        "rxtx_factor": parts.RXTX_FACTOR,
        "is_public": parts.BOOLEAN,
        "description": parts.DESCRIPTION,
        "extra_specs": build_map_schema(parts.KEY, parts.VALUE),
        "projects": build_list_schema(PRINTABLE_NAME),
    },
    "name",
)
_IMAGE = build_object_schema(
    {
        **parts.IMAGE_FIELDS,
        "id": parts.UUID,
        **dict.fromkeys(("size", "virtual_size"), _BYTES),
        "tags": build_list_schema(parts.TAG),
        "properties": {
            **build_map_schema(parts.IMAGE_PROPERTY_NAME, parts.IMAGE_PROPERTY),
            "properties": {
                key: {**schema, "type": "string"} for key, schema in parts.IMAGE_IDS.items()
            },
        },
    }
)
_SERVER_GROUP = build_object_schema(
    {
        "name": PRINTABLE_NAME,
        "uuid": parts.UUID,
        "policy": parts.GROUP_POLICY,
        "rules": build_object_schema({MAX_SERVER_PER_HOST: parts.COUNT}),
        "project": make_nullable(parts.VALUE),
        "user": make_nullable(parts.VALUE),
    },
    "name",
)
_AGGREGATE = build_object_schema(
    {
        "name": PRINTABLE_NAME,
        "uuid": parts.UUID,
        "availability_zone": parts.ZONE,
        "metadata": build_map_schema(parts.KEY, parts.VALUE),
        "hosts": _build_names_schema("member"),
    },
    "name",
)
_AMOUNTS = build_map_schema(_LABEL, {**build_map_schema(SYMBOL, parts.COUNT), "minProperties": 1})
_OWNER: Json = {"project": OWNER, "user": OWNER, "type": make_nullable(SYMBOL)}
_METADATA = build_map_schema(_LABEL, make_nullable(parts.IMAGE_PROPERTY))
_INSTANCE = build_object_schema(
    {
        "name": _build_names_schema("name"),
        "uuid": _UUIDS,
        "host": make_nullable(_build_names_schema("name")),
        "node": make_nullable(_build_names_schema("name")),
        "project": parts.NULLABLE_NAME,
        "user": parts.NULLABLE_NAME,
        "vm_state": parts.NULLABLE_TEXT,
        "task_state": parts.NULLABLE_TEXT,
        "flavor": {**make_nullable(make_object_or_id(parts.FLAVOR)), UNCONVERTED: True},
        "image": {**make_nullable(make_object_or_id(parts.IMAGE)), UNCONVERTED: True},
        "server_group": make_nullable(_LABEL),
        "metadata": _METADATA,
        "system_metadata": _METADATA,
        "request": {**INSTANCE_REQUEST, UNCONVERTED: True},
        "allocations": _AMOUNTS,
        "consumer": build_object_schema(_OWNER),
    }
)
_CONSUMER = build_object_schema(
    {"consumer": {"type": "string", "format": "consumer-uuid"}, **_OWNER, "allocations": _AMOUNTS},
    *("consumer", "project", "user", "allocations"),
)
#: The origin of a fetched file. A load ignores it.
_SOURCE = build_object_schema(
    {
        "cloud": parts.TEXT,
        "fetched": build_object_schema({"from": _TIME, "to": _TIME}, "from", "to"),
        "versions": build_map_schema(_LABEL, parts.TEXT),
        # By fact: why it is missing.
        "missing": build_map_schema(_LABEL, parts.VALUE),
        # By consumer: the server that moves, or null.
        "in_flight": build_map_schema(_LABEL, parts.NULLABLE_UUID),
        "orphaned": build_list_schema(parts.UUID),
        # By provider.
        "generations": build_map_schema(_LABEL, parts.AMOUNT),
    },
    *("cloud", "fetched"),
)
_FILE: Json = {
    **build_object_schema(
        {
            "version": {"enum": [VERSION]},
            "source": _SOURCE,
            **dict.fromkeys(("resource_classes", "traits"), build_list_schema(SYMBOL)),
            "flavors": build_list_schema(_FLAVOR),
            "images": build_list_schema(_IMAGE),
            "server_groups": build_list_schema(_SERVER_GROUP),
            "aggregates": build_list_schema(_AGGREGATE),
            "hosts": build_list_schema(_HOST),
            "services": build_list_schema(_SERVICE),
            "providers": build_list_schema({"$ref": "#/$defs/provider"}),
            "instances": build_list_schema(_INSTANCE),
            "allocations": build_list_schema(_CONSUMER),
            # Values for aliases in other sections.
            "templates": {},
        }
    ),
    "$defs": {"provider": _PROVIDER},
}

#: Validates a decoded fleet file, and expands its name patterns.
read_file: Callable[[Any], Json] = Reader(_FILE, {"x-names": _expand_names}, digits_as_text=True)
#: Validate the name of a provider, or of a node.
read_provider_name: Callable[[Any], str] = Reader(parts.PROVIDER_NAME)
read_node_name: Callable[[Any], str] = _NAME_READERS["node"]
#: The keys of the entries of flavors and images.
FLAVOR_KEYS, IMAGE_KEYS = tuple(_FLAVOR["properties"]), tuple(_IMAGE["properties"])
