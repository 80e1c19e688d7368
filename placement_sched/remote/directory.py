"""Host aggregates and hosts as the compute API of nova, or of this service, shows them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.placement.sync import HostMap
from placement_sched.remote.service import RemoteService

#: Aggregates have uuids since 2.41, hypervisors since 2.53 (compute API, "Microversion history").
VERSION, SINCE = "2.53", "Pike"
#: How many hypervisors are asked for at a time: the most that nova gives by default. Its operator
#: may let it give fewer ([api] max_limit), and it does so silently.
PAGE = 1000


class RemoteDirectory:
    """Reads ``os-aggregates``, ``os-hypervisors/detail`` and ``os-services`` of a compute API."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    def read(self) -> HostMap:
        """Return aggregates and hosts as they are now; raises :class:`ServiceFailed`."""
        listed = self._service.listed
        aggregates = listed("/os-aggregates", "aggregates", _aggregate)
        serving = listed(
            "/os-services", "services", lambda service: str(service["host"]), binary="nova-compute"
        )
        nodes: dict[str, set[str]] = defaultdict(set)
        for host, uuid in self._hypervisors():
            nodes[host].add(uuid)
        return HostMap(
            aggregates=tuple(sorted(aggregates, key=lambda one: one.id)),
            known=frozenset(serving) | nodes.keys(),
            nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
        )

    def _hypervisors(self) -> Iterator[tuple[str, str]]:
        """Yield host and uuid of each compute node, page by page.

        However short a page is, another may follow; the last is one that brings nothing new. nova
        and this service give every other list whole.
        """
        path = "/os-hypervisors/detail"
        seen: set[str] = set()
        after: dict[str, str] = {}
        while True:
            page = self._service.listed(path, "hypervisors", _node, limit=PAGE, **after)
            fresh = [(host, uuid) for host, uuid in page if uuid not in seen]
            if not fresh:
                return
            yield from fresh
            seen.update(uuid for _, uuid in fresh)
            after = {"marker": page[-1][1]}


def _aggregate(document: Mapping[str, Any]) -> HostAggregate:
    return HostAggregate(
        id=int(document["id"]),
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        hosts=frozenset(map(str, document["hosts"])),
        metadata={str(key): str(value) for key, value in document["metadata"].items()},
    )


def _node(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["service"]["host"]), str(document["id"])
