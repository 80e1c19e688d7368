"""The schema of ``request_spec``: nova's RequestSpec in JSON."""

from placement_sched.api.scheduler.schemas.flavors_images import FLAVOR, IMAGE
from placement_sched.api.scheduler.schemas.parts import (
    AMOUNT,
    BOOLEAN,
    COUNT,
    NAME,
    NULLABLE_NAME,
    NULLABLE_TEXT,
    NULLABLE_UUID,
    TEXT,
    UUID,
    Json,
    a_list,
    an_object,
    or_id,
    or_null,
)

#: A request is placed whole or not at all, in one transaction; more than this is a mistake.
MOST_INSTANCES = 10_000
#: Names of traits and resource classes (Placement API reference).
_SYMBOL: Json = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}
_SYMBOLS = a_list(_SYMBOL)
#: How many aggregates one request may name: whole clouds have fewer, and every database takes as
#: many in one statement.
_MOST_ANDED = 20
_MOST_ANY_OF = 250
_MOST_FORBIDDEN = 5_000
_A_UUID = "[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}"
#: Each item is the uuids of aggregates, of any of which the host may be a member.
_ANY_OF_AGGREGATES: Json = {
    "type": "string",
    "pattern": f"^{_A_UUID}(,{_A_UUID})*$",
    "maxLength": 37 * _MOST_ANY_OF - 1,
}
_AGGREGATES = a_list(_ANY_OF_AGGREGATES, maxItems=_MOST_ANDED)
#: nova's request groups have lists where its destinations have texts: both are understood.
_ANDED_AGGREGATES = a_list(
    {
        **_ANY_OF_AGGREGATES,
        "type": ["string", "array"],
        "items": UUID,
        "minItems": 1,
        "maxItems": _MOST_ANY_OF,
    },
    maxItems=_MOST_ANDED,
)
_FORBIDDEN_AGGREGATES = a_list(UUID, maxItems=_MOST_FORBIDDEN)
_NAMES = or_null(a_list(NAME))

_DESTINATION = an_object(
    {
        "host": NULLABLE_NAME,
        "node": NULLABLE_NAME,
        "cell": NULLABLE_NAME,
        "aggregates": or_null(_AGGREGATES),
        "forbidden_aggregates": or_null(_FORBIDDEN_AGGREGATES),
        "allow_cross_cell_move": or_null(BOOLEAN),
    }
)

_RETRY = an_object(
    {
        "num_attempts": AMOUNT,
        "hosts": a_list(a_list(NULLABLE_NAME, minItems=2, maxItems=2)),
    }
)

#: nova's SchedulerLimits; what of a NUMA topology is limited, its filter knows.
_AT_MOST: Json = {"type": ["number", "null"], "minimum": 0}
_LIMITS = an_object(
    {
        "vcpu": _AT_MOST,
        "memory_mb": _AT_MOST,
        "disk_gb": _AT_MOST,
        "numa_topology": {"type": ["object", "null"]},
    }
)

_INSTANCE_GROUP: Json = {
    **an_object(
        {
            "policy": {
                "type": "string",
                "enum": ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"],
            },
            "rules": or_null(an_object({"max_server_per_host": COUNT})),
            "hosts": _NAMES,
            "members": or_null(a_list(UUID)),
        },
        "policy",
    ),
    # The uuid of a stored server group stands for it.
    "type": ["object", "string", "null"],
    "format": "uuid",
}

#: A string, or a list of what a filter understands (a JSON query may be nested).
_HINT: Json = {"type": ["string", "array"], "items": {"type": ["string", "number", "array"]}}

_REQUESTED_RESOURCES = a_list(
    an_object(
        {
            "requester_id": NULLABLE_TEXT,
            "resources": {
                "type": "object",
                "propertyNames": _SYMBOL,
                "additionalProperties": COUNT,
            },
            "required_traits": or_null(_SYMBOLS),
            "forbidden_traits": or_null(_SYMBOLS),
            "aggregates": or_null(_ANDED_AGGREGATES),
            "forbidden_aggregates": or_null(_FORBIDDEN_AGGREGATES),
            "in_tree": NULLABLE_UUID,
            "use_same_provider": BOOLEAN,
        }
    )
)

_LEVEL_PARAMS = an_object(
    {
        "root_required": or_null(_SYMBOLS),
        "root_forbidden": or_null(_SYMBOLS),
        "same_subtree": or_null(a_list(a_list(TEXT))),
    }
)

#: Each port, network and subnet may have to be asked of neutron; no instance has as many.
_MOST_NETWORKS = 100
#: A network with more segments is told by its id; neutron knows them.
_MOST_SEGMENTS = 1_000
_REQUESTED_NETWORKS = a_list(
    an_object(
        {
            # nova's NetworkRequest; "auto" and "none" stand for a network, too.
            "network_id": NULLABLE_NAME,
            "address": NULLABLE_TEXT,
            "port_id": NULLABLE_UUID,
            "pci_request_id": NULLABLE_UUID,
            "tag": NULLABLE_TEXT,
            "arq_uuid": NULLABLE_UUID,
            "device_profile": NULLABLE_TEXT,
            # What neutron would tell.
            "vnic_type": NULLABLE_NAME,
            "binding:vnic_type": NULLABLE_NAME,
            "fixed_ips": or_null(
                a_list(an_object({"subnet_id": UUID, "ip_address": NULLABLE_TEXT}, "subnet_id"))
            ),
            "segments": or_null(a_list(UUID, maxItems=_MOST_SEGMENTS)),
        }
    ),
    maxItems=_MOST_NETWORKS,
)

_CPU_SET = a_list({"type": "integer", "minimum": 0, "maximum": 65535})

_NUMA_TOPOLOGY = an_object(
    {
        "cells": a_list(
            an_object(
                {
                    "id": AMOUNT,
                    "cpuset": _CPU_SET,
                    "pcpuset": or_null(_CPU_SET),
                    "memory": AMOUNT,
                    # In KiB; -1, -2 and -3 are nova's small, large and any.
                    "pagesize": or_null({"type": "integer", "minimum": -3}),
                    "cpu_policy": or_null(
                        {"type": "string", "enum": ["dedicated", "shared", "mixed"]}
                    ),
                    "cpu_thread_policy": or_null(
                        {"type": "string", "enum": ["prefer", "isolate", "require"]}
                    ),
                },
                "cpuset",
                "memory",
            ),
            minItems=1,
        ),
        "emulator_threads_policy": or_null({"type": "string", "enum": ["isolate", "share"]}),
    },
    "cells",
)

#: Networks that hosts may have the cards of at certain NUMA nodes.
_NETWORK_METADATA = an_object({"physnets": _NAMES, "tunneled": or_null(BOOLEAN)})

_PCI_REQUESTS = an_object(
    {
        "requests": a_list(
            an_object(
                {
                    "count": COUNT,
                    "spec": or_null(a_list({"type": "object"})),
                    "alias_name": NULLABLE_TEXT,
                    "request_id": NULLABLE_TEXT,
                    "requester_id": NULLABLE_TEXT,
                    "numa_policy": or_null(
                        {"type": "string", "enum": ["required", "legacy", "preferred", "socket"]}
                    ),
                },
                "count",
            )
        )
    },
    "requests",
)

REQUEST_SPEC: Json = an_object(
    {
        "project_id": NULLABLE_NAME,
        "user_id": NULLABLE_NAME,
        "num_instances": {**COUNT, "maximum": MOST_INSTANCES},
        "instance_uuids": or_null(
            a_list(UUID, minItems=1, maxItems=MOST_INSTANCES, uniqueItems=True)
        ),
        # Of a flavor given whole, nothing can be placed without these two.
        "flavor": or_id({**FLAVOR, "required": ["vcpus", "memory_mb"]}),
        "image": or_null(or_id(IMAGE)),
        "is_bfv": or_null(BOOLEAN),
        "availability_zone": NULLABLE_TEXT,
        "ignore_hosts": _NAMES,
        "force_hosts": _NAMES,
        "force_nodes": _NAMES,
        "requested_destination": or_null(_DESTINATION),
        "retry": or_null(_RETRY),
        "limits": or_null(_LIMITS),
        "instance_group": _INSTANCE_GROUP,
        "scheduler_hints": or_null({"type": "object", "additionalProperties": _HINT}),
        "requested_resources": or_null(_REQUESTED_RESOURCES),
        "request_level_params": or_null(_LEVEL_PARAMS),
        "requested_networks": or_null(_REQUESTED_NETWORKS),
        "network_metadata": or_null(_NETWORK_METADATA),
        "numa_topology": or_null(_NUMA_TOPOLOGY),
        "pci_requests": or_null(_PCI_REQUESTS),
    },
    "flavor",
)
