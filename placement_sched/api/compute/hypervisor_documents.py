"""Hypervisors as the compute API writes them, by microversion."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from placement_sched.api.call import Call
from placement_sched.api.compute import service_documents
from placement_sched.api.compute.microversions import (
    CONSISTENT,
    CPU_INFO_OBJECT,
    LEAN_HYPERVISORS,
    UUIDS,
)
from placement_sched.model.hypervisor import Hypervisor, WholeHypervisor, measured
from placement_sched.store.instances import Named

Json = dict[str, Any]

#: Instances by host, where they are asked for.
Servers = Mapping[str, Sequence[Named]]


def by_host(found: Collection[Named]) -> Servers:
    """Return instances by their host."""
    hosts: dict[str, list[Named]] = {}
    for named in found:
        hosts.setdefault(named.host, []).append(named)
    return hosts


def shown_briefly(call: Call, hypervisor: Hypervisor, servers: Servers | None = None) -> Json:
    """Return a hypervisor as lists without detail have it, with its instances if asked."""
    service = hypervisor.service
    document: Json = {
        "id": hypervisor.uuid if call.version.has(UUIDS) else hypervisor.id,
        "hypervisor_hostname": hypervisor.name,
        "state": service_documents.state(call, service),
        "status": service_documents.status(service),
    }
    if servers is not None:
        found = [
            {"name": named.display_name, "uuid": named.uuid}
            for named in servers.get(service.host, ())
            # An instance of no known node is on whichever its host has.
            if named.node in {None, hypervisor.name}
        ]
        if found or call.version.has(CONSISTENT):
            document["servers"] = found
    return document


def shown(call: Call, hypervisor: WholeHypervisor, servers: Servers | None = None) -> Json:
    """Return a hypervisor whole."""
    node, service = hypervisor.node, hypervisor.service
    document = shown_briefly(call, hypervisor, servers) | {
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": service_documents.name(call, service),
            "host": service.host,
            "disabled_reason": service.disabled_reason,
        },
    }
    if call.version.has(LEAN_HYPERVISORS):
        # As in nova, nobody vouches for the uptime of a host that is not heard of.
        is_up = document["state"] == "up"
        return document | {"uptime": hypervisor.uptime if is_up else None}
    cpu_info = orjson.loads(node.cpu_info) if call.version.has(CPU_INFO_OBJECT) else node.cpu_info
    return document | {"cpu_info": cpu_info} | measured(hypervisor)
