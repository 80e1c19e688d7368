"""Watches files for changes: the only place that looks at their times."""

import os
from collections.abc import Callable, Iterable
from time import monotonic

#: Node, time and size of a file or directory; None where it does not exist.
_Stamp = tuple[int, int, int] | None


class Watch:
    """Says which of some files appear, change or go.

    ``files`` names them at each look, so that it may list a directory. A watch that several
    threads use needs a lock around :meth:`changed`.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[str]],
        pause: float = 0.0,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        self._files, self._pause, self._elapsed = files, pause, elapsed
        self._next = elapsed() + pause
        self._last = self._look()

    def is_due(self) -> bool:
        """Return whether ``pause`` seconds have passed since the last look."""
        return self._elapsed() >= self._next

    def changed(self) -> tuple[str, ...]:
        """Look now; return the files that are not as they were at the last look.

        The caller reads them afterwards, so that a change in between is found by the next look.
        """
        self._next = self._elapsed() + self._pause
        now, before = self._look(), self._last
        self._last = now
        return tuple(file for file in {**now, **before} if now.get(file) != before.get(file))

    def _look(self) -> dict[str, _Stamp]:
        return {file: _stamp(file) for file in self._files()}


def _stamp(file: str) -> _Stamp:
    try:
        found = os.stat(file)  # noqa: PTH116 - while requests wait, and a Path is slower
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
