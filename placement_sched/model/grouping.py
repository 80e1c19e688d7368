# SPDX-License-Identifier: Apache-2.0
"""Grouping of rows and values."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

#: Values per SQL statement. SQLite accepts 32766 parameters, PostgreSQL 65535. A statement also has
#: other parameters.
BATCH_SIZE = 30_000
#: Maximum number of rows of a whole cloud that become objects at the same time. Tens of thousands
#: of small objects would fragment the heap, which would grow each time.
AT_ONCE = 1000


def group_rows(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    """Map the first values of rows to lists of second values, in order."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in rows:
        groups[key].append(value)
    return groups


def nest_rows(rows: Iterable[Any]) -> dict[Any, dict[Any, Any]]:
    """Map the first values of rows to mappings of second to third values."""
    mappings: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for outer, inner, value in rows:
        mappings[outer][inner] = value
    return mappings


def split_batches(values: Iterable[T], size: int = BATCH_SIZE) -> Iterator[tuple[T, ...]]:
    """Split ``values`` into tuples of at most ``size``, in order."""
    remaining = iter(values)
    while batch := tuple(islice(remaining, size)):
        yield batch
