"""The providers of a cloud as columns: what they are, what they have and what is used of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.row_values import (
    INVENTORY,
    ClassColumns,
    RowNumbers,
    RowValues,
    TraitBits,
)
from placement_sched.model.candidates_query import CandidateProvider
from placement_sched.store.placement.provider_state import (
    BATCH,
    KnownNames,
    ProviderRows,
    Row,
    Sums,
)

#: The bytes of a uuid's string and its place by which it is found, and of a place in a column.
_TEXT, _OBJECT = 85 + 110, 8
#: The bytes of a described provider: a tuple of five, and its numbers.
_DESCRIBED = 160

_Ids = NDArray[np.int64]


@dataclass(slots=True)
class ProviderTable:
    """What each provider is: its id, uuid, generation, root's and parent's id (0 for none)."""

    ids: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    uuids: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, np.object_))
    generations: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    roots: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    parents: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    #: As the search describes each, made when it is first found.
    described: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, np.object_))

    @property
    def nbytes(self) -> int:
        """Return about how many bytes this takes, once each provider was found by a search."""
        numbers = (self.ids, self.generations, self.roots, self.parents)
        objects = len(self.ids) * (_TEXT + _DESCRIBED + 2 * _OBJECT)
        return sum(one.nbytes for one in numbers) + objects

    def insert(self, ids: _Ids) -> None:
        """Make room for new providers of these ascending ids."""
        places = np.searchsorted(self.ids, ids)
        self.ids = np.insert(self.ids, places, ids)
        self.uuids = np.insert(self.uuids, places, "")
        self.generations = np.insert(self.generations, places, -1)
        self.roots = np.insert(self.roots, places, 0)
        self.parents = np.insert(self.parents, places, 0)
        self.described = np.insert(self.described, places, _objects([None] * len(ids)))

    def delete(self, keep: NDArray[np.bool_]) -> None:
        """Drop all but these."""
        self.ids, self.uuids = self.ids[keep], self.uuids[keep]
        self.generations, self.roots = self.generations[keep], self.roots[keep]
        self.parents, self.described = self.parents[keep], self.described[keep]


class ProviderColumns:
    """A cloud, brought up to date by :meth:`replace`; not safe without a lock.

    ``shape`` rises whenever a provider comes, goes or moves, or its traits or aggregates change.
    """

    def __init__(self, names: KnownNames) -> None:
        self.names = names
        self.providers = ProviderTable()
        self.classes: dict[int, ClassColumns] = {}
        self.traits = TraitBits()
        self.memberships = RowValues(np.empty(0, np.int32), {"aggregate": np.empty(0, np.int64)})
        self.shape = 0
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.providers.ids)

    @property
    def nbytes(self) -> int:
        """Return about how many bytes of memory the cloud takes."""
        columns = (one.stock.nbytes for one in self.classes.values())
        return self.providers.nbytes + sum(columns) + self.traits.nbytes + self.memberships.nbytes

    def rows_of(self, ids: Iterable[int]) -> RowNumbers:
        """Return the rows of the providers of these ids, without those that are not there."""
        wanted = np.fromiter(ids, np.int64)
        return self.places_of(wanted)[1]

    def places_of(self, wanted: _Ids) -> tuple[NDArray[np.bool_], RowNumbers]:
        """Return which of these ids are there, and the rows of those."""
        known = self.providers.ids
        if not len(known):
            return np.zeros(len(wanted), np.bool_), np.empty(0, np.int32)
        rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        there = known[rows] == wanted
        return there, rows[there].astype(np.int32)

    def ids_of(self, uuids: Iterable[str]) -> dict[str, int]:
        """Return the ids of the providers of these uuids."""
        known = ((uuid, self._ids.get(self._spelled(uuid))) for uuid in uuids)
        return {uuid: key for uuid, key in known if key is not None}

    def _spelled(self, uuid: str) -> str:
        return uuid.lower() if self.names.ignores_case else uuid

    def replace(self, changed: Collection[int], found: ProviderRows) -> None:
        """Put what was found of the ``changed`` providers in the place of what was known of them.

        A provider of which nothing was found is gone.
        """
        rows = sorted(found.providers, key=itemgetter(0))
        ids = np.array([row[0] for row in rows], np.int64)
        _, known = self.places_of(np.fromiter(changed, np.int64, len(changed)))
        gone = known[~np.isin(self.providers.ids[known], ids)]
        if len(gone):
            self._delete(gone)
        new = ids[~self.places_of(ids)[0]]
        if len(new):
            self._insert(new)
        if not len(ids):
            return
        places = self.rows_of(ids.tolist())
        self._describe(places, rows)
        self._stock(places, found)
        self._associate(places, found)

    def _delete(self, rows: RowNumbers) -> None:
        for uuid in self.providers.uuids[rows].tolist():
            del self._ids[self._spelled(uuid)]
        keep = np.ones(len(self), np.bool_)
        keep[rows] = False
        numbers = np.cumsum(keep, dtype=np.int64) - 1
        numbers[rows] = -1
        self.providers.delete(keep)
        self.traits.words = self.traits.words[keep]
        self._renumber(numbers)

    def _insert(self, ids: _Ids) -> None:
        places = np.searchsorted(self.providers.ids, ids)
        numbers = np.arange(len(self), dtype=np.int64)
        numbers += np.searchsorted(ids, self.providers.ids)
        self.providers.insert(ids)
        self.traits.words = np.insert(self.traits.words, places, np.uint64(0), axis=0)
        self._renumber(numbers)

    def _renumber(self, numbers: _Ids) -> None:
        for columns in self.classes.values():
            columns.stock.renumber(numbers)
        self.memberships.renumber(numbers)
        self.shape += 1

    def _describe(self, places: RowNumbers, rows: Sequence[Row]) -> None:
        providers = self.providers
        ids, uuids, generations, roots, parents = zip(*rows, strict=True)
        self._ids.update(zip(map(self._spelled, uuids), ids, strict=True))
        providers.uuids[places] = uuids
        providers.generations[places] = generations
        for column, values in ((providers.roots, roots), (providers.parents, parents)):
            moved = np.array(values, np.int64)
            if not np.array_equal(column[places], moved):
                column[places] = moved
                self.shape += 1
        providers.described[places] = None

    def _stock(self, places: RowNumbers, found: ProviderRows) -> None:
        numbers = np.array(found.inventories, np.float64).reshape(-1, 8)
        ids, classes = numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)
        values = {
            "capacity": (numbers[:, 2] - numbers[:, 3]) * numbers[:, 7],
            "min_unit": numbers[:, 4],
            "max_unit": numbers[:, 5],
            "step_size": numbers[:, 6],
            "used": _used(ids, classes, found.used),
        }
        there, _ = self.places_of(ids)
        for class_id in {*self.classes, *np.unique(classes[there]).tolist()}:
            own = np.flatnonzero((classes == class_id) & there)
            placed = self.places_of(ids[own])[1]
            order = np.argsort(placed, kind="stable")
            stock = RowValues(
                placed[order],
                {name: values[name][own][order].astype(kind) for name, kind in INVENTORY.items()},
            )
            self.classes.setdefault(class_id, ClassColumns()).replace(places, stock)

    def _associate(self, places: RowNumbers, found: ProviderRows) -> None:
        owners, traits = _pairs(found.traits)
        there, rows = self.places_of(owners)
        at = np.searchsorted(places, rows)
        words = self.traits.words_of(at, traits[there], len(places))
        if not np.array_equal(self.traits.words[places], words):
            self.traits.words[places] = words
            self.shape += 1
        owners, aggregates = _pairs(found.aggregates)
        there, rows = self.places_of(owners)
        order = np.lexsort((aggregates[there], rows))
        joined = RowValues(rows[order], {"aggregate": aggregates[there][order]})
        if self.memberships.replace(places, joined):
            self.shape += 1

    def sums(self) -> dict[int, Sums]:
        """Return the sums of batches of :data:`BATCH` ids, by the number of the batch."""
        if not len(self):
            return {}
        used = np.zeros(len(self), np.int64)
        for columns in self.classes.values():
            np.add.at(used, columns.stock.rows, columns.stock.values["used"])
        batches, first = np.unique(self.providers.ids // BATCH, return_index=True)
        counts = np.diff(np.append(first, len(self)))
        generations = np.add.reduceat(self.providers.generations, first)
        amounts = np.add.reduceat(used, first)
        numbers = zip(counts.tolist(), generations.tolist(), amounts.tolist(), strict=True)
        return dict(zip(batches.tolist(), map(Sums._make, numbers), strict=True))

    def ids_in(self, batches: Iterable[int]) -> list[int]:
        """Return the ids of the providers in batches of :data:`BATCH` ids."""
        ids = self.providers.ids
        found: list[int] = ids[np.isin(ids // BATCH, list(batches))].tolist()
        return found

    def differing(self, ids: Collection[int], found: ProviderRows) -> set[int]:
        """Return which of these providers have another generation or other used amounts."""
        generations = dict(
            zip(self.providers.ids.tolist(), self.providers.generations, strict=True)
        )
        read = {row[0]: row[2] for row in found.providers}
        wrong = {key for key in ids if read.get(key) != generations.get(key)}
        used = {(row[0], row[1]): row[2] for row in found.used}
        for key, class_id, *_ in found.inventories:
            if self._used_of(key, class_id) != used.get((key, class_id), 0):
                wrong.add(key)
        return wrong

    def _used_of(self, key: int, class_id: int) -> int | None:
        stock = self.classes[class_id].stock if class_id in self.classes else None
        rows = self.rows_of([key])
        if stock is None or not len(rows):
            return None
        places, there = stock.places(rows)
        return int(stock.values["used"][places[0]]) if there[0] else None

    def described(self, rows: RowNumbers) -> list[CandidateProvider]:
        """Return these providers, but for those without a root.

        The very same object describes a provider until it is replaced.
        """
        known = self.providers.described
        found: list[Any] = known[rows].tolist()
        if None in found:
            lacking = rows[[one is None for one in found]]
            known[lacking] = _objects(self._describe_rows(lacking))
            found = known[rows].tolist()
        return [one for one in found if one.root_uuid is not None]

    def _describe_rows(self, rows: RowNumbers) -> list[Any]:
        providers = self.providers
        columns = zip(
            providers.ids[rows].tolist(),
            providers.uuids[rows].tolist(),
            providers.generations[rows].tolist(),
            self._uuids_of(providers.roots[rows]),
            self._uuids_of(providers.parents[rows]),
            strict=True,
        )
        return list(map(CandidateProvider._make, columns))

    def _uuids_of(self, ids: _Ids) -> list[Any]:
        there, rows = self.places_of(ids)
        found = np.full(len(ids), None, np.object_)
        found[there] = self.providers.uuids[rows]
        return found.tolist()


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return objects as an array; of tuples numpy would make columns."""
    column = np.empty(len(values), np.object_)
    for place, value in enumerate(values):
        column[place] = value
    return column


def _used(ids: _Ids, classes: _Ids, used: Sequence[Row]) -> _Ids:
    """Return what is used of each inventory."""
    sums = np.array(used, np.int64).reshape(-1, 3)
    width = int(max(classes.max(initial=0), sums[:, 1].max(initial=0))) + 1
    keys = sums[:, 0] * width + sums[:, 1]
    order = np.argsort(keys)
    keys, amounts = keys[order], sums[order, 2]
    found = np.zeros(len(ids), np.int64)
    if len(keys):
        wanted = ids * width + classes
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[places] == wanted
        found[there] = amounts[places[there]]
    return found


def _pairs(rows: Sequence[Row]) -> tuple[_Ids, _Ids]:
    """Return the pairs of a provider and each of what its row names."""
    lengths = np.fromiter((len(row) - 1 for row in rows), np.int64, len(rows))
    owners = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    others = np.fromiter(chain.from_iterable(row[1:] for row in rows), np.int64)
    return np.repeat(owners, lengths), others
