"""What one host still has for instances of a request, and why it takes no more."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placement_sched.candidates.providers import ProviderSource
from placement_sched.model.placement.candidate import AllocationRequest, Candidates
from placement_sched.scheduler.host_state import HostState, candidates_of

#: A provider's id and a class's id: together they name one inventory.
InventoryKey = tuple[int, int]


class Way(NamedTuple):
    """One allocation candidate of a host, and what an instance takes by it."""

    candidate: Any
    amounts: tuple[tuple[InventoryKey, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Stop:
    """Why a host takes no more: a resource class that ran out, or the stage that refuses it."""

    reason: str
    detail: str = ""
    is_resource: bool = False


@dataclass(frozen=True, slots=True)
class Stock:
    """What is free of what candidates use, and how candidates name it.

    ``free`` goes down as instances are placed; ``names`` are the classes by id.
    """

    ids: Mapping[str, int]
    classes: Mapping[str, int]
    names: Mapping[int, str]
    free: dict[InventoryKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: ProviderSource, found: Candidates, classes: Mapping[str, int]) -> "Stock":
        """Return what is free of all that these candidates use; no statement where none is."""
        ids = {provider.uuid: provider.id for provider in found.providers}
        stock = cls(ids, classes, {key: name for name, key in classes.items()})
        places = {place for one in found.requests for place, _ in stock.amounts(one)}
        if places:
            known = source.free(places)
            stock.free.update({place: known[place].amount for place in places if place in known})
        return stock

    def amounts(self, candidate: Any) -> tuple[tuple[InventoryKey, int], ...]:
        """Return what an instance takes by a candidate, as the search made it or as JSON of it."""
        ids, classes = self.ids, self.classes
        if isinstance(candidate, AllocationRequest):
            parts: Iterable[tuple[str, Mapping[str, int]]] = zip(
                candidate.uuids, candidate.layout.amounts, strict=True
            )
        else:
            given = candidate["allocations"].items()
            parts = ((uuid, part["resources"]) for uuid, part in given)
        return tuple(
            [
                ((ids[uuid], classes[name]), amount)
                for uuid, some in parts
                for name, amount in some.items()
            ]
        )

    def times(self, way: Way) -> int:
        """Return how many instances may still be placed in this way."""
        free = self.free
        return min((free.get(place, 0) // amount for place, amount in way.amounts), default=0)

    def take(self, way: Way, times: int = 1) -> None:
        """Note that so many instances are placed in this way."""
        for place, amount in way.amounts:
            self.free[place] -= amount * times

    def scarcest(self, way: Way) -> str:
        """Return the class of which the smallest part is left of what one instance asks."""
        parts = [
            (self.free.get(place, 0) / amount, place[1]) for place, amount in way.amounts if amount
        ]
        return self.names[min(parts)[1]]


@dataclass(slots=True, eq=False)
class Ledger:
    """The account of one host: its ways to allocate in order, and how many instances it took.

    ``left`` is how many candidates it is still offered with when it takes no more.
    """

    host: HostState
    every: tuple[Way, ...]
    ways: list[Way]
    instances: int = 0
    stop: Stop | None = None
    left: int = 0

    @classmethod
    def of(cls, host: HostState, stock: Stock) -> "Ledger":
        """Return the account of a host before anything is placed."""
        every = tuple([Way(one, stock.amounts(one)) for one in candidates_of(host)])
        return cls(host, every, list(every))

    def keep_left(self, stock: Stock) -> None:
        """Keep only the ways that filters left."""
        candidates = candidates_of(self.host)
        if len(candidates) < len(self.ways):
            self.ways = [Way(one, stock.amounts(one)) for one in candidates]

    def fill(self, stock: Stock) -> None:
        """Place as many instances as there is room for, each in the first way that is left."""
        for way in self.ways:
            if (times := stock.times(way)) > 0:
                stock.take(way, times)
                self.instances += times
        self.ran_out(stock)

    def ran_out(self, stock: Stock) -> None:
        """Note that no way has room for another instance."""
        last = self.ways[-1] if self.ways else self.every[-1]
        self.ended(Stop(stock.scarcest(last), is_resource=True), stock)

    def ended(self, stop: Stop, stock: Stock) -> None:
        """Note why it takes no more."""
        self.stop = stop
        self.left = sum(1 for way in self.every if stock.times(way) > 0)


def lanes_of(ledgers: Iterable[Ledger]) -> Iterator[list[Ledger]]:
    """Yield the nodes of each host together: they share its recorded instances."""
    lanes: dict[str, list[Ledger]] = {}
    for ledger in ledgers:
        lanes.setdefault(ledger.host.host, []).append(ledger)
    yield from lanes.values()
