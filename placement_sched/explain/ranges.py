# SPDX-License-Identifier: Apache-2.0
"""Numbers of several rejections, printed as ranges."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self


class Range(float):
    """A number of several rejections, printed as the range of the numbers."""

    numbers: Sequence[float]

    def __new__(cls, numbers: Iterable[float]) -> Self:
        """Create the range of these numbers."""
        ordered = sorted(set(numbers))
        number = super().__new__(cls, ordered[0])
        number.numbers = ordered
        return number

    def __format__(self, spec: str) -> str:
        first, last = format(self.numbers[0], spec), format(self.numbers[-1], spec)
        return first if first == last else f"{first}..{last}"

    def __str__(self) -> str:
        return format(self, "")


class AnyNumber(float):
    """A number that is left out of a text, to compare the words of two texts."""

    def __format__(self, spec: str) -> str:
        return "#"

    def __str__(self) -> str:
        return "#"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def replace_numbers(value: Any) -> Any:
    """Leave the numbers out of values of any depth, to compare their texts."""
    if isinstance(value, Mapping):
        return {key: replace_numbers(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_numbers(part) for part in value]
    return AnyNumber(value) if _is_number(value) else value


def merge_values(values: Sequence[Any]) -> Any:
    """Merge values of the same shape, with a range in place of each number."""
    first = values[0]
    if isinstance(first, Mapping):
        parts = {key: [each.get(key, part) for each in values] for key, part in first.items()}
        return {key: merge_values(part) for key, part in parts.items()}
    if isinstance(first, list | tuple):
        return [merge_values(parts) for parts in zip(*values, strict=False)]
    return Range(values) if all(map(_is_number, values)) else first
