"""What several instances of one request may still take together, before anything is claimed.

Each candidate fits one instance. A second instance on the same host must fit beside the first;
the claim would find out, but an answer without a claim has to know as well.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from placement_sched.db.connection import Connection
from placement_sched.model.candidate import Candidates
from placement_sched.scheduler.host_state import HostState
from placement_sched.store import capacity, resource_classes

#: An allocation request, as JSON.
Candidate = Mapping[str, Any]


class Headroom:
    """Free units by provider uuid and class, less what instances of this request took."""

    def __init__(self, free: dict[str, dict[str, int]] | None = None) -> None:
        self._free = free

    @classmethod
    def unbounded(cls) -> Self:
        """Return what needs no accounts: a request for a single instance."""
        return cls()

    @classmethod
    def read(cls, connection: Connection, candidates: Candidates) -> Self:
        """Return what is free now of all that the candidates use, in two statements."""
        ids = {provider.uuid: provider.id for provider in candidates.providers}
        classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
        wanted = {
            (uuid, name)
            for request in candidates.requests
            for uuid, amounts in request.allocations.items()
            for name in amounts
        }
        rooms = capacity.read(connection, {(ids[uuid], classes[name]) for uuid, name in wanted})
        free: dict[str, dict[str, int]] = {}
        for uuid, name in wanted:
            room = rooms.get((ids[uuid], classes[name]))
            left = room.inventory.capacity - room.used if room else 0
            free.setdefault(uuid, {})[name] = left
        return cls(free)

    def fits(self, host: HostState) -> bool:
        """Return whether one more instance fits, by the first of the host's candidates that does.

        That one is put in front: of two equal devices the second instance takes the other.
        """
        if self._free is None:
            return True
        candidates = host.allocation_candidates
        for place, candidate in enumerate(candidates):
            if self._has_room(candidate):
                if place:
                    others = (*candidates[:place], *candidates[place + 1 :])
                    host.allocation_candidates = [candidate, *others]
                return True
        return False

    def take(self, host: HostState) -> None:
        """Note that one more instance goes there."""
        if self._free is None:
            return
        for uuid, name, amount in _amounts(host.allocation_candidates[0]):
            self._free[uuid][name] -= amount

    def _has_room(self, candidate: Candidate) -> bool:
        free = self._free or {}
        return all(free[uuid][name] >= amount for uuid, name, amount in _amounts(candidate))


def _amounts(candidate: Candidate) -> Iterator[tuple[str, str, int]]:
    """Yield provider, class and amount of all that an instance takes by a candidate."""
    for uuid, part in candidate["allocations"].items():
        for name, amount in part["resources"].items():
            yield uuid, name, amount
