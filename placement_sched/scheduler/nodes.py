"""Compute nodes as their last reports described them, remembered while the reports stay."""

from collections.abc import Iterable
from dataclasses import replace
from threading import Lock

from placement_sched.db.connection import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.store import compute_nodes

#: More than most clouds have; a parsed report takes some kilobytes.
LIMIT = 20_000


class NodeCache:
    """The nodes that one process has parsed, at most ``limit`` of them, longest unused go first.

    It is right with any number of processes, because each :meth:`get` asks the database for the
    version of every node asked, and parses again those whose version is another.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._nodes: dict[str, ComputeNode] = {}
        self._lock = Lock()

    def get(self, connection: Connection, uuids: Iterable[str]) -> list[ComputeNode]:
        """Return the nodes of these uuids in this order, without those that are not there.

        One statement, and a second one where a node is new or changed.
        """
        asked = list(dict.fromkeys(uuids))
        versions = compute_nodes.versions(connection, asked)
        with self._lock:
            known = {uuid: self._nodes[uuid] for uuid in versions if uuid in self._nodes}
        nodes: dict[str, ComputeNode] = {}
        for uuid, (version, last_seen_up) in versions.items():
            node = known.get(uuid)
            if node is not None and node.version == version:
                beating = node.last_seen_up == last_seen_up
                nodes[uuid] = node if beating else replace(node, last_seen_up=last_seen_up)
        stale = [uuid for uuid in versions if uuid not in nodes]
        if stale:
            nodes |= {node.uuid: node for node in compute_nodes.by_uuids(connection, stale)}
        self._remember(nodes)
        return [nodes[uuid] for uuid in asked if uuid in nodes]

    def __len__(self) -> int:
        return len(self._nodes)

    def _remember(self, nodes: dict[str, ComputeNode]) -> None:
        with self._lock:
            for uuid, node in nodes.items():
                # Taken out and put back at the end: the order tells which were used last.
                self._nodes.pop(uuid, None)
                self._nodes[uuid] = node
            while len(self._nodes) > self._limit:
                del self._nodes[next(iter(self._nodes))]
