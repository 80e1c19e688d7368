"""Host and node name of all compute nodes, remembered by one process."""

from collections.abc import Mapping

from sqlalchemy import Connection

from placement_sched.db.histories import History, history_of
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes


class NodeNames:
    """Host and hypervisor_hostname of all compute nodes, by uuid.

    Right with any number of processes: each use reads a change counter, one row, and the names
    again only if it has moved. The counter is read before the names: a change that comes between is
    read once more.
    """

    def __init__(self) -> None:
        self._seen: tuple[tuple[History, int], Mapping[str, tuple[str, str]]] | None = None

    def current(self, connection: Connection) -> Mapping[str, tuple[str, str]]:
        """Return the names as they are now."""
        history = history_of(connection)
        version = history, change_counters.version(connection, compute_nodes.NAMES)
        seen = self._seen
        if seen is None or seen[0] != version:
            seen = self._seen = (version, compute_nodes.names_by_uuid(connection))
        return seen[1]
