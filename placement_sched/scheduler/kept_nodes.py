"""Reports of hosts that are kept for a while, and what was placed since they were read."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from threading import Lock

from placement_sched.db.connection import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.nodes import NodeCache


class KeptNodes:
    """The compute nodes of one process as CachingScheduler sees them; for any number of threads."""

    def __init__(self, nodes: NodeCache) -> None:
        self._read = nodes
        self._kept: dict[str, ComputeNode] = {}
        self._placed: dict[str, list[RequestSpec]] = defaultdict(list)
        self._since: datetime | None = None
        self._lock = Lock()

    def refresh(self, now: datetime, interval: int) -> float:
        """Forget all that was read more than ``interval`` seconds ago; return the age in seconds.

        A negative interval never does.
        """
        with self._lock:
            age = 0.0 if self._since is None else (now - self._since).total_seconds()
            if self._since is None or 0 <= interval <= age:
                self._kept.clear()
                self._placed.clear()
                self._since, age = now, 0.0
            return age

    def get(self, connection: Connection, uuids: Iterable[str]) -> list[ComputeNode]:
        """Return the nodes of these uuids in this order, without those that are not there."""
        asked = list(dict.fromkeys(uuids))
        with self._lock:
            known = {uuid: self._kept[uuid] for uuid in asked if uuid in self._kept}
        if len(known) < len(asked):
            new = self._read.get(connection, [uuid for uuid in asked if uuid not in known])
            known |= {node.uuid: node for node in new}
            with self._lock:
                self._kept |= {node.uuid: node for node in new}
        return [known[uuid] for uuid in asked if uuid in known]

    def placed_on(self, uuid: str) -> Sequence[RequestSpec]:
        """Return what was placed on a node since it was read, an instance each."""
        with self._lock:
            return tuple(self._placed.get(uuid, ()))

    def note(self, placed: Iterable[tuple[str, RequestSpec]]) -> None:
        """Note instances that were claimed, each on the node of a uuid."""
        with self._lock:
            for uuid, spec in placed:
                self._placed[uuid].append(spec)
