"""Columns of numbers about rows of other columns, and what is kept of a resource class.

Rows are the places of providers, in the order of their ids. As providers come and go, the rows of
all after them change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_sched.model.provider import MAX_INT

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
