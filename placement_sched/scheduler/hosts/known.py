"""The compute nodes and services that one process remembers; right with any number of processes.

What is remembered holds while the change counter of its host's part is the same
(``store/compute/host_changes``): one small statement a request, where nothing has changed. The
counters are read before the rows: a change that comes between is remembered under the older
version, and so is looked at once more. Nothing holds in another history of the database.
"""

from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import Any

from placement_sched.db.failover import History, history_of
from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.scheduler.host_state import NO_SERVICE, service_view
from placement_sched.store.compute import compute_nodes, host_changes, services

#: So many nodes are kept, more than most clouds have; a parsed report takes some kilobytes.
NODES = 20_000

#: The version of each part of the hosts, read before what it is about.
HostVersions = Mapping[int, int]


class NodeCache:
    """The nodes that one process has parsed, at most ``limit`` of them, longest unused go first.

    It is right with any number of processes: where hosts of a part have changed, each :meth:`get`
    asks the database for the version of every node asked of that part, and parses again those
    whose version is another.
    """

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each with its host's part, and the version of that which it was read under.
        self._nodes: dict[str, tuple[ComputeNode, int, int]] = {}
        self._history: History = None
        self._lock = Lock()

    def get(
        self, connection: Connection, uuids: Iterable[str], parts: HostVersions | None = None
    ) -> list[ComputeNode]:
        """Return the nodes of these uuids in this order, without those that are not there.

        ``parts`` are the versions that the request read, if it has. No statement where nothing
        has changed, one more where something has, and another for nodes that are new or changed.
        """
        history = history_of(connection)
        parts = host_changes.versions(connection) if parts is None else parts
        asked = list(dict.fromkeys(uuids))
        with self._lock:
            self._begin(history)
            known = {uuid: held for uuid in asked if (held := self._nodes.get(uuid)) is not None}
        nodes: dict[str, ComputeNode] = {}
        doubtful: list[str] = []
        changed = [uuid for uuid in asked if uuid not in known]
        version_of = parts.get
        for uuid, (node, part, version) in known.items():
            if version_of(part, 0) == version:
                nodes[uuid] = node
            else:
                doubtful.append(uuid)
        if doubtful:
            versions = compute_nodes.versions(connection, doubtful)
            for uuid, (version, last_seen_up) in versions.items():
                node = known[uuid][0]
                if node.version == version:
                    nodes[uuid] = node.seen_at(last_seen_up)
                else:
                    changed.append(uuid)
        if changed:
            nodes |= {node.uuid: node for node in compute_nodes.by_uuids(connection, changed)}
        self._keep(nodes, known, parts, history)
        return [nodes[uuid] for uuid in asked if uuid in nodes]

    def _begin(self, history: History) -> None:
        """Forget what was read in another history."""
        if history != self._history:
            self._history, self._nodes = history, {}

    def _keep(
        self,
        nodes: Mapping[str, ComputeNode],
        known: Mapping[str, tuple[ComputeNode, int, int]],
        parts: HostVersions,
        history: History,
    ) -> None:
        with self._lock:
            self._begin(history)
            kept = self._nodes
            # As long as there is room for all, it is no matter which were used last.
            ordered = 2 * (len(kept) + len(nodes)) > self._limit
            for uuid, node in nodes.items():
                held = known.get(uuid)
                same = held is not None and held[0] is node
                if held is None or not same or parts.get(held[1], 0) != held[2]:
                    part = host_changes.part_of(node.host)
                    held = (node, part, parts.get(part, 0))
                elif not ordered:
                    continue
                # Taken out and put back at the end: the order shows which were used last.
                kept.pop(uuid, None)
                kept[uuid] = held
            while len(kept) > self._limit:
                del kept[next(iter(kept))]

    def __len__(self) -> int:
        return len(self._nodes)


class ServiceCache:
    """The compute services of hosts as their states show them, at most ``limit`` of them."""

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each with its host's part, and the version of that which it was read under; all together
        # with the history that they were read in.
        self._views: tuple[History, dict[str, tuple[Mapping[str, Any], int, int]]] = (None, {})

    def get(
        self, connection: Connection, hosts: Collection[str], parts: HostVersions
    ) -> dict[str, Mapping[str, Any]]:
        """Return the service of each host; one statement where some may have changed."""
        found: dict[str, Mapping[str, Any]] = {}
        changed: list[str] = []
        history = history_of(connection)
        views = self._of(history)
        held_of, version_of = views.get, parts.get
        for host in hosts:
            held = held_of(host)
            if held is not None and version_of(held[1], 0) == held[2]:
                found[host] = held[0]
            else:
                changed.append(host)
        if not changed:
            return found
        read = services.by_hosts(connection, changed)
        if len(views) + len(changed) > self._limit:
            views = {}
            self._views = history, views
        for host in changed:
            service, part = read.get(host), host_changes.part_of(host)
            view = NO_SERVICE if service is None else service_view(service)
            found[host] = view
            views[host] = (view, part, version_of(part, 0))
        return found

    def _of(self, history: History) -> dict[str, tuple[Mapping[str, Any], int, int]]:
        """Return what was read in this history, having forgotten what was in another."""
        known, views = self._views
        if known != history:
            views = {}
            self._views = history, views
        return views

    def __len__(self) -> int:
        return len(self._views[1])
