# SPDX-License-Identifier: Apache-2.0
"""File watcher: detection of changed files."""

import os
from collections.abc import Callable, Iterable
from time import monotonic

#: Inode, modification time and size of a file or directory; None if it does not exist.
_Stamp = tuple[int, int, int] | None


class FileWatcher:
    """Detector of created, changed and deleted files.

    ``files`` is called for each check, so that it may list a directory. ``pause`` is the minimum
    number of seconds between checks. Threads that share a watcher need a lock around
    :meth:`changed`.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[str]],
        pause: float = 0.0,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        self._files, self._pause, self._elapsed = files, pause, elapsed
        self._next = elapsed() + pause
        self._last = self._read_stamps()

    def is_due(self) -> bool:
        """Return whether the pause since the last check has passed."""
        return self._elapsed() >= self._next

    def changed(self) -> tuple[str, ...]:
        """Return the files that have changed since the last check.

        The caller reads the files afterwards, so that the next check detects a change in between.
        """
        self._next = self._elapsed() + self._pause
        now, previous = self._read_stamps(), self._last
        self._last = now
        return tuple(file for file in {**now, **previous} if now.get(file) != previous.get(file))

    def _read_stamps(self) -> dict[str, _Stamp]:
        return {file: _stamp(file) for file in self._files()}


def _stamp(file: str) -> _Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 - a Path is slower, and requests wait
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
