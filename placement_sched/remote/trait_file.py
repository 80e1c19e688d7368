"""The record of what traits were put on providers of another placement, as a file.

The first line tells the format and the placement; each other one a trait on a provider and the
aggregate that asked for it, or null where it was taken off. A line is written as soon as the change
is made, so that a process that dies leaves no change behind that nobody knows of.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from placement_sched.errors import Conflict, Invalid

Pair = tuple[str, str]

_FORMAT = 1


class TraitFile:
    """Which trait was put on which provider, and for which aggregate.

    ``placement`` is the address of the placement that the file is about. Raises :class:`Invalid`
    for a file of something else or about another placement, and where it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path = path
        self._head = {"format": _FORMAT, "placement": placement}
        self._pairs: dict[Pair, str] = _read(path, self._head)
        self._changed = False

    @property
    def pairs(self) -> Mapping[Pair, str]:
        """The aggregate for which each trait was put, by provider and trait."""
        return dict(self._pairs)

    def remember(self, pairs: Mapping[Pair, str]) -> None:
        """Note pairs."""
        self._pairs.update(pairs)
        self._append(pairs.items())

    def forget(self, pairs: Collection[Pair]) -> None:
        """Note that pairs are no more."""
        gone = [(pair, None) for pair in sorted(pairs) if pair in self._pairs]
        for pair, _ in gone:
            del self._pairs[pair]
        self._append(gone)

    def tidy(self) -> None:
        """Write the file anew, without what is no more, if anything was noted."""
        if self._changed:
            self._rewrite()

    def _append(self, changes: Iterable[tuple[Pair, str | None]]) -> None:
        told = list(changes)
        if not told:
            return
        if not self._changed:
            # What a process that died left of a line would run into the next one.
            self._rewrite()
            self._changed = True
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_lines(None, told))
        except OSError as failure:
            raise _unwritable(self._path, failure) from None

    def _rewrite(self) -> None:
        """Put a whole new file in the place of the old one."""
        try:
            with NamedTemporaryFile(
                "w", dir=self._path.parent, prefix=f".{self._path.name}.", delete=False
            ) as file:
                file.write(_lines(self._head, sorted(self._pairs.items())))
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)
        except OSError as failure:
            raise _unwritable(self._path, failure) from None


@contextmanager
def opened(path: Path, placement: str) -> Iterator[TraitFile]:
    """Give the record in a file, which is made at the first note, to one process at a time.

    Raises what :class:`TraitFile` does, and :class:`Conflict` where another process has it.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        held = lock.open("w")
    except OSError as failure:
        raise _unwritable(path, failure) from None
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"--state {path}: another sync_traits is at work with it") from None
        record = TraitFile(path, placement)
        try:
            yield record
        finally:
            record.tidy()


def _lines(head: Mapping[str, Any] | None, pairs: Iterable[tuple[Pair, str | None]]) -> str:
    told = [] if head is None else [head]
    told += [
        {"provider": provider, "trait": trait, "aggregate": aggregate}
        for (provider, trait), aggregate in pairs
    ]
    return "".join(f"{json.dumps(one)}\n" for one in told)


def _read(path: Path, wanted: Mapping[str, Any]) -> dict[Pair, str]:
    """Return the pairs in a file; of the last line, only if it was written to its end."""
    try:
        *lines, _torn = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return {}
    except OSError as failure:
        raise _unwritable(path, failure) from None
    except UnicodeDecodeError:
        lines = []
    pairs: dict[Pair, str] = {}
    try:
        head, *told = map(json.loads, lines)
        number, about = head["format"], head["placement"]
        for one in told:
            pair = (str(one["provider"]), str(one["trait"]))
            if one["aggregate"] is None:
                pairs.pop(pair, None)
            else:
                pairs[pair] = str(one["aggregate"])
    except (ValueError, LookupError, TypeError):
        raise Invalid(f"--state {path}: this is no record of sync_traits") from None
    if number != wanted["format"]:
        raise Invalid(f"--state {path}: a record of format {number}, not of {wanted['format']}")
    if about != wanted["placement"]:
        raise Invalid(f"--state {path}: the record of {about}, not of {wanted['placement']}")
    return pairs


def _unwritable(path: Path, failure: OSError) -> Invalid:
    return Invalid(f"--state {path}: {failure.strerror}")
