"""The schema of ``request_spec``: nova's RequestSpec in JSON."""

from typing import Any

from placement_sched.api.validation import Schemas
from placement_sched.errors import Invalid
from placement_sched.limits import (
    MAX_AGGREGATE_SETS,
    MAX_AGGREGATES_PER_SET,
    MAX_CAPACITY_FLAVORS,
    MAX_CHANGED_HOSTS,
    MAX_FORBIDDEN_AGGREGATES,
    MAX_INSTANCES,
    MAX_MOVES,
    MAX_NAMES,
    MAX_NETWORKS,
    MAX_OPTION_CHARACTERS,
    MAX_OPTION_ENTRIES,
    MAX_SEGMENTS,
)
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.model.explanation import View
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.scheduler.claim import Claiming
from placement_sched.scheduler.drain_plan import planned
from placement_sched.scheduler.rebalance import FIT, GOALS, advised
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas import parts
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.fields import GROUP_POLICY
from placement_sched.schemas.parts import AMOUNT, BOOLEAN, COUNT, NAME, a_list, an_object, or_null

#: Names of traits and resource classes (Placement API reference).
_SYMBOL: Json = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}
_SYMBOLS = parts.a_list(_SYMBOL)
# In a list that is one text, uuids are written with hyphens or without.
_A_UUID = "[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}"
#: Each item lists aggregates; the host must be a member of at least one of them.
_ANY_OF_AGGREGATES: Json = {
    "type": "string",
    "pattern": f"^{_A_UUID}(,{_A_UUID})*$",
    "maxLength": 37 * MAX_AGGREGATES_PER_SET - 1,
}
_AGGREGATES = parts.a_list(_ANY_OF_AGGREGATES, maxItems=MAX_AGGREGATE_SETS)
#: nova's request groups have lists where its destinations have text: both are accepted.
_ANDED_AGGREGATES = parts.a_list(
    {
        **_ANY_OF_AGGREGATES,
        "type": ["string", "array"],
        "items": parts.UUID,
        "minItems": 1,
        "maxItems": MAX_AGGREGATES_PER_SET,
    },
    maxItems=MAX_AGGREGATE_SETS,
)
_FORBIDDEN_AGGREGATES = parts.a_list(parts.UUID, maxItems=MAX_FORBIDDEN_AGGREGATES)
_NAMES = parts.or_null(parts.a_list(parts.NAME, maxItems=MAX_NAMES))


def _one_of(*words: str) -> Json:
    return parts.or_null({"type": "string", "enum": list(words)})


_DESTINATION = parts.an_object(
    {
        **dict.fromkeys(("host", "node", "cell"), parts.NULLABLE_NAME),
        "aggregates": parts.or_null(_AGGREGATES),
        "forbidden_aggregates": parts.or_null(_FORBIDDEN_AGGREGATES),
        "allow_cross_cell_move": parts.or_null(parts.BOOLEAN),
    }
)

_RETRY = parts.an_object(
    {
        "num_attempts": parts.AMOUNT,
        "hosts": parts.a_list(
            parts.a_list(parts.NULLABLE_NAME, minItems=2, maxItems=2), maxItems=MAX_NAMES
        ),
    }
)

#: nova's SchedulerLimits; the NUMA filter reads those of the topology.
_AT_MOST: Json = {"type": ["number", "null"], "minimum": 0}
_LIMITS = parts.an_object(
    {
        **dict.fromkeys(("vcpu", "memory_mb", "disk_gb"), _AT_MOST),
        "numa_topology": {"type": ["object", "null"]},
    }
)

_INSTANCE_GROUP: Json = {
    **parts.an_object(
        {
            # What a kept request of nova's has besides, shown to plugins.
            "uuid": parts.NULLABLE_UUID,
            **dict.fromkeys(("name", "project_id", "user_id"), parts.NULLABLE_NAME),
            "policy": GROUP_POLICY,
            "rules": parts.or_null(parts.an_object({"max_server_per_host": parts.COUNT})),
            "hosts": _NAMES,
            "members": parts.or_null(parts.a_list(parts.UUID, maxItems=MAX_NAMES)),
        },
        "policy",
    ),
    # Or the uuid of a stored server group.
    "type": ["object", "string", "null"],
    "format": "uuid",
}

#: A string, or a list (a JSON query may be nested).
_HINT: Json = {"type": ["string", "array"], "items": {"type": ["string", "number", "array"]}}
#: A text, or a list of texts: what names instances or a scheduling policy.
_NAMING_HINT: Json = {
    "type": ["string", "array"],
    "maxLength": 255,
    "items": {"type": "string", "maxLength": 255},
    "maxItems": MAX_NAMES,
}
_NAMING_HINTS = ("same_host", "different_host", "sched_policy")
_HINTS: Json = {
    "type": "object",
    "properties": dict.fromkeys(_NAMING_HINTS, _NAMING_HINT),
    "additionalProperties": _HINT,
}

_REQUEST_GROUP = parts.an_object(
    {
        "requester_id": parts.NULLABLE_TEXT,
        "resources": parts.a_mapping(_SYMBOL, parts.COUNT),
        **dict.fromkeys(("required_traits", "forbidden_traits"), parts.or_null(_SYMBOLS)),
        "aggregates": parts.or_null(_ANDED_AGGREGATES),
        "forbidden_aggregates": parts.or_null(_FORBIDDEN_AGGREGATES),
        "in_tree": parts.NULLABLE_UUID,
        "use_same_provider": parts.BOOLEAN,
    }
)

_LEVEL_PARAMS = parts.an_object(
    {
        **dict.fromkeys(("root_required", "root_forbidden"), parts.or_null(_SYMBOLS)),
        "same_subtree": parts.or_null(parts.a_list(parts.a_list(parts.TEXT))),
    }
)

_FIXED_IP = parts.an_object(
    {"subnet_id": parts.UUID, "ip_address": parts.NULLABLE_TEXT}, "subnet_id"
)
_NETWORK = parts.an_object(
    {
        # nova's NetworkRequest; "auto" and "none" are accepted, too.
        "network_id": parts.NULLABLE_NAME,
        **dict.fromkeys(("address", "tag", "device_profile"), parts.NULLABLE_TEXT),
        **dict.fromkeys(("port_id", "pci_request_id", "arq_uuid"), parts.NULLABLE_UUID),
        # What neutron would report.
        **dict.fromkeys(("vnic_type", "binding:vnic_type"), parts.NULLABLE_NAME),
        "fixed_ips": parts.or_null(parts.a_list(_FIXED_IP)),
        "segments": parts.or_null(parts.a_list(parts.UUID, maxItems=MAX_SEGMENTS)),
    }
)

_CPU_SET = parts.a_list({"type": "integer", "minimum": 0, "maximum": 65535})

_NUMA_CELL = parts.an_object(
    {
        "id": parts.AMOUNT,
        "cpuset": _CPU_SET,
        "pcpuset": parts.or_null(_CPU_SET),
        "memory": parts.AMOUNT,
        # In KiB; -1, -2 and -3 are nova's small, large and any.
        "pagesize": parts.or_null({"type": "integer", "minimum": -3}),
        "cpu_policy": _one_of("dedicated", "shared", "mixed"),
        "cpu_thread_policy": _one_of("prefer", "isolate", "require"),
    },
    "cpuset",
    "memory",
)
_NUMA_TOPOLOGY = parts.an_object(
    {
        "cells": parts.a_list(_NUMA_CELL, minItems=1),
        "emulator_threads_policy": _one_of("isolate", "share"),
    },
    "cells",
)

#: Networks whose NICs have NUMA affinity.
_NETWORK_METADATA = parts.an_object({"physnets": _NAMES, "tunneled": parts.or_null(parts.BOOLEAN)})

_PCI_REQUEST = parts.an_object(
    {
        "count": parts.COUNT,
        "spec": parts.or_null(parts.a_list({"type": "object"})),
        **dict.fromkeys(("alias_name", "request_id", "requester_id"), parts.NULLABLE_TEXT),
        "numa_policy": _one_of("required", "legacy", "preferred", "socket"),
    },
    "count",
)

REQUEST_SPEC: Json = parts.an_object(
    {
        **dict.fromkeys(("project_id", "user_id"), parts.NULLABLE_NAME),
        "num_instances": {**parts.COUNT, "maximum": MAX_INSTANCES},
        "instance_uuids": parts.or_null(
            parts.a_list(parts.UUID, minItems=1, maxItems=MAX_INSTANCES, uniqueItems=True)
        ),
        # A flavor given as an object needs these two.
        "flavor": parts.or_id({**parts.FLAVOR, "required": ["vcpus", "memory_mb"]}),
        "image": parts.or_null(parts.or_id(parts.IMAGE)),
        "is_bfv": parts.or_null(parts.BOOLEAN),
        "availability_zone": parts.NULLABLE_TEXT,
        **dict.fromkeys(("ignore_hosts", "force_hosts", "force_nodes"), _NAMES),
        "requested_destination": parts.or_null(_DESTINATION),
        "retry": parts.or_null(_RETRY),
        "limits": parts.or_null(_LIMITS),
        "instance_group": _INSTANCE_GROUP,
        "scheduler_hints": parts.or_null(_HINTS),
        "requested_resources": parts.or_null(parts.a_list(_REQUEST_GROUP)),
        "request_level_params": parts.or_null(_LEVEL_PARAMS),
        "requested_networks": parts.or_null(parts.a_list(_NETWORK, maxItems=MAX_NETWORKS)),
        "network_metadata": parts.or_null(_NETWORK_METADATA),
        "security_groups": _NAMES,
        "numa_topology": parts.or_null(_NUMA_TOPOLOGY),
        "pci_requests": parts.or_null(
            parts.an_object({"requests": parts.a_list(_PCI_REQUEST)}, "requests")
        ),
    },
    "flavor",
)


#: Whether to claim, and how; "add" leaves the instances what they hold.
_CLAIMS = {True: Claiming.NEW, False: Claiming.NONE, "add": Claiming.ADDED}
_PLACING: Json = {
    "request_spec": REQUEST_SPEC,
    "return_alternates": BOOLEAN,
    "claim": {"enum": list(_CLAIMS)},
}
#: An option's value in JSON; the settings check whether it is of the option's type.
_VALUE: Json = {
    "type": ["string", "number", "boolean", "array"],
    "maxLength": MAX_OPTION_CHARACTERS,
    "items": {"type": ["string", "number", "boolean"], "maxLength": 1024},
    "maxItems": MAX_OPTION_ENTRIES,
}
OVERRIDES: Json = or_null({"type": "object", "additionalProperties": _VALUE})
_EXPLAINING: Json = {
    **_PLACING,
    "overrides": OVERRIDES,
    "hosts": or_null(a_list(NAME, maxItems=MAX_CHANGED_HOSTS)),
    "max_rejected": AMOUNT,
    "policy": or_null(NAME),
    "changes": CHANGES,
    "keep": BOOLEAN,
}
SELECT = Schemas(an_object(_PLACING, "request_spec"))
EXPLAIN = Schemas(an_object(_EXPLAINING, "request_spec"))


def select(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the hosts chosen for the request spec, allocated as ``claim`` says."""
    body = with_whole_numbers(body)
    return scheduler.select_destinations(
        body["request_spec"],
        alternates=body.get("return_alternates", False),
        claiming=_CLAIMS[body.get("claim", True)],
        ids=ids,
    )


def explain(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the funnel of a request and the hosts it would get; nothing is claimed.

    With ``keep`` it is recorded as the decision of a request of these ids.
    """
    body = with_whole_numbers(body)
    hosts = body.get("hosts")
    asked: dict[str, Any] = {
        "overrides": body.get("overrides") or {},
        "view": View(
            hosts=None if hosts is None else tuple(hosts),
            max_rejected=body.get("max_rejected", View().max_rejected),
        ),
        "alternates": body.get("return_alternates", False),
        "policy": body.get("policy"),
    }
    changes = body.get("changes") or ()
    if body.get("keep"):
        return scheduler.explain_and_keep(body["request_spec"], **asked, changes=changes, ids=ids)
    return scheduler.explain(body["request_spec"], **asked, changes=changes_from(changes))


_PLANNING: Json = {
    "changes": CHANGES,
    "flavors": or_null(a_list(NAME, maxItems=MAX_CAPACITY_FLAVORS)),
    "overrides": OVERRIDES,
}
#: Moves that are searched for if the request does not say.
_MOVES = 5
_REBALANCING: Json = {
    "goal": {"enum": list(GOALS)},
    "request_spec": REQUEST_SPEC,
    "moves": {**COUNT, "maximum": MAX_MOVES},
}
REBALANCE = Schemas(an_object(_REBALANCING, "goal"))
PLAN = Schemas(an_object(_PLANNING, "changes"))


def plan(scheduler: Scheduler, body: Json) -> Json:
    """Return what the changes come to, and where instances would have to move."""
    body = with_whole_numbers(body)
    changes = changes_from(body["changes"])
    overrides = body.get("overrides") or {}
    return planned(scheduler, changes, body.get("flavors"), overrides).as_json()


def rebalance(scheduler: Scheduler, body: Json) -> Json:
    """Return moves towards a goal; nothing is moved."""
    body = with_whole_numbers(body)
    document = body.get("request_spec")
    if (body["goal"] == FIT) is (document is None):
        needed = "needs a request_spec" if document is None else "takes no request_spec"
        raise Invalid(f"the goal {body['goal']} {needed}", at="$.goal")
    return advised(scheduler, body["goal"], document, body.get("moves", _MOVES)).as_json()
