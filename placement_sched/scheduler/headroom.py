"""What several instances of one request may still take together, before anything is claimed.

Each candidate fits one instance. A second instance on the same host must fit beside the first;
the claim would find out, but an answer without a claim has to know as well. Only what instances
took is accounted for: who none of them touched has all that it was found for.
"""

import sys
from collections import defaultdict
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
        # The candidates of hosts that were found to fit since they were last taken from.
        self._known: dict[str | None, tuple[list[Any], int]] = {}
        # Of each provider, the root providers of the hosts that have a candidate on it.
        self._roots: dict[str, set[str]] = defaultdict(set)

    @classmethod
    def unbounded(cls) -> Self:
        """Return what needs no accounts."""
        return cls(None, Candidates())

    def with_room(self, hosts: Iterable[HostState]) -> list[HostState]:
        """Return the hosts that :meth:`fits` says yes of."""
        if self._connection is None:
            return list(hosts)
        touched = self._touched
        return [
            host
            for host in hosts
            if (
                has_candidates(host)
                if host.uuid not in touched
                else self._is_known(host) or self.fits(host)
            )
        ]

    def most(self, hosts: Iterable[HostState]) -> int:
        """Return a number of instances that these hosts have room for at most, in two statements.

        What a host's candidates may take of, they may take together only once: so no request of
        more instances can find hosts for all of them. (One of fewer need not either.)
        """
        if self._connection is None:
            raise AssertionError("no accounts are kept")
        hosts = list(hosts)
        self._read(self._connection, hosts)
        return sum(map(self._most_on, hosts))

    def _most_on(self, host: HostState) -> int:
        """Return how many instances the providers of a host's candidates have room for at most.

        Only classes that every candidate takes of bound it: some may take PCPU, others VCPU.
        """
        places: dict[str, set[Place]] = defaultdict(set)
        asked: dict[str, list[int]] = defaultdict(list)
        for candidate in host.allocation_candidates:
            amounts: dict[str, int] = defaultdict(int)
            for place, amount in _amounts(candidate):
                places[place[1]].add(place)
                amounts[place[1]] += amount
            for name, amount in amounts.items():
                asked[name].append(amount)
        number = len(host.allocation_candidates)
        return min(
            (
                sum(max(self._free[place], 0) for place in places[name]) // min(each)
                for name, each in asked.items()
                if len(each) == number and min(each)
            ),
            default=sys.maxsize,
        )

    def _is_known(self, host: HostState) -> bool:
        """Return whether a host fits as it did before; a filter may have dropped candidates."""
        kept = self._known.get(host.uuid)
        return (
            kept is not None and kept[0] is host.allocation_candidates and kept[1] == len(kept[0])
        )

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
                offered = host.allocation_candidates
                self._known[host.uuid] = (offered, len(offered))
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
        if not self._roots:
            for request in self._candidates.requests:
                for uuid in request.uuids:
                    self._roots[uuid].add(request.root_uuid)
        for uuid in {uuid for uuid, _ in amounts}:
            self._touched |= self._roots[uuid]
            for root in self._roots[uuid]:
                self._known.pop(root, None)

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
