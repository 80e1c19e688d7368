"""The record of what traits were put on providers of another placement, as a file.

The first line has the format and the placement; each other one a trait on a provider and the
aggregate that asked for it, or null where it was taken off, and how the provider was seen last. A
line is written as soon as the change is made, so that a process that dies leaves no change
unrecorded.
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
from placement_sched.model.placement.sync import ProviderTrait

_FORMAT = 1


class SeenProvider(NamedTuple):
    """What the placement API shows of a provider, by which a recreated one is recognised.

    A generation only rises, and ``modified``, the time of the last change, changes with it.
    """

    generation: int
    modified: str

    def followed_by(self, now: "SeenProvider") -> bool:
        """Return whether the provider that is seen now can be this one.

        A recreated one is taken for it only once it was changed more often.
        """
        return now.generation > self.generation or now == self


_Kept = dict[ProviderTrait, tuple[str, SeenProvider | None]]


class TraitFile:
    """Which trait was put on which provider, and for which aggregate.

    ``placement`` is the address of the placement that the file is about. Raises :class:`Invalid`
    for a file of something else or about another placement, and where it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path = path
        self._head = {"format": _FORMAT, "placement": placement}
        self._kept = _read(path, self._head)
        self._changed = False

    @property
    def pairs(self) -> Mapping[ProviderTrait, str]:
        """The aggregate for which each trait was put, by provider and trait."""
        return {pair: aggregate for pair, (aggregate, _) in self._kept.items()}

    @property
    def seen(self) -> Mapping[ProviderTrait, SeenProvider]:
        """How the provider of each pair was seen last, where that is known."""
        return {pair: seen for pair, (_, seen) in self._kept.items() if seen is not None}

    def remember(self, pairs: Mapping[ProviderTrait, str]) -> None:
        """Note pairs."""
        for pair, aggregate in pairs.items():
            _, seen = self._kept.get(pair, (None, None))
            self._kept[pair] = (aggregate, seen)
        self._append(pairs)

    def forget(self, pairs: Collection[ProviderTrait]) -> None:
        """Note that pairs are no more."""
        gone = [pair for pair in sorted(pairs) if pair in self._kept]
        for pair in gone:
            del self._kept[pair]
        self._append(gone)

    def see(self, providers: Mapping[str, SeenProvider]) -> None:
        """Note how providers are seen now, by uuid."""
        changed = {
            pair: (aggregate, providers[pair[0]])
            for pair, (aggregate, seen) in self._kept.items()
            if pair[0] in providers and providers[pair[0]] != seen
        }
        self._kept |= changed
        self._append(changed)

    def tidy(self) -> None:
        """Write the whole file without what is gone, if anything was noted."""
        if self._changed:
            self._rewrite()

    def _append(self, changed: Collection[ProviderTrait]) -> None:
        if not changed:
            return
        if not self._changed:
            # What a process that died left of a line would run into the next one.
            self._rewrite()
            self._changed = True
            return
        with _at(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(self._lines(changed))

    def _rewrite(self) -> None:
        folder, prefix = self._path.parent, f".{self._path.name}."
        with _at(self._path):
            with NamedTemporaryFile("w", dir=folder, prefix=prefix, delete=False) as file:
                file.write(f"{json.dumps(self._head)}\n{self._lines(sorted(self._kept))}")
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)

    def _lines(self, pairs: Iterable[ProviderTrait]) -> str:
        entries = []
        for provider, trait in pairs:
            aggregate, seen = self._kept.get((provider, trait), (None, None))
            entry = {"provider": provider, "trait": trait, "aggregate": aggregate}
            entries.append(entry | (seen._asdict() if seen else {}))
        return "".join(f"{json.dumps(one)}\n" for one in entries)


@contextmanager
def opened(path: Path, placement: str) -> Iterator[TraitFile]:
    """Give the record in a file, which is made at the first note, to one process at a time.

    Raises what :class:`TraitFile` does, and :class:`Conflict` where another process has it.
    """
    lock = path.with_name(f".{path.name}.lock")
    with _at(path):
        held = lock.open("w")
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


def _read(path: Path, wanted: Mapping[str, Any]) -> _Kept:
    """Return what a file has of each pair; its last line counts only if written to its end."""
    with _at(path):
        try:
            *lines, _torn = path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            lines = []
    pairs: _Kept = {}
    try:
        head, *entries = map(json.loads, lines)
        number, about = head["format"], head["placement"]
        for one in entries:
            pair = (str(one["provider"]), str(one["trait"]))
            if one["aggregate"] is None:
                pairs.pop(pair, None)
            else:
                # Records of earlier releases do not say how the provider was seen.
                known = "generation" in one
                seen = SeenProvider(int(one["generation"]), str(one["modified"])) if known else None
                pairs[pair] = (str(one["aggregate"]), seen)
    except (ValueError, LookupError, TypeError):
        raise Invalid(f"--state {path}: this is not a record of sync_traits") from None
    if number != wanted["format"]:
        raise Invalid(f"--state {path}: a record of format {number}, not of {wanted['format']}")
    if about != wanted["placement"]:
        raise Invalid(f"--state {path}: the record of {about}, not of {wanted['placement']}")
    return pairs


@contextmanager
def _at(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise Invalid(f"--state {path}: {failure.strerror}") from None
