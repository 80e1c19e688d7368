"""What was counted of each node, in columns: the instances it takes, why no more, what is left.

Columns, because there may be ten thousand nodes and thirty flavors: an object for each pair costs
more than the counting.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placement_sched.scheduler.capacity.ledger import Ledger, Stock, Stop
from placement_sched.scheduler.capacity.pools import Component

#: Whole numbers: int64, or Python's own where they are larger.
NumberColumn = NDArray[np.int64] | NDArray[np.object_]

#: Sums of so large numbers are still exact in int64, of as many nodes as there may be.
_LARGE = 2**40


@dataclass(frozen=True, slots=True)
class PoolOfRows:
    """Nodes, by row, that take together no more than ``most`` instances of pools they share.

    ``own`` is what each instance takes of its node itself, by the name of the class.
    """

    rows: NDArray[np.int64]
    most: int
    own: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounts:
    """Nodes by row, each with the instances that it takes and why it takes no more.

    ``stops`` are the reasons, each once, and ``stop_of`` gives that of each row. ``free`` is what
    is left there by resource class, of the classes asked for; ``left`` how many candidates the node
    still has by then.
    """

    hosts: Sequence[str] = ()
    uuids: Sequence[str | None] = ()
    instances: NumberColumn = field(default_factory=lambda: np.zeros(0, np.int64))
    stops: Sequence[Stop] = ()
    stop_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    free: Mapping[str, NumberColumn] = field(default_factory=dict)
    left: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    pools: Sequence[PoolOfRows] = ()

    @classmethod
    def of(
        cls, ledgers: Sequence[Ledger], stock: Stock, components: Iterable[Component] = ()
    ) -> Self:
        """Return what the accounts of hosts came to."""
        numbers: dict[Stop, int] = {}
        unfinished = Stop("capacity_budget")
        stop_of = [numbers.setdefault(one.stop or unfinished, len(numbers)) for one in ledgers]
        free: dict[str, list[int]] = {}
        for row, ledger in enumerate(ledgers):
            for place in dict.fromkeys([place for way in ledger.every for place, _ in way.amounts]):
                column = free.setdefault(stock.names[place[1]], [0] * len(ledgers))
                column[row] += max(stock.free.get(place, 0), 0)
        rows = {id(ledger): row for row, ledger in enumerate(ledgers)}
        return cls(
            hosts=[ledger.host.host for ledger in ledgers],
            uuids=[ledger.host.uuid for ledger in ledgers],
            instances=column_of([ledger.instances for ledger in ledgers]),
            stops=list(numbers),
            stop_of=np.array(stop_of, np.int64),
            free={name: column_of(amounts) for name, amounts in free.items()},
            left=np.array([ledger.left for ledger in ledgers], np.int64),
            pools=[
                PoolOfRows(
                    np.array([rows[id(one)] for one in some.ledgers], np.int64),
                    some.most,
                    {stock.names[class_id]: amount for class_id, amount in some.own.items()},
                )
                for some in components
            ],
        )

    def __len__(self) -> int:
        return len(self.hosts)

    def without(self, uuids: Collection[str | None], stop: Stop) -> Self:
        """Return the same with no instances on these nodes, for this reason."""
        if not uuids:
            return self
        rows = [row for row, uuid in enumerate(self.uuids) if uuid in uuids]
        instances, stop_of = self.instances.copy(), self.stop_of.copy()
        instances[rows] = 0
        stop_of[rows] = len(self.stops)
        return replace(self, instances=instances, stops=[*self.stops, stop], stop_of=stop_of)

    def joined(self, other: Self) -> Self:
        """Return these rows, and after them those of another count without pools."""

        def free(one: Self, name: str) -> NumberColumn:
            return one.free.get(name, np.zeros(len(one), np.int64))

        return replace(
            self,
            hosts=[*self.hosts, *other.hosts],
            uuids=[*self.uuids, *other.uuids],
            instances=_joined(self.instances, other.instances),
            stops=[*self.stops, *other.stops],
            stop_of=np.concatenate([self.stop_of, other.stop_of + len(self.stops)]),
            free={
                name: _joined(free(self, name), free(other, name))
                for name in dict.fromkeys((*self.free, *other.free))
            },
            left=np.concatenate([self.left, other.left]),
        )


def column_of(amounts: Sequence[int]) -> NumberColumn:
    """Return whole numbers of any size as a column whose sums are exact."""
    if max(amounts, default=0) < _LARGE:
        return np.array(amounts, np.int64)
    return np.array(amounts, np.object_)


def sums(groups: NDArray[np.int64], amounts: NumberColumn, number: int) -> list[int]:
    """Return the sums of amounts by the number of their group, of which there are ``number``."""
    found = np.zeros(number, amounts.dtype)
    np.add.at(found, groups, amounts)
    summed: list[int] = found.tolist()
    return summed


def _joined(one: NumberColumn, other: NumberColumn) -> NumberColumn:
    column: NumberColumn = np.concatenate([one, other])
    return column
