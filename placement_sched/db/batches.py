"""Long lists of values, cut so that a statement never has more parameters than a database takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: SQLite takes 32766 parameters in a statement, PostgreSQL 65535; a statement may have a few more.
SIZE = 30_000
#: Rows of a whole cloud that are made objects, or told, at once: small objects by the ten thousand
#: would spread over the heap what a process keeps for long, and leave it larger each time.
AT_ONCE = 1000


def batches(values: Iterable[T], size: int = SIZE) -> Iterator[tuple[T, ...]]:
    """Yield ``values`` in order in tuples of at most ``size``; nothing for no values."""
    rest = iter(values)
    while batch := tuple(islice(rest, size)):
        yield batch
