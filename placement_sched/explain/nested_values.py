# SPDX-License-Identifier: Apache-2.0
"""Names and ranges of numbers in values of any depth."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

#: Names by uuid.
Names = Mapping[str, str]
#: Number of characters of a uuid.
_UUID_LENGTH = 36
#: Keys of numbers that are names: ids of NUMA nodes, and sizes of pages.
_NUMBERS_OF_NAMES = {"host_nodes", "instance_node", "page_size", "size_kb", "tunnels"}


def with_names(value: Any, names: Names | None) -> Any:
    """Replace uuids by names in texts and values, except in the query."""
    if not names:
        return value
    if isinstance(value, Mapping):
        return {
            key: part if key == "query" else with_names(part, names) for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_names(part, names) for part in value]
    if isinstance(value, str) and len(value) >= _UUID_LENGTH:
        for uuid, name in names.items():
            value = value.replace(uuid, name)
    return value


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
        return {
            key: part if key in _NUMBERS_OF_NAMES else replace_numbers(part)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_numbers(part) for part in value]
    return AnyNumber(value) if _is_number(value) else value


def merge_values(values: Sequence[Any]) -> Any:
    """Merge values of the same shape, with a range in place of each number."""
    first = values[0]
    if isinstance(first, Mapping):
        parts = {key: [each.get(key, part) for each in values] for key, part in first.items()}
        return {
            key: part[0] if key in _NUMBERS_OF_NAMES else merge_values(part)
            for key, part in parts.items()
        }
    if isinstance(first, list | tuple):
        return [merge_values(parts) for parts in zip(*values, strict=False)]
    return Range(values) if all(map(_is_number, values)) else first
