"""The record of what traits were put on providers of another placement, as a file."""

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from placement_sched.errors import Conflict, Invalid

Pair = tuple[str, str]

_FORMAT = 1


class TraitFile:
    """Which trait was put on which provider, and for which aggregate; on disk after each change.

    ``placement`` is the address of the placement that the file is about.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path = path
        self._placement = placement
        self._pairs: dict[Pair, str] = _read(path, placement)

    @property
    def pairs(self) -> Mapping[Pair, str]:
        """The aggregate for which each trait was put, by provider and trait."""
        return dict(self._pairs)

    def remember(self, pairs: Mapping[Pair, str]) -> None:
        """Note pairs, and write the file."""
        if pairs:
            self._pairs.update(pairs)
            self._write()

    def forget(self, pairs: Collection[Pair]) -> None:
        """Take pairs out, and write the file."""
        if self._pairs.keys() & set(pairs):
            for pair in pairs:
                self._pairs.pop(pair, None)
            self._write()

    def _write(self) -> None:
        """Put a whole new file in the place of the old one, so that none is ever half written."""
        put: dict[str, dict[str, str]] = {}
        for (provider, trait), aggregate in sorted(self._pairs.items()):
            put.setdefault(provider, {})[trait] = aggregate
        document = {"format": _FORMAT, "placement": self._placement, "put": put}
        try:
            with NamedTemporaryFile(
                "w", dir=self._path.parent, prefix=f".{self._path.name}.", delete=False
            ) as file:
                json.dump(document, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)
        except OSError as failure:
            raise Invalid(f"--state {self._path}: {failure.strerror}") from None


@contextmanager
def opened(path: Path, placement: str) -> Iterator[TraitFile]:
    """Give the record in a file, which is made at the first note, to one process at a time.

    Raises :class:`Invalid` for a file of something else or about another placement, and
    :class:`Conflict` where another process has it.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        with lock.open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"--state {path}: another sync_traits is at work with it") from None
            yield TraitFile(path, placement)
    except OSError as failure:
        raise Invalid(f"--state {path}: {failure.strerror}") from None


def _read(path: Path, placement: str) -> dict[Pair, str]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise Invalid(f"--state {path}: this is no record of sync_traits") from None
    try:
        about, number, put = document["placement"], document["format"], document["put"]
        pairs = {
            (str(provider), str(trait)): str(aggregate)
            for provider, traits in put.items()
            for trait, aggregate in traits.items()
        }
    except (LookupError, TypeError, AttributeError):
        raise Invalid(f"--state {path}: this is no record of sync_traits") from None
    if number != _FORMAT:
        raise Invalid(f"--state {path}: this is a record of format {number}, not of {_FORMAT}")
    if about != placement:
        raise Invalid(f"--state {path}: this is the record of {about}, not of {placement}")
    return pairs
