"""The providers of a cloud as columns: what they are, what they have and what is used of it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_sched.model.candidates_query import CandidateProvider
from placement_sched.model.provider import MAX_INT
from placement_sched.store.placement.provider_state import (
    BATCH,
    KnownNames,
    ProviderRows,
    Row,
    Sums,
)

#: Numbers of rows, one of each provider, in ascending order.
RowNumbers = NDArray[np.int32]
#: Whether something holds, for each of some rows.
Mask = NDArray[np.bool_]
#: Some rows: those of a range, or of numbers in ascending order.
SomeRows = slice | RowNumbers


def number_of(rows: SomeRows) -> int:
    """Return how many rows these are."""
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def in_ranges(first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all numbers of these ranges, one range after the other."""
    lengths = end - first
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))


#: A capacity above this counts as this, since numpy's integers end. No request comes near.
_MAX_CAPACITY = 2.0**62


def whole_capacities(capacities: NDArray[np.number]) -> NDArray[np.int64]:
    """Return capacities without their fractions."""
    whole: NDArray[np.int64] = np.minimum(capacities, _MAX_CAPACITY).astype(np.int64)
    return whole


_NO_ROWS: RowNumbers = np.empty(0, np.int32)


@dataclass(slots=True)
class RowValues:
    """Values of some rows, in the order of these; a row may have several.

    ``rows`` names the row of each value; all arrays are of one length.
    """

    rows: RowNumbers
    values: dict[str, NDArray[np.number]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Return how many bytes the arrays take."""
        return self.rows.nbytes + sum(one.nbytes for one in self.values.values())

    def replace(self, changed: RowNumbers, new: "RowValues") -> bool:
        """Put these values in the place of all that the ``changed`` rows have.

        Return whether anything is different.
        """
        held = self._held(changed)
        if np.array_equal(self.rows[held], new.rows):
            # What changes most is how much is used.
            differs = False
            for name, value in new.values.items():
                column = self.values[name]
                if not np.array_equal(column[held], value):
                    column[held] = value
                    differs = True
            return differs
        keep = np.ones(len(self.rows), np.bool_)
        keep[held] = False
        rows = self.rows[keep]
        places = np.searchsorted(rows, new.rows)
        self.values = {
            name: np.insert(value[keep], places, new.values[name])
            for name, value in self.values.items()
        }
        self.rows = np.insert(rows, places, new.rows)
        return True

    def _held(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return the places of all values of these ascending rows."""
        first = np.searchsorted(self.rows, rows, "left")
        return in_ranges(first, np.searchsorted(self.rows, rows, "right"))

    def renumber(self, numbers: NDArray[np.int64]) -> None:
        """Give each row its new number, by the old one; a negative one drops its values."""
        new = numbers[self.rows]
        keep = new >= 0
        if not keep.all():
            new = new[keep]
            self.values = {name: value[keep] for name, value in self.values.items()}
        self.rows = new.astype(np.int32)

    def span(self, rows: slice) -> slice:
        """Return the range of the values of a range of rows, of which none has several."""
        if self._of_each(rows.stop - 1):
            return rows
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        return slice(int(first), int(last))

    def places(self, rows: RowNumbers) -> tuple[NDArray[np.int64], Mask]:
        """Return the place of the value of each row, and whether it has one; none has several."""
        if not len(self.rows):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        if not len(rows) or self._of_each(int(rows.max())):
            return rows.astype(np.int64), np.ones(len(rows), np.bool_)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return places, self.rows[places] == rows

    def _of_each(self, last: int) -> bool:
        """Return whether each row up to ``last`` has a value, where none has several."""
        return 0 <= last < len(self.rows) and int(self.rows[last]) == last


#: The columns of an inventory, and how their numbers are kept.
INVENTORY: Mapping[str, type[np.number]] = {
    "capacity": np.float64,
    "used": np.int64,
    "min_unit": np.int32,
    "max_unit": np.int32,
    "step_size": np.int32,
}


@dataclass(slots=True)
class ClassColumns:
    """The inventories of one resource class; capacities are not rounded."""

    stock: RowValues = field(
        default_factory=lambda: RowValues(
            _NO_ROWS, {name: np.empty(0, kind) for name, kind in INVENTORY.items()}
        )
    )
    #: The greatest min_unit that a row has, or had, and whether one has or had steps other than 1:
    #: most clouds have none of both, and are not compared.
    greatest_min_unit: int = 1
    has_steps: bool = False

    def replace(self, changed: RowNumbers, stock: RowValues) -> None:
        """Put these inventories in the place of those that the ``changed`` rows have."""
        values = stock.values
        self.greatest_min_unit = int(values["min_unit"].max(initial=self.greatest_min_unit))
        self.has_steps = self.has_steps or bool((values["step_size"] != 1).any())
        self.stock.replace(changed, stock)

    def has_room(self, amount: int, rows: SomeRows) -> Mask:
        """Return for each row whether so much more fits there.

        The rule is that of ``store.placement.capacity``.
        """
        stock = self.stock
        if amount > MAX_INT:  # more than max_unit may be
            return np.zeros(number_of(rows), np.bool_)
        if isinstance(rows, slice):
            span = stock.span(rows)
            fits = self._fits(amount, span)
            if span.stop - span.start == rows.stop - rows.start:
                return fits
            found = np.zeros(rows.stop - rows.start, np.bool_)
            found[stock.rows[span][fits] - rows.start] = True
            return found
        places, there = stock.places(rows)
        return there & self._fits(amount, places) if len(stock.rows) else there

    def number_with_room(self, amount: int) -> int:
        """Return on how many rows so much more fits."""
        if amount > MAX_INT:
            return 0
        return int(np.count_nonzero(self._fits(amount, slice(0, len(self.stock.rows)))))

    def _fits(self, amount: int, some: slice | NDArray[np.int64]) -> Mask:
        values = self.stock.values
        fits: Mask = values["used"][some] + float(amount) <= values["capacity"][some]
        fits &= values["max_unit"][some] >= amount
        if amount < self.greatest_min_unit or self.has_steps:
            fits &= values["min_unit"][some] <= amount
            steps = values["step_size"][some]
            fits &= (steps > 0) & (amount % np.maximum(steps, 1).astype(np.int64) == 0)
        return fits


class TraitBits:
    """The traits of each row as bits, sixty-four to a word.

    A trait gets the next bit when a provider is first seen with it.
    """

    def __init__(self) -> None:
        self.words: NDArray[np.uint64] = np.zeros((0, 1), np.uint64)
        self._bits: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """Return how many bytes the words take."""
        return self.words.nbytes

    def words_of(
        self, rows: NDArray[np.int64], traits: NDArray[np.int64], number: int
    ) -> NDArray[np.uint64]:
        """Return the words of ``number`` rows of which these have these traits, pair by pair."""
        distinct, which = np.unique(traits, return_inverse=True)
        for trait in distinct.tolist():
            self._bits.setdefault(trait, len(self._bits))
        lacking = -(-len(self._bits) // 64) - self.words.shape[1]
        if lacking > 0:
            self.words = np.pad(self.words, ((0, 0), (0, lacking)))
        width = self.words.shape[1]
        bits = np.array([self._bits[trait] for trait in distinct.tolist()], np.int64)[which]
        words = np.zeros(number * width, np.uint64)
        each = np.left_shift(np.uint64(1), (bits & 63).astype(np.uint64))
        np.bitwise_or.at(words, rows * width + (bits >> 6), each)
        return words.reshape(number, width)

    def any_of(self, traits: frozenset[int], rows: SomeRows) -> Mask:
        """Return for each row, in any order, whether it has one of these traits."""
        masks: dict[int, int] = {}
        for trait in traits:
            bit = self._bits.get(trait)
            if bit is not None:
                masks[bit >> 6] = masks.get(bit >> 6, 0) | 1 << (bit & 63)
        found = np.zeros(number_of(rows), np.bool_)
        for word, mask in masks.items():
            found |= (self.words[rows, word] & np.uint64(mask)) != 0
        return found

    def ids_in(self, words: bytes) -> list[int]:
        """Return the ids of the traits, ascending, whose bits are set in a row's words."""
        held = int.from_bytes(words, "little")
        return sorted(trait for trait, bit in self._bits.items() if held >> bit & 1)


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
