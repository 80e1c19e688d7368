# SPDX-License-Identifier: Apache-2.0
"""Inventories, usage, traits and aggregates of providers as arrays."""

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
    NameIds,
    ProviderRows,
    ProviderSums,
    Row,
)

#: Row numbers, ascending. Each provider has one row.
RowNumbers = NDArray[np.int32]
Mask = NDArray[np.bool_]
#: A selection of rows: a range, or row numbers in ascending order.
SomeRows = slice | RowNumbers
#: Capacities are cut to this maximum, to fit 64-bit integers. It exceeds any possible request.
_MAX_CAPACITY = 2.0**62
_NO_ROWS: RowNumbers = np.empty(0, np.int32)
INVENTORY: Mapping[str, type[np.number]] = {
    "capacity": np.float64,
    "used": np.int64,
    "total": np.int32,
    "reserved": np.int32,
    "min_unit": np.int32,
    "max_unit": np.int32,
    "step_size": np.int32,
    "allocation_ratio": np.float64,
}
#: Bytes of a uuid string with its dictionary entry, and of an object reference.
_TEXT, _OBJECT = 85 + 110, 8
#: Bytes of a :class:`CandidateProvider` with its integers.
_DESCRIBED = 160
_Ids = NDArray[np.int64]


def count_rows(rows: SomeRows) -> int:
    """Return the number of selected rows."""
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def expand_ranges(first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the numbers from ``first[i]`` to ``end[i]`` - 1, for each ``i``."""
    lengths = end - first
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(first - offsets, lengths) + np.arange(int(lengths.sum()))


def truncate_capacities(capacities: NDArray[np.number]) -> NDArray[np.int64]:
    """Truncate capacities to integers."""
    whole: NDArray[np.int64] = np.minimum(capacities, _MAX_CAPACITY).astype(np.int64)
    return whole


@dataclass(slots=True)
class RowValues:
    """Named columns of values that belong to rows, sorted by row.

    ``rows[i]`` is the row of value ``i`` of each column. A row has any number of values.
    """

    rows: RowNumbers
    values: dict[str, NDArray[np.number]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes."""
        return self.rows.nbytes + sum(column.nbytes for column in self.values.values())

    def replace(self, changed: RowNumbers, new: "RowValues") -> bool:
        """Replace values of ``changed`` rows, and return whether any changed."""
        first = np.searchsorted(self.rows, changed, "left")
        positions = expand_ranges(first, np.searchsorted(self.rows, changed, "right"))
        if np.array_equal(self.rows[positions], new.rows):
            # Most changes are of used amounts, which add and remove no values.
            is_changed = False
            for name, value in new.values.items():
                column = self.values[name]
                if not np.array_equal(column[positions], value):
                    column[positions] = value
                    is_changed = True
            return is_changed
        keep = np.ones(len(self.rows), np.bool_)
        keep[positions] = False
        rows = self.rows[keep]
        insert_at = np.searchsorted(rows, new.rows)
        self.values = {
            name: np.insert(value[keep], insert_at, new.values[name])
            for name, value in self.values.items()
        }
        self.rows = np.insert(rows, insert_at, new.rows)
        return True

    def renumber(self, numbers: NDArray[np.int64]) -> None:
        """Change each row number to ``numbers[row]``, or drop it if negative."""
        new = numbers[self.rows]
        keep = new >= 0
        if not keep.all():
            new = new[keep]
            self.values = {name: value[keep] for name, value in self.values.items()}
        self.rows = new.astype(np.int32)

    def find_span(self, rows: slice) -> slice:
        """Return the slice of each column for rows with at most 1 value each."""
        if self._is_dense(rows.stop - 1):
            return rows
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        return slice(int(first), int(last))

    def find_positions(self, rows: RowNumbers) -> tuple[NDArray[np.int64], Mask]:
        """Return the index of each row's value, and whether there is a value.

        No row may have multiple values. The index is meaningless for a row without a value.
        """
        if not len(self.rows):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        if not len(rows) or self._is_dense(int(rows.max())):
            return rows.astype(np.int64), np.ones(len(rows), np.bool_)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return places, self.rows[places] == rows

    def _is_dense(self, last: int) -> bool:
        """Return whether each row up to ``last`` has a value."""
        return 0 <= last < len(self.rows) and int(self.rows[last]) == last


@dataclass(slots=True)
class ClassColumns:
    """The inventories of a class in columns, with untruncated capacities."""

    inventories: RowValues = field(
        default_factory=lambda: RowValues(
            _NO_ROWS, {name: np.empty(0, kind) for name, kind in INVENTORY.items()}
        )
    )
    #: The greatest min_unit so far, and whether any step size was not 1. While they are 1 and
    #: False, as in most clouds, amounts are not compared with min_unit and step_size.
    greatest_min_unit: int = 1
    has_steps: bool = False

    def replace(self, changed: RowNumbers, inventories: RowValues) -> None:
        """Replace the inventories of the ``changed`` rows."""
        values = inventories.values
        self.greatest_min_unit = int(values["min_unit"].max(initial=self.greatest_min_unit))
        self.has_steps = self.has_steps or bool((values["step_size"] != 1).any())
        self.inventories.replace(changed, inventories)

    def has_capacity(self, amount: int, rows: SomeRows) -> Mask:
        """Return for each row whether its inventory can provide ``amount``.

        The rule is the same as in :mod:`placement_sched.store.placement.capacity`.
        """
        inventories = self.inventories
        if amount > MAX_INT:  # max_unit cannot exceed it
            return np.zeros(count_rows(rows), np.bool_)
        if isinstance(rows, slice):
            span = inventories.find_span(rows)
            fits = self._fits(amount, span)
            if span.stop - span.start == rows.stop - rows.start:
                return fits
            mask = np.zeros(rows.stop - rows.start, np.bool_)
            mask[inventories.rows[span][fits] - rows.start] = True
            return mask
        positions, has_inventory = inventories.find_positions(rows)
        if not len(inventories.rows):
            return has_inventory
        return has_inventory & self._fits(amount, positions)

    def select_values(
        self, rows: RowNumbers, *names: str
    ) -> tuple[Mask, tuple[NDArray[np.number], ...]]:
        """Return which rows have an inventory, and its values in these columns."""
        positions, has_inventory = self.inventories.find_positions(rows)
        selected = positions[has_inventory]
        return has_inventory, tuple(self.inventories.values[name][selected] for name in names)

    def count_fitting_rows(self, amount: int) -> int:
        """Count the rows whose inventory can provide ``amount``."""
        if amount > MAX_INT:
            return 0
        return int(np.count_nonzero(self._fits(amount, slice(0, len(self.inventories.rows)))))

    def _fits(self, amount: int, selection: slice | NDArray[np.int64]) -> Mask:
        values = self.inventories.values
        fits: Mask = values["used"][selection] + float(amount) <= values["capacity"][selection]
        fits &= values["max_unit"][selection] >= amount
        if amount < self.greatest_min_unit or self.has_steps:
            fits &= values["min_unit"][selection] <= amount
            steps = values["step_size"][selection]
            fits &= (steps > 0) & (amount % np.maximum(steps, 1).astype(np.int64) == 0)
        return fits


class TraitBits:
    """The traits of each row, as bits of words, given when first used."""

    def __init__(self) -> None:
        self.words: NDArray[np.uint64] = np.zeros((0, 1), np.uint64)
        self._bits: dict[int, int] = {}

    def build_words(
        self, rows: NDArray[np.int64], traits: NDArray[np.int64], number: int
    ) -> NDArray[np.uint64]:
        """Return the traits of ``number`` rows as bits in 64-bit words.

        ``rows`` and ``traits`` are parallel arrays: row ``rows[i]`` has the trait ``traits[i]``.
        Rows are numbered from 0 to ``number`` - 1.
        """
        distinct, inverse = np.unique(traits, return_inverse=True)
        for trait in distinct.tolist():
            self._bits.setdefault(trait, len(self._bits))
        missing_words = -(-len(self._bits) // 64) - self.words.shape[1]
        if missing_words > 0:
            self.words = np.pad(self.words, ((0, 0), (0, missing_words)))
        width = self.words.shape[1]
        bits = np.array([self._bits[trait] for trait in distinct.tolist()], np.int64)[inverse]
        words = np.zeros(number * width, np.uint64)
        masks = np.left_shift(np.uint64(1), (bits & 63).astype(np.uint64))
        np.bitwise_or.at(words, rows * width + (bits >> 6), masks)
        return words.reshape(number, width)

    def has_any_trait(self, traits: frozenset[int], rows: SomeRows) -> Mask:
        """Return for each of the rows whether it has any of these traits."""
        masks: dict[int, int] = {}
        for trait in traits:
            bit = self._bits.get(trait)
            if bit is not None:
                masks[bit >> 6] = masks.get(bit >> 6, 0) | 1 << (bit & 63)
        has_any = np.zeros(count_rows(rows), np.bool_)
        for word, mask in masks.items():
            has_any |= (self.words[rows, word] & np.uint64(mask)) != 0
        return has_any

    def decode_trait_ids(self, words: bytes) -> list[int]:
        """Return the sorted ids of the traits in the words of a row."""
        bits = int.from_bytes(words, "little")
        return sorted(trait for trait, bit in self._bits.items() if bits >> bit & 1)


@dataclass(slots=True)
class ProviderTable:
    """Columns of id, uuid, generation, root id and parent id (0 for none)."""

    ids: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    uuids: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, np.object_))
    generations: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    roots: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    parents: _Ids = field(default_factory=lambda: np.empty(0, np.int64))
    #: The :class:`CandidateProvider` of each provider, None before its first use.
    described: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, np.object_))

    @property
    def nbytes(self) -> int:
        """Return the approximate size in bytes, with all descriptions."""
        numbers = (self.ids, self.generations, self.roots, self.parents)
        objects = len(self.ids) * (_TEXT + _DESCRIBED + 2 * _OBJECT)
        return sum(column.nbytes for column in numbers) + objects

    def insert(self, ids: _Ids) -> None:
        """Insert empty rows for new providers with these ascending ids."""
        places = np.searchsorted(self.ids, ids)
        values: dict[str, Any] = {"ids": ids, "uuids": "", "generations": -1}
        for name, value in (values | {"roots": 0, "parents": 0, "described": None}).items():
            setattr(self, name, np.insert(getattr(self, name), places, value))

    def delete(self, keep: NDArray[np.bool_]) -> None:
        """Keep only the rows that ``keep`` selects."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[keep])


class ProviderColumns:
    """All columns of a cloud, which :meth:`replace` updates.

    The counter ``structure_version`` increases when a provider is added, removed or moved, when
    its traits or aggregates change, and with new names. Threads that share the columns need a lock.
    """

    def __init__(self, names: NameIds) -> None:
        self.names = names
        self.providers = ProviderTable()
        self.classes: dict[int, ClassColumns] = {}
        self.traits = TraitBits()
        self.memberships = RowValues(np.empty(0, np.int32), {"aggregate": np.empty(0, np.int64)})
        self.structure_version = 0
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.providers.ids)

    def set_names(self, names: NameIds) -> None:
        """Replace all names, which descriptions and tree index depend on."""
        self.names = names
        self.structure_version += 1
        self.providers.described[:] = None

    @property
    def nbytes(self) -> int:
        """Return the approximate size of all columns in bytes."""
        columns = (column.inventories.nbytes for column in self.classes.values())
        words = self.traits.words.nbytes
        return self.providers.nbytes + sum(columns) + words + self.memberships.nbytes

    def find_rows(self, ids: Iterable[int]) -> RowNumbers:
        """Return the rows of the providers with these ids, ignoring unknown ids."""
        id_column = np.fromiter(ids, np.int64)
        return self.find_existing_rows(id_column)[1]

    def find_existing_rows(self, ids: _Ids) -> tuple[NDArray[np.bool_], RowNumbers]:
        """Return which of these ids exist, and the rows of the existing ids."""
        existing = self.providers.ids
        if not len(existing):
            return np.zeros(len(ids), np.bool_), np.empty(0, np.int32)
        rows = np.minimum(np.searchsorted(existing, ids), len(existing) - 1)
        exists = existing[rows] == ids
        return exists, rows[exists].astype(np.int32)

    def map_ids(self, uuids: Iterable[str]) -> dict[str, int]:
        """Map the uuids of existing providers to their ids."""
        pairs = ((uuid, self._ids.get(self._normalize_uuid(uuid))) for uuid in uuids)
        return {uuid: key for uuid, key in pairs if key is not None}

    def _normalize_uuid(self, uuid: str) -> str:
        return uuid.lower() if self.names.ignores_case else uuid

    def add_used(self, amounts: Mapping[str, Mapping[str, int]]) -> None:
        """Add to used amounts, by resource class and uuid of the provider.

        An amount may be negative. Amounts of absent inventories are ignored.
        """
        for name, amounts_by_uuid in amounts.items():
            columns = self.classes.get(self.names.classes.get(name, -1))
            if columns is None:
                continue
            ids = self.map_ids(amounts_by_uuid)
            pairs = sorted((key, amounts_by_uuid[uuid]) for uuid, key in ids.items())
            positions, exist = columns.inventories.find_positions(
                self.find_rows(key for key, _ in pairs)
            )
            added = np.array([amount for _, amount in pairs], np.int64)
            columns.inventories.values["used"][positions[exist]] += added[exist]

    def replace(self, changed: Collection[int], loaded: ProviderRows) -> None:
        """Replace the rows of ``changed`` providers, or remove them if not loaded."""
        rows = sorted(loaded.providers, key=itemgetter(0))
        ids = np.array([row[0] for row in rows], np.int64)
        _, existing_rows = self.find_existing_rows(np.fromiter(changed, np.int64, len(changed)))
        removed = existing_rows[~np.isin(self.providers.ids[existing_rows], ids)]
        if len(removed):
            self._delete(removed)
        new = ids[~self.find_existing_rows(ids)[0]]
        if len(new):
            self._insert(new)
        if not len(ids):
            return
        positions = self.find_rows(ids.tolist())
        self._set_providers(positions, rows)
        self._set_inventories(positions, loaded)
        self._associate(positions, loaded)

    def _delete(self, rows: RowNumbers) -> None:
        for uuid in self.providers.uuids[rows].tolist():
            del self._ids[self._normalize_uuid(uuid)]
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
            columns.inventories.renumber(numbers)
        self.memberships.renumber(numbers)
        self.structure_version += 1

    def _set_providers(self, places: RowNumbers, rows: Sequence[Row]) -> None:
        providers = self.providers
        ids, uuids, generations, roots, parents = zip(*rows, strict=True)
        self._ids.update(zip(map(self._normalize_uuid, uuids), ids, strict=True))
        providers.uuids[places] = uuids
        providers.generations[places] = generations
        for column, values in ((providers.roots, roots), (providers.parents, parents)):
            moved = np.array(values, np.int64)
            if not np.array_equal(column[places], moved):
                column[places] = moved
                self.structure_version += 1
        providers.described[places] = None

    def _set_inventories(self, positions: RowNumbers, loaded: ProviderRows) -> None:
        numbers = np.array(loaded.inventories, np.float64).reshape(-1, 8)
        ids, classes = numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)
        values = {
            "capacity": (numbers[:, 2] - numbers[:, 3]) * numbers[:, 7],
            "total": numbers[:, 2],
            "reserved": numbers[:, 3],
            "min_unit": numbers[:, 4],
            "max_unit": numbers[:, 5],
            "step_size": numbers[:, 6],
            "allocation_ratio": numbers[:, 7],
            "used": _match_used(ids, classes, loaded.used),
        }
        exists, _ = self.find_existing_rows(ids)
        for class_id in {*self.classes, *np.unique(classes[exists]).tolist()}:
            own = np.flatnonzero((classes == class_id) & exists)
            rows = self.find_existing_rows(ids[own])[1]
            order = np.argsort(rows, kind="stable")
            inventories = RowValues(
                rows[order],
                {name: values[name][own][order].astype(kind) for name, kind in INVENTORY.items()},
            )
            self.classes.setdefault(class_id, ClassColumns()).replace(positions, inventories)

    def _associate(self, positions: RowNumbers, loaded: ProviderRows) -> None:
        owners, traits = _expand_pairs(loaded.traits)
        exists, rows = self.find_existing_rows(owners)
        offsets = np.searchsorted(positions, rows)
        words = self.traits.build_words(offsets, traits[exists], len(positions))
        if not np.array_equal(self.traits.words[positions], words):
            self.traits.words[positions] = words
            self.structure_version += 1
        owners, aggregates = _expand_pairs(loaded.aggregates)
        exists, rows = self.find_existing_rows(owners)
        order = np.lexsort((aggregates[exists], rows))
        memberships = RowValues(rows[order], {"aggregate": aggregates[exists][order]})
        if self.memberships.replace(positions, memberships):
            self.structure_version += 1

    def compute_sums(self) -> dict[int, ProviderSums]:
        """Map batch numbers to sums of generations and used amounts.

        :meth:`list_ids_in_batches` defines the numbers of batches.
        """
        if not len(self):
            return {}
        used = np.zeros(len(self), np.int64)
        for columns in self.classes.values():
            np.add.at(used, columns.inventories.rows, columns.inventories.values["used"])
        batches, first = np.unique(self.providers.ids // BATCH, return_index=True)
        counts = np.diff(np.append(first, len(self)))
        generations = np.add.reduceat(self.providers.generations, first)
        amounts = np.add.reduceat(used, first)
        numbers = zip(counts.tolist(), generations.tolist(), amounts.tolist(), strict=True)
        return dict(zip(batches.tolist(), map(ProviderSums._make, numbers), strict=True))

    def list_ids_in_batches(self, batches: Iterable[int]) -> list[int]:
        """Return the ids of the providers in these batches of ids.

        Batch N is the ids from N * :data:`BATCH` to (N + 1) * :data:`BATCH` - 1.
        """
        ids = self.providers.ids
        selected: list[int] = ids[np.isin(ids // BATCH, list(batches))].tolist()
        return selected

    def find_differing_providers(self, ids: Collection[int], loaded: ProviderRows) -> set[int]:
        """Return which of ``ids`` differ from ``loaded`` in generation or usage."""
        generations = dict(
            zip(self.providers.ids.tolist(), self.providers.generations, strict=True)
        )
        loaded_generations = {row[0]: row[2] for row in loaded.providers}
        differing = {key for key in ids if loaded_generations.get(key) != generations.get(key)}
        used = {(row[0], row[1]): row[2] for row in loaded.used}
        empty = ClassColumns()
        for key, class_id, *_ in loaded.inventories:
            columns = self.classes.get(class_id, empty)
            _, (amounts,) = columns.select_values(self.find_rows([key]), "used")
            if amounts.tolist() != [used.get((key, class_id), 0)]:
                differing.add(key)
        return differing

    def describe_providers(self, rows: RowNumbers) -> list[CandidateProvider]:
        """Describe these providers, except providers without a root.

        Each call returns the same object for a provider, until the provider is replaced.
        """
        cached = self.providers.described
        providers: list[Any] = cached[rows].tolist()
        if None in providers:
            missing, table = rows[[provider is None for provider in providers]], self.providers
            values = zip(
                table.ids[missing].tolist(),
                table.uuids[missing].tolist(),
                table.generations[missing].tolist(),
                self._list_uuids(table.roots[missing]),
                self._list_uuids(table.parents[missing]),
                strict=True,
            )
            # An assignment of all tuples at once would make a two-dimensional array of them.
            for row, provider in zip(missing.tolist(), values, strict=True):
                cached[row] = CandidateProvider._make(provider)
            providers = cached[rows].tolist()
        return [provider for provider in providers if provider.root_uuid is not None]

    def _list_uuids(self, ids: _Ids) -> list[Any]:
        exists, rows = self.find_existing_rows(ids)
        uuids = np.full(len(ids), None, np.object_)
        uuids[exists] = self.providers.uuids[rows]
        return uuids.tolist()


def _match_used(ids: _Ids, classes: _Ids, used: Sequence[Row]) -> _Ids:
    sums = np.array(used, np.int64).reshape(-1, 3)
    width = int(max(classes.max(initial=0), sums[:, 1].max(initial=0))) + 1
    keys = sums[:, 0] * width + sums[:, 1]
    order = np.argsort(keys)
    keys, amounts = keys[order], sums[order, 2]
    matched = np.zeros(len(ids), np.int64)
    if len(keys):
        searched_keys = ids * width + classes
        positions = np.minimum(np.searchsorted(keys, searched_keys), len(keys) - 1)
        is_match = keys[positions] == searched_keys
        matched[is_match] = amounts[positions[is_match]]
    return matched


def _expand_pairs(rows: Sequence[Row]) -> tuple[_Ids, _Ids]:
    """Return parallel arrays of provider ids and of the items in their rows."""
    lengths = np.fromiter((len(row) - 1 for row in rows), np.int64, len(rows))
    owners = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    items = np.fromiter(chain.from_iterable(row[1:] for row in rows), np.int64)
    return np.repeat(owners, lengths), items
