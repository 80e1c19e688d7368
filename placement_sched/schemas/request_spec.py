# SPDX-License-Identifier: Apache-2.0
"""Schema of nova's RequestSpec in JSON."""

from placement_sched.limits import (
    MAX_AGGREGATE_SETS,
    MAX_AGGREGATES_PER_SET,
    MAX_FORBIDDEN_AGGREGATES,
    MAX_INSTANCES,
    MAX_NAMES,
    MAX_NETWORKS,
    MAX_SEGMENTS,
)
from placement_sched.model.document import Json
from placement_sched.model.instance_request import RECORDED_KEYS
from placement_sched.schemas import parts
from placement_sched.schemas.parts import GROUP_POLICY

_TRAITS = parts.build_list_schema(parts.SYMBOL)
# In a comma-separated list, uuids may have no hyphens.
_UUID_PATTERN = "[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}"
#: Comma-separated aggregates. The host must be a member of any of them.
_ANY_OF_AGGREGATES: Json = {
    "type": "string",
    "pattern": f"^{_UUID_PATTERN}(,{_UUID_PATTERN})*$",
    "maxLength": 37 * MAX_AGGREGATES_PER_SET - 1,
}
_AGGREGATES = parts.build_list_schema(_ANY_OF_AGGREGATES, maxItems=MAX_AGGREGATE_SETS)
#: nova has lists in request groups and text in destinations. Both forms are accepted.
_GROUP_AGGREGATES = parts.build_list_schema(
    {
        **_ANY_OF_AGGREGATES,
        "type": ["string", "array"],
        "items": parts.UUID,
        "minItems": 1,
        "maxItems": MAX_AGGREGATES_PER_SET,
    },
    maxItems=MAX_AGGREGATE_SETS,
)
_FORBIDDEN_AGGREGATES = parts.build_list_schema(parts.UUID, maxItems=MAX_FORBIDDEN_AGGREGATES)
_NAMES = parts.make_nullable(parts.build_list_schema(parts.NAME, maxItems=MAX_NAMES))


def _build_nullable_enum(*values: str) -> Json:
    return parts.make_nullable({"type": "string", "enum": list(values)})


_DESTINATION = parts.build_object_schema(
    {
        **dict.fromkeys(("host", "node", "cell"), parts.NULLABLE_NAME),
        "aggregates": parts.make_nullable(_AGGREGATES),
        "forbidden_aggregates": parts.make_nullable(_FORBIDDEN_AGGREGATES),
        "allow_cross_cell_move": parts.make_nullable(parts.BOOLEAN),
    }
)

_RETRY = parts.build_object_schema(
    {
        "num_attempts": parts.AMOUNT,
        "hosts": parts.build_list_schema(
            parts.build_list_schema(parts.NULLABLE_NAME, minItems=2, maxItems=2), maxItems=MAX_NAMES
        ),
    }
)

#: nova's SchedulerLimits. The NUMA filter reads ``numa_topology``.
_LIMIT: Json = {"type": ["number", "null"], "minimum": 0}
_LIMITS = parts.build_object_schema(
    {
        **dict.fromkeys(("vcpu", "memory_mb", "disk_gb"), _LIMIT),
        "numa_topology": {"type": ["object", "null"]},
    }
)

_INSTANCE_GROUP: Json = {
    **parts.build_object_schema(
        {
            # Additional fields of a recorded request of nova, visible to plugins.
            "uuid": parts.NULLABLE_UUID,
            **dict.fromkeys(("name", "project_id", "user_id"), parts.NULLABLE_NAME),
            "policy": GROUP_POLICY,
            "rules": parts.make_nullable(
                parts.build_object_schema({"max_server_per_host": parts.COUNT})
            ),
            "hosts": _NAMES,
            "members": parts.make_nullable(parts.build_list_schema(parts.UUID, maxItems=MAX_NAMES)),
        },
        "policy",
    ),
    # A string is the uuid of a stored server group.
    "type": ["object", "string", "null"],
    "format": "uuid",
}

#: A string, or a list (a JSON query may be nested).
_HINT: Json = {"type": ["string", "array"], "items": {"type": ["string", "number", "array"]}}
#: A string or list of strings, which name instances or a scheduling policy.
_NAME_HINT: Json = {
    "type": ["string", "array"],
    "maxLength": 255,
    "items": {"type": "string", "maxLength": 255},
    "maxItems": MAX_NAMES,
}
_NAME_HINTS = ("same_host", "different_host", "sched_policy")
_HINTS: Json = {
    "type": "object",
    "properties": dict.fromkeys(_NAME_HINTS, _NAME_HINT),
    "additionalProperties": _HINT,
}

_REQUEST_GROUP = parts.build_object_schema(
    {
        "requester_id": parts.NULLABLE_TEXT,
        "resources": parts.build_map_schema(parts.SYMBOL, parts.COUNT),
        **dict.fromkeys(("required_traits", "forbidden_traits"), parts.make_nullable(_TRAITS)),
        "aggregates": parts.make_nullable(_GROUP_AGGREGATES),
        "forbidden_aggregates": parts.make_nullable(_FORBIDDEN_AGGREGATES),
        "in_tree": parts.NULLABLE_UUID,
        "use_same_provider": parts.BOOLEAN,
    }
)

_LEVEL_PARAMS = parts.build_object_schema(
    {
        **dict.fromkeys(("root_required", "root_forbidden"), parts.make_nullable(_TRAITS)),
        "same_subtree": parts.make_nullable(
            parts.build_list_schema(parts.build_list_schema(parts.TEXT))
        ),
    }
)

_FIXED_IP = parts.build_object_schema(
    {"subnet_id": parts.UUID, "ip_address": parts.NULLABLE_TEXT}, "subnet_id"
)
_NETWORK = parts.build_object_schema(
    {
        # nova's NetworkRequest. "auto" and "none" are accepted, too.
        "network_id": parts.NULLABLE_NAME,
        **dict.fromkeys(("address", "tag", "device_profile"), parts.NULLABLE_TEXT),
        **dict.fromkeys(("port_id", "pci_request_id", "arq_uuid"), parts.NULLABLE_UUID),
        # Fields of neutron's port.
        **dict.fromkeys(("vnic_type", "binding:vnic_type"), parts.NULLABLE_NAME),
        "fixed_ips": parts.make_nullable(parts.build_list_schema(_FIXED_IP)),
        "segments": parts.make_nullable(parts.build_list_schema(parts.UUID, maxItems=MAX_SEGMENTS)),
    }
)

_CPU_SET = parts.build_list_schema({"type": "integer", "minimum": 0, "maximum": 65535})

_NUMA_CELL = parts.build_object_schema(
    {
        "id": parts.AMOUNT,
        "cpuset": _CPU_SET,
        "pcpuset": parts.make_nullable(_CPU_SET),
        "memory": parts.AMOUNT,
        # In KiB. -1, -2 and -3 are nova's page sizes small, large and any.
        "pagesize": parts.make_nullable({"type": "integer", "minimum": -3}),
        "cpu_policy": _build_nullable_enum("dedicated", "shared", "mixed"),
        "cpu_thread_policy": _build_nullable_enum("prefer", "isolate", "require"),
    },
    "cpuset",
    "memory",
)
_NUMA_TOPOLOGY = parts.build_object_schema(
    {
        "cells": parts.build_list_schema(_NUMA_CELL, minItems=1),
        "emulator_threads_policy": _build_nullable_enum("isolate", "share"),
    },
    "cells",
)

#: Networks whose NICs have NUMA affinity.
_NETWORK_METADATA = parts.build_object_schema(
    {"physnets": _NAMES, "tunneled": parts.make_nullable(parts.BOOLEAN)}
)

_PCI_REQUEST = parts.build_object_schema(
    {
        "count": parts.COUNT,
        "spec": parts.make_nullable(parts.build_list_schema({"type": "object"})),
        **dict.fromkeys(("alias_name", "request_id", "requester_id"), parts.NULLABLE_TEXT),
        "numa_policy": _build_nullable_enum("required", "legacy", "preferred", "socket"),
    },
    "count",
)

REQUEST_SPEC: Json = parts.build_object_schema(
    {
        **dict.fromkeys(("project_id", "user_id"), parts.NULLABLE_NAME),
        "num_instances": {**parts.COUNT, "maximum": MAX_INSTANCES},
        "instance_uuids": parts.make_nullable(
            parts.build_list_schema(
                parts.UUID, minItems=1, maxItems=MAX_INSTANCES, uniqueItems=True
            )
        ),
        # A flavor object needs at least these fields.
        "flavor": parts.make_object_or_id({**parts.FLAVOR, "required": ["vcpus", "memory_mb"]}),
        "image": parts.make_nullable(parts.make_object_or_id(parts.IMAGE)),
        "is_bfv": parts.make_nullable(parts.BOOLEAN),
        "availability_zone": parts.NULLABLE_TEXT,
        **dict.fromkeys(("ignore_hosts", "force_hosts", "force_nodes"), _NAMES),
        "requested_destination": parts.make_nullable(_DESTINATION),
        "retry": parts.make_nullable(_RETRY),
        "limits": parts.make_nullable(_LIMITS),
        "instance_group": _INSTANCE_GROUP,
        "scheduler_hints": parts.make_nullable(_HINTS),
        "requested_resources": parts.make_nullable(parts.build_list_schema(_REQUEST_GROUP)),
        "request_level_params": parts.make_nullable(_LEVEL_PARAMS),
        "requested_networks": parts.make_nullable(
            parts.build_list_schema(_NETWORK, maxItems=MAX_NETWORKS)
        ),
        "network_metadata": parts.make_nullable(_NETWORK_METADATA),
        "security_groups": _NAMES,
        "numa_topology": parts.make_nullable(_NUMA_TOPOLOGY),
        "pci_requests": parts.make_nullable(
            parts.build_object_schema(
                {"requests": parts.build_list_schema(_PCI_REQUEST)}, "requests"
            )
        ),
    },
    "flavor",
)

#: The recorded request of an instance. ``flavor`` is the flavor of NUMA topology and PCI requests.
INSTANCE_REQUEST: Json = parts.build_object_schema(
    {
        **{name: REQUEST_SPEC["properties"][name] for name in RECORDED_KEYS},
        "flavor": parts.build_object_schema({"name": parts.NULLABLE_NAME}),
    }
)
