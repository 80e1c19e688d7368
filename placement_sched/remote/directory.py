"""Host aggregates and hosts as the compute API of nova, or of this service, shows them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.provider_sync import HostMap
from placement_sched.remote.service import RemoteService

#: Maximum number of hypervisors per request: the most that nova gives by default. Its operator
#: may let it give fewer ([api] max_limit), and it does so silently.
PAGE = 1000


def read_remote_hosts(service: RemoteService) -> HostMap:
    """Return aggregates and hosts of a compute API now; raises :class:`ServiceFailed`."""
    aggregates = service.listed("/os-aggregates", "aggregates", _aggregate)
    serving = service.listed(
        "/os-services", "services", lambda each: str(each["host"]), binary="nova-compute"
    )
    nodes: dict[str, set[str]] = defaultdict(set)
    for uuid, host in _hypervisors(service).items():
        nodes[host].add(uuid)
    return HostMap(
        aggregates=tuple(sorted(aggregates, key=lambda aggregate: aggregate.id)),
        known=frozenset(serving) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )


def _hypervisors(service: RemoteService) -> dict[str, str]:
    """Return the host of each compute node by its uuid, read page by page.

    However short a page is, another may follow; the last is a page that brings nothing new. nova
    and this service give every other list whole.
    """
    path, hosts, after = "/os-hypervisors/detail", dict[str, str](), dict[str, str]()
    while True:
        page = service.listed(path, "hypervisors", _node, limit=PAGE, **after)
        if hosts.keys() >= dict(page).keys():
            return hosts
        hosts = dict(page) | hosts
        after = {"marker": page[-1][0]}


def _aggregate(document: Mapping[str, Any]) -> HostAggregate:
    return HostAggregate(
        id=int(document["id"]),
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        hosts=frozenset(map(str, document["hosts"])),
        metadata={str(key): str(value) for key, value in document["metadata"].items()},
    )


def _node(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["id"]), str(document["service"]["host"])
