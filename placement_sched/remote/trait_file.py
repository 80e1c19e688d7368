"""The record of the traits that were added to providers of another placement, as a JSON file.

It is written whole after each change, under another name first: a process that dies leaves a file
that has all of the changes before.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import orjson

from placement_sched.errors import Conflict, Invalid
from placement_sched.model.provider_sync import ProviderTrait

_FORMAT = 2


class SeenProvider(NamedTuple):
    """What the placement API shows of a provider, by which a recreated one is recognised.

    A generation only rises, and ``modified``, the time of the last change, changes with it.
    """

    generation: int
    modified: str


class TraitEntry(NamedTuple):
    """The aggregate that a trait was added for, and its provider as seen last, if it was seen."""

    aggregate: str
    seen: SeenProvider | None = None

    def is_about(self, now: SeenProvider | None) -> bool:
        """Return whether the provider, as it is seen now, can be the provider of the entry.

        A recreated one is taken for it only once it was changed more often.
        """
        if now is None or self.seen is None:
            return now is not None
        return now.generation > self.seen.generation or now == self.seen


class TraitFile:
    """Which trait was added to which provider, and for which aggregate.

    ``placement`` is the address of the placement that the file is about. Raises :class:`Invalid`
    for a file of something else or about another placement, and if it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path, self._placement = path, placement
        self.entries: Mapping[ProviderTrait, TraitEntry] = {}
        with _naming(path):
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                return
        try:
            # Format 1 had a document in each line, the format in the first.
            document = orjson.loads(text.partition(b"\n")[0] or text)
            number, about = document["format"], document["placement"]
            if number == _FORMAT:
                self.entries = dict(map(_entry, document["traits"]))
        except (ValueError, LookupError, TypeError):
            raise Invalid(f"--state {path}: this is not a record of sync_traits") from None
        if number != _FORMAT:
            raise Invalid(f"--state {path}: a record of format {number}, not of {_FORMAT}")
        if about != placement:
            raise Invalid(f"--state {path}: the record of {about}, not of {placement}")

    def replace(self, entries: Mapping[ProviderTrait, TraitEntry]) -> None:
        """Write these as the only entries, if they differ from those of the file."""
        if entries == self.entries:
            return
        traits = [
            {"provider": provider, "trait": trait, "aggregate": entry.aggregate}
            | (entry.seen._asdict() if entry.seen else {})
            for (provider, trait), entry in sorted(entries.items())
        ]
        document = {"format": _FORMAT, "placement": self._placement, "traits": traits}
        folder, prefix = self._path.parent, f".{self._path.name}."
        with (
            _naming(self._path),
            NamedTemporaryFile(dir=folder, prefix=prefix, delete=False) as file,
        ):
            try:
                file.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(self._path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        self.entries = entries


@contextmanager
def opened(path: Path, placement: str) -> Iterator[TraitFile]:
    """Open the record in a file, which the first change creates, for one process at a time.

    Raises as :class:`TraitFile` does, and :class:`Conflict` while another process has it open.
    """
    lock = path.with_name(f".{path.name}.lock")
    with _naming(path):
        held = lock.open("w")
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"--state {path}: another sync_traits is at work with it") from None
        yield TraitFile(path, placement)


def _entry(document: Mapping[str, Any]) -> tuple[ProviderTrait, TraitEntry]:
    seen = None
    # The provider may have been out of reach when its trait was recorded.
    if "generation" in document:
        seen = SeenProvider(int(document["generation"]), str(document["modified"]))
    pair = (str(document["provider"]), str(document["trait"]))
    return pair, TraitEntry(str(document["aggregate"]), seen)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise Invalid(f"--state {path}: {failure.strerror}") from None
