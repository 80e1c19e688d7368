"""What several instances of one request may still take together, before anything is claimed.

Each candidate fits one instance. A second instance on the same host must fit beside the first;
the claim would find out, but an answer without a claim has to know as well. Only what instances
took is accounted for: providers that none of them used keep all their capacity.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState, offer, with_candidates
from placement_sched.scheduler.weighing import Weighing
from placement_sched.scheduler.weights import WeighedHost
from placement_sched.store.placement import capacity, resource_classes

#: A provider's uuid and the name of a class.
InventoryName = tuple[str, str]


class Headroom:
    """Free units of what instances of this request took something of.

    ``connection`` is None for a request that needs no accounts: of one instance, or a rebuild.
    """

    def __init__(self, connection: Connection | None, candidates: Candidates) -> None:
        self._connection = connection
        self._candidates = candidates
        self._free: dict[InventoryName, int] = {}
        self._taken: set[InventoryName] = set()
        # The root providers of hosts that have a candidate on a provider that was taken from.
        self._touched: set[str] = set()
        # Of each provider, the root providers of the hosts that have a candidate on it.
        self._roots: dict[str, list[str]] = defaultdict(list)
        # Those of these hosts of which it is not known whether their first candidate still fits.
        self._open: set[str | None] = set()

    @classmethod
    def of(cls, connection: Connection, spec: RequestSpec, candidates: Candidates) -> Self:
        """Return the accounts of a request: none for one instance, or a rebuild."""
        needed = spec.num_instances > 1 and not spec.is_rebuild
        return cls(connection, candidates) if needed else cls.unbounded()

    @classmethod
    def unbounded(cls) -> Self:
        """Return a headroom that limits nothing."""
        return cls(None, Candidates())

    @property
    def is_kept(self) -> bool:
        """Return whether accounts are kept at all."""
        return self._connection is not None

    def left(
        self, hosts: Mapping[str | None, Sequence[HostState]]
    ) -> list[tuple[HostState, Sequence[Any]]]:
        """Return the hosts of which other candidates are left than they have, with these.

        The hosts are given by their uuids. The first candidate by which one more instance fits
        beside those placed before comes first: of two equal devices the second instance takes the
        other. None are left where none fits.
        """
        # Most hosts are as they were when the instance before was placed.
        asked = [host for uuid in self._open for host in hosts.get(uuid, ())]
        pairs = [(host, self._in_order(host)) for host in asked]
        return [(host, left) for host, left in pairs if left is not host.allocation_candidates]

    def look_again(self, hosts: Iterable[HostState]) -> None:
        """Note that these hosts may have other candidates, of which a filter dropped some."""
        self._open.update([host.uuid for host in hosts if host.uuid in self._touched])

    def _in_order(self, host: HostState) -> Sequence[Any]:
        """Return the candidates of a host that was taken from, or none where no instance fits."""
        candidates = host.allocation_candidates
        at = next((at for at, one in enumerate(candidates) if self._is_free(one)), None)
        if at is None:
            return ()
        if at:
            return [candidates[at], *candidates[:at], *candidates[at + 1 :]]
        self._open.discard(host.uuid)
        return candidates

    def _is_free(self, candidate: Mapping[str, Any]) -> bool:
        """Return whether an instance can still take what it takes by this allocation request."""
        free, taken = self._free, self._taken
        for uuid, part in candidate["allocations"].items():
            for name, amount in part["resources"].items():
                if (uuid, name) in taken and free[uuid, name] < amount:
                    return False
        return True

    def most(self, hosts: Sequence[HostState]) -> int:
        """Return a number of instances that these hosts have room for at most, in two statements.

        What a host's candidates may take of, they may take together only once: so no request of
        more instances can find hosts for all of them. (One of fewer need not either.)
        """
        if self._connection is None:
            raise AssertionError("no accounts are kept")
        self._read(self._connection, hosts)
        return sum(map(self._most_on, hosts))

    def _most_on(self, host: HostState) -> int:
        """Return how many instances the providers of a host's candidates have room for at most.

        Only classes that every candidate takes of bound it: some may take PCPU, others VCPU.
        """
        places: dict[str, set[InventoryName]] = defaultdict(set)
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

    def take(self, host: HostState, next_best: Iterable[HostState] = ()) -> None:
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
                    self._roots[uuid].append(request.root_uuid)
        for uuid in {uuid for uuid, _ in amounts}:
            self._touched.update(self._roots[uuid])
            self._open.update(self._roots[uuid])

    def _read(self, connection: Connection, hosts: Iterable[HostState]) -> None:
        """Learn what is free now of all that the hosts' candidates use, in two statements."""
        ids = {provider.uuid: provider.id for provider in self._candidates.providers}
        classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
        candidates = (one for host in hosts for one in host.allocation_candidates)
        used = {place for candidate in candidates for place, _ in _amounts(candidate)}
        wanted = used - self._free.keys()
        keys = {place: (ids.get(place[0], 0), classes[place[1]]) for place in wanted}
        rooms = capacity.read(connection, keys.values())
        for place, key in keys.items():
            room = rooms.get(key)
            self._free[place] = room.inventory.capacity - room.used if room else 0


@dataclass(slots=True)
class PlacedSoFar:
    """What the instances of a request placed so far leave to those that come.

    ``hosts`` are those that may still have room, ``spec`` is the request with the earlier
    instances in its server group. ``asks_again`` is whether filters look at all of them for each
    instance; else only at those of the ``touched`` names, where an instance went. ``own`` are those
    that have instances of the request from before.
    """

    headroom: Headroom
    weighing: Weighing
    hosts: list[HostState]
    spec: RequestSpec
    asks_again: bool = True
    chosen: list[WeighedHost] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    own: list[HostState] | None = None
    # The list whose hosts have candidates, and where they are in it: of many hosts, those that have
    # changed are then found without a look at the others.
    _known: list[HostState] | None = None
    _by_uuid: dict[str | None, list[HostState]] = field(default_factory=dict)
    _places: dict[str, list[int]] = field(default_factory=dict)

    def note(self, host: HostState) -> None:
        """Note that an instance goes to a host, before it does.

        Those that have instances of the request from before count as changed, too: each of these
        joins the server group when it is placed.
        """
        if self.own is None:
            group = self.spec.instance_group
            uuids = frozenset(self.spec.instance_uuids if group else ())
            self.own = [one for one in self.hosts if uuids and not uuids.isdisjoint(one.instances)]
        for one in (host, *self.own):
            self.weighing.note(one)
            self.touched.add(one.host)

    def with_room(self, hosts: list[HostState]) -> list[HostState]:
        """Offer the hosts the candidates that are left, and return those where one more fits.

        It is the same list where that is all of them.
        """
        if not self.headroom.is_kept:
            return hosts
        if hosts is not self._known:
            hosts = self._learn(with_candidates(hosts))
        changed = self.headroom.left(self._by_uuid)
        for host, candidates in changed:
            offer(host, candidates)
            self.touched.add(host.host)
        if all(candidates for _, candidates in changed):
            return hosts
        return self._learn(with_candidates(hosts))

    def changed_among(self, hosts: list[HostState]) -> list[HostState]:
        """Return the hosts of the touched names, in their order, and forget these names."""
        if hosts is not self._known:
            self._learn(hosts)
        places = sorted(at for name in self.touched for at in self._places.get(name, ()))
        self.touched.clear()
        return [hosts[at] for at in places]

    def _learn(self, hosts: list[HostState]) -> list[HostState]:
        """Learn where each of the hosts is, and return them."""
        self._known = hosts
        self._by_uuid = grouped((host.uuid, host) for host in hosts)
        self._places = grouped((host.host, at) for at, host in enumerate(hosts))
        return hosts


def _amounts(candidate: Mapping[str, Any]) -> Iterator[tuple[InventoryName, int]]:
    """Yield what an instance takes by an allocation request, and how much of it."""
    for uuid, part in candidate["allocations"].items():
        for name, amount in part["resources"].items():
            yield (uuid, name), amount
