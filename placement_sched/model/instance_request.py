# SPDX-License-Identifier: Apache-2.0
"""Recorded requests of instances, used to schedule them again."""

from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.model.compute_node import UNKNOWN_FIELDS
from placement_sched.model.document import Document, Json
from placement_sched.model.instance import Instance
from placement_sched.model.names import join_words
from placement_sched.model.request_spec import REBUILD_HINT

#: Keys of a recorded request that still apply when the instance is scheduled again.
_REUSED_KEYS = (
    *("availability_zone", "scheduler_hints", "is_bfv", "requested_resources"),
    *("request_level_params", "requested_networks", "network_metadata"),
)
_FLAVOR_KEYS = ("numa_topology", "pci_requests")
RECORDED_KEYS = (*_REUSED_KEYS, *_FLAVOR_KEYS)
#: The facts that a plan needs of each instance, and their names in messages. A fact is unknown if
#: the recorded request lacks the key.
FACTS: Mapping[str, str] = {
    "availability_zone": "zone",
    "scheduler_hints": "scheduler hints",
    "image": "image properties",
    "is_bfv": "root disk (local or volume)",
    "requested_resources": "port resources",
}


def select_request(document: Document) -> Json:
    """Return the part of a request that scheduling the instance again needs.

    A forced host or node does not apply again. The zone, the hints, the boot from volume and the
    port resources are always present, because the document of a claim is complete.
    """
    zone = (document.get("availability_zone") or "").split(":")[0]
    request = {
        **{name: document[name] for name in _REUSED_KEYS if document.get(name)},
        "availability_zone": zone or None,
        "scheduler_hints": _drop_hints(document.get("scheduler_hints") or {}),
        "is_bfv": bool(document.get("is_bfv")),
        "requested_resources": document.get("requested_resources") or [],
    }
    by_flavor = {name: document[name] for name in _FLAVOR_KEYS if name in document}
    if by_flavor:
        request |= by_flavor | {"flavor": {"name": (document.get("flavor") or {}).get("name")}}
    return request


def build_request_document(record: Instance, request: Document | None) -> Json:
    """Build the request document to schedule a recorded instance again.

    The parts that derive from the flavor apply only while the instance has it.
    """
    request = request or {}
    keys: tuple[str, ...] = _REUSED_KEYS
    old = request.get("flavor")
    if isinstance(old, Mapping) and record.flavor and old.get("name") == record.flavor.get("name"):
        keys = RECORDED_KEYS
    return {
        **{name: request[name] for name in keys if name in request},
        "scheduler_hints": _drop_hints(request.get("scheduler_hints") or {}),
        "project_id": record.project_id,
        "user_id": record.user_id,
        "flavor": record.flavor,
        "image": record.image,
    }


def find_unknown_facts(record: Instance, request: Document | None) -> tuple[str, ...]:
    """Return the keys of :data:`FACTS` that are unknown for an instance."""
    is_image_unknown = record.image is not None and record.image.keys() == {"id"}
    return tuple(
        name
        for name in FACTS
        if (is_image_unknown if name == "image" else name not in (request or {}))
    )


def describe_unknown_facts(unknown: Mapping[str, Sequence[str] | int]) -> list[str]:
    """Describe unknown facts, such as the zone of three servers.

    ``unknown`` maps keys of :data:`FACTS`, or fields of host reports, to the uuids of instances or
    to their number.
    """
    facts_by_instances: dict[tuple[str, ...] | int, list[str]] = {}
    for fact, instances in unknown.items():
        key = instances if isinstance(instances, int) else tuple(instances)
        title = FACTS.get(fact) or UNKNOWN_FIELDS.get(fact, fact)
        facts_by_instances.setdefault(key, []).append(title)
    lines = []
    for key, facts in facts_by_instances.items():
        number = key if isinstance(key, int) else len(key)
        verb = "is" if len(facts) == 1 and not facts[0].endswith("s") else "are"
        servers = "1 server" if number == 1 else f"{number} servers"
        lines.append(f"{join_words(facts)} of {servers} {verb} not known")
    return lines


def _drop_hints(hints: Mapping[str, Any]) -> Json:
    """Drop the hint of the group, which the record has, and of a rebuild."""
    return {name: hint for name, hint in hints.items() if name not in {"group", REBUILD_HINT}}
