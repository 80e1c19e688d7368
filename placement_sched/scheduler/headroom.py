"""What several instances of one request may still take together, before anything is claimed.

Each candidate fits one instance. A second instance on the same host must fit beside the first;
the claim would find out, but an answer without a claim has to know as well. Only what instances
took is accounted for: who none of them touched has all that it was found for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from placement_sched.db.connection import Connection
from placement_sched.model.candidate import Candidates
from placement_sched.scheduler.host_state import HostState, has_candidates
from placement_sched.store import capacity, resource_classes

#: An allocation request, as JSON.
Candidate = Mapping[str, Any]
#: A provider's uuid and the name of a class.
Place = tuple[str, str]


class Headroom:
    """Free units of what instances of this request took something of.

    ``connection`` is None for a request that needs no accounts: of a single instance.
    """

    def __init__(self, connection: Connection | None, candidates: Candidates) -> None:
        self._connection = connection
        self._candidates = candidates
        self._free: dict[Place, int] = {}
        self._taken: set[Place] = set()
        # The root providers of hosts that have a candidate on a provider that was taken from.
        self._touched: set[str] = set()

    @classmethod
    def unbounded(cls) -> Self:
        """Return what needs no accounts."""
        return cls(None, Candidates())

    def fits(self, host: HostState) -> bool:
        """Return whether one more instance fits, by the first of the host's candidates that does.

        That one is put in front: of two equal devices the second instance takes the other.
        """
        if self._connection is None:
            return True
        if host.uuid not in self._touched:
            return has_candidates(host)
        candidates = host.allocation_candidates
        for place, candidate in enumerate(candidates):
            if self._has_room(candidate):
                if place:
                    others = (*candidates[:place], *candidates[place + 1 :])
                    host.allocation_candidates = [candidate, *others]
                return True
        return False

    def take(self, host: HostState, next_best: Sequence[HostState] = ()) -> None:
        """Note that one more instance goes there.

        ``next_best`` are hosts that others are likely to go to: what is free there is read along,
        so that the number of statements does not follow that of the instances.
        """
        if self._connection is None:
            return
        amounts = dict(_amounts(host.allocation_candidates[0]))
        if not amounts.keys() <= self._free.keys():
            self._read(self._connection, (host, *next_best))
        for place, amount in amounts.items():
            self._free[place] -= amount
        self._taken.update(amounts)
        providers = {uuid for uuid, _ in amounts}
        self._touched.update(
            request.root_uuid
            for request in self._candidates.requests
            if not providers.isdisjoint(request.uuids)
        )

    def _read(self, connection: Connection, hosts: Iterable[HostState]) -> None:
        """Learn what is free now of all that the hosts' candidates use, in two statements."""
        ids = {provider.uuid: provider.id for provider in self._candidates.providers}
        classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
        wanted = {
            place
            for host in hosts
            for candidate in host.allocation_candidates
            for place, _ in _amounts(candidate)
        } - self._free.keys()
        keys = {place: (ids.get(place[0], 0), classes[place[1]]) for place in wanted}
        rooms = capacity.read(connection, keys.values())
        for place, key in keys.items():
            room = rooms.get(key)
            self._free[place] = room.inventory.capacity - room.used if room else 0

    def _has_room(self, candidate: Candidate) -> bool:
        return all(
            self._free[place] >= amount
            for place, amount in _amounts(candidate)
            if place in self._taken
        )


def _amounts(candidate: Candidate) -> Iterator[tuple[Place, int]]:
    """Yield what an instance takes by a candidate, and how much of it."""
    for uuid, part in candidate["allocations"].items():
        for name, amount in part["resources"].items():
            yield (uuid, name), amount
