"""The record of what traits were put on providers of another placement, as a file.

The first line tells the format and the placement; each other one a trait on a provider and the
aggregate that asked for it, or null where it was taken off, and how the provider was seen last. A
line is written as soon as the change is made, so that a process that dies leaves no change behind
that nobody knows of.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from placement_sched.errors import Conflict, Invalid

Pair = tuple[str, str]

_FORMAT = 1


class Seen(NamedTuple):
    """What the placement API tells of a provider by which one made anew can be known.

    A generation only rises, and ``modified``, the time of the last change, changes with it.
    """

    generation: int
    modified: str

    def followed_by(self, now: "Seen") -> bool:
        """Return whether the provider that is seen now can be this one.

        One that was made anew passes for it only once it was changed more often.
        """
        return now.generation > self.generation or now == self


class TraitFile:
    """Which trait was put on which provider, and for which aggregate.

    ``placement`` is the address of the placement that the file is about. Raises :class:`Invalid`
    for a file of something else or about another placement, and where it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path = path
        self._head = {"format": _FORMAT, "placement": placement}
        self._pairs: dict[Pair, str] = {}
        self._seen: dict[Pair, Seen] = {}
        for pair, (aggregate, seen) in _read(path, self._head).items():
            self._pairs[pair] = aggregate
            if seen is not None:
                self._seen[pair] = seen
        self._changed = False

    @property
    def pairs(self) -> Mapping[Pair, str]:
        """The aggregate for which each trait was put, by provider and trait."""
        return dict(self._pairs)

    @property
    def seen(self) -> Mapping[Pair, Seen]:
        """How the provider of each pair was seen last, where that is known."""
        return dict(self._seen)

    def remember(self, pairs: Mapping[Pair, str]) -> None:
        """Note pairs."""
        self._pairs.update(pairs)
        self._append(pairs)

    def forget(self, pairs: Collection[Pair]) -> None:
        """Note that pairs are no more."""
        gone = [pair for pair in sorted(pairs) if pair in self._pairs]
        for pair in gone:
            del self._pairs[pair]
            self._seen.pop(pair, None)
        self._append(gone)

    def see(self, providers: Mapping[str, Seen]) -> None:
        """Note how providers are seen now, by uuid."""
        changed = {
            pair: providers[pair[0]]
            for pair in self._pairs
            if pair[0] in providers and providers[pair[0]] != self._seen.get(pair)
        }
        self._seen |= changed
        self._append(changed)

    def tidy(self) -> None:
        """Write the file anew, without what is no more, if anything was noted."""
        if self._changed:
            self._rewrite()

    def _append(self, changed: Collection[Pair]) -> None:
        if not changed:
            return
        if not self._changed:
            # What a process that died left of a line would run into the next one.
            self._rewrite()
            self._changed = True
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._lines(changed))
        except OSError as failure:
            raise _unwritable(self._path, failure) from None

    def _rewrite(self) -> None:
        """Put a whole new file in the place of the old one."""
        try:
            with NamedTemporaryFile(
                "w", dir=self._path.parent, prefix=f".{self._path.name}.", delete=False
            ) as file:
                file.write(f"{json.dumps(self._head)}\n{self._lines(sorted(self._pairs))}")
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)
        except OSError as failure:
            raise _unwritable(self._path, failure) from None

    def _lines(self, pairs: Iterable[Pair]) -> str:
        told = [
            {"provider": pair[0], "trait": pair[1], "aggregate": self._pairs.get(pair)}
            | (self._seen[pair]._asdict() if pair in self._seen else {})
            for pair in pairs
        ]
        return "".join(f"{json.dumps(one)}\n" for one in told)


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


def _read(path: Path, wanted: Mapping[str, Any]) -> dict[Pair, tuple[str, Seen | None]]:
    """Return the aggregates of the pairs in a file, and how their providers were seen.

    The last line counts only if it was written to its end.
    """
    try:
        *lines, _torn = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return {}
    except OSError as failure:
        raise _unwritable(path, failure) from None
    except UnicodeDecodeError:
        lines = []
    pairs: dict[Pair, tuple[str, Seen | None]] = {}
    try:
        head, *told = map(json.loads, lines)
        number, about = head["format"], head["placement"]
        for one in told:
            pair = (str(one["provider"]), str(one["trait"]))
            if one["aggregate"] is None:
                pairs.pop(pair, None)
            else:
                pairs[pair] = (str(one["aggregate"]), _seen(one))
    except (ValueError, LookupError, TypeError):
        raise Invalid(f"--state {path}: this is no record of sync_traits") from None
    if number != wanted["format"]:
        raise Invalid(f"--state {path}: a record of format {number}, not of {wanted['format']}")
    if about != wanted["placement"]:
        raise Invalid(f"--state {path}: the record of {about}, not of {wanted['placement']}")
    return pairs


def _seen(one: Mapping[str, Any]) -> Seen | None:
    """Return how a provider was seen; what earlier releases noted does not tell."""
    if "generation" not in one:
        return None
    return Seen(int(one["generation"]), str(one["modified"]))


def _unwritable(path: Path, failure: OSError) -> Invalid:
    return Invalid(f"--state {path}: {failure.strerror}")
