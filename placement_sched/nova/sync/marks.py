"""What rows of nova's looked like when they were read whole, to see which must be read again."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

#: A row that was read sooner than so long after its second may have changed within that second.
_SETTLES = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Mark:
    seen: tuple[Any, ...]
    first: datetime
    last: datetime


class Marks:
    """What moves of each row, and when it was first and last read so.

    The first of what moves is ``updated_at``. It has whole seconds on MariaDB: a row that was read
    within the second in which it changed may have changed again.
    """

    def __init__(self) -> None:
        self._marks: dict[Hashable, _Mark] = {}

    def to_read(
        self, rows: Mapping[str, tuple[Any, ...]], *, settling: bool = True
    ) -> tuple[str, ...]:
        """Return those of the rows that must be read whole.

        With ``settling``, those as well that were read so soon that they may have changed since.
        """
        return tuple(
            key for key, moving in rows.items() if not self._is_known(key, moving, settling)
        )

    def _is_known(self, key: str, moving: tuple[Any, ...], settling: bool) -> bool:
        mark = self._marks.get(key)
        if mark is None or mark.seen != moving:
            return False
        # A text of ISO 8601, whose fraction follows the twentieth character.
        exact = (moving[0] or "")[20:].strip("0")
        return not settling or bool(exact) or mark.last - mark.first >= _SETTLES

    def note(self, rows: Mapping[str, tuple[Any, ...]], keys: Iterable[str], at: datetime) -> None:
        """Note that rows were read whole at a time, not before they looked as they do here."""
        for key in keys:
            mark = self._marks.get(key)
            same = mark is not None and mark.seen == rows[key]
            first = mark.first if mark is not None and same else at
            self._marks[key] = _Mark(rows[key], first, at)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all rows but these."""
        wanted = set(keys)
        self._marks = {key: mark for key, mark in self._marks.items() if key in wanted}
