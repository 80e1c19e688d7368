"""What one process remembers for explanations; right with any number of processes."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import Connection

from placement_sched.db.histories import History, history_of
from placement_sched.model.placement.candidate import Candidates
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes

#: The requested amounts of one group by resource class id.
AmountsById = tuple[tuple[int, int], ...]

#: So many flavors are remembered; each takes about 15 bytes for a provider that has room for it.
_KEPT = 16
#: A provider is known by its id times this, and its generation.
GENERATIONS = 2**31


class CapacityMemory:
    """Which providers had room for an amount, as text in the form of a PostgreSQL array.

    Each with its generation. Whatever takes room from a provider increments its generation: a
    claim, other inventories. What frees room need not (OpenStack placement does not for a deleted
    allocation). So a provider that had room and is still of that generation has room, and no usage
    need be summed. Of one that had none, nothing is known. Right with any number of processes, also
    of OpenStack, that write to the database: within one ``history`` of it.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[History, AmountsById], str] = OrderedDict()
        self._lock = Lock()

    def known(self, amounts: AmountsById, history: History = None) -> str:
        """Return the providers known to have room for so much."""
        key = history, amounts
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key, "")

    def known_with(self, amounts: AmountsById, found: Candidates, history: History = None) -> str:
        """Return the same, and those that a search for so much of each has just found.

        One statement read the room and the generation, if it summed usages. Of a sample the
        generation was read later.
        """
        known = [text] if (text := self.known(amounts, history)) else []
        if found.usages.classes:
            known += [str(one.id * GENERATIONS + (one.generation or 0)) for one in found.providers]
        return ",".join(known)

    def note(self, amounts: AmountsById, known: str, history: History = None) -> None:
        """Remember those providers in place of those known before."""
        key = history, amounts
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)


class NodeNames:
    """Host and hypervisor_hostname of all compute nodes, by uuid.

    Each use reads a change counter, one row, and the names again only where it has moved. The
    counter is read before the names: a change that comes between is read once more.
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


@dataclass(frozen=True, slots=True)
class ExplanationMemory:
    """What one process remembers of capacity and of names."""

    capacity: CapacityMemory = field(default_factory=CapacityMemory)
    names: NodeNames = field(default_factory=NodeNames)
