"""Host aggregates and hosts as the compute API tells them: of nova, or of this service."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import HostMap
from placement_sched.remote.service import Service

T = TypeVar("T")

#: Aggregates have uuids since 2.41, hypervisors since 2.53 (compute API, "Microversion history").
VERSION, SINCE = "2.53", "Pike"
#: How many hypervisors are asked for at a time: the most that nova gives by default. Its operator
#: may let it give fewer ([api] max_limit), and it does so without a word.
PAGE = 1000


class RemoteDirectory:
    """Reads ``os-aggregates``, ``os-hypervisors/detail`` and ``os-services`` of a compute API."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def read(self) -> HostMap:
        """Return aggregates and hosts as they are now; raises :class:`ServiceFailed`."""
        aggregates = self._list("/os-aggregates", "aggregates", _aggregate)
        serving = self._list("/os-services", "services", _host, binary="nova-compute")
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
            page = self._list(path, "hypervisors", _node, limit=PAGE, **after)
            fresh = [(host, uuid) for host, uuid in page if uuid not in seen]
            if not fresh:
                return
            yield from fresh
            seen.update(uuid for _, uuid in fresh)
            after = {"marker": page[-1][1]}

    def _list(
        self, path: str, key: str, read: Callable[[Mapping[str, Any]], T], **params: str | int
    ) -> list[T]:
        document = self._service.ask("GET", path, params=params).document
        try:
            return [read(one) for one in document[key]]
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._service.failed(
                f"{self._service.place} did not answer GET {path} as the compute API says"
            ) from None


def _aggregate(told: Mapping[str, Any]) -> HostAggregate:
    return HostAggregate(
        id=int(told["id"]),
        uuid=str(told["uuid"]),
        name=str(told["name"]),
        hosts=frozenset(map(str, told["hosts"])),
        metadata={str(key): str(value) for key, value in told["metadata"].items()},
    )


def _host(told: Mapping[str, Any]) -> str:
    return str(told["host"])


def _node(told: Mapping[str, Any]) -> tuple[str, str]:
    return str(told["service"]["host"]), str(told["id"])
