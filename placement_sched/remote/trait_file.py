"""The record of the traits that were added to providers of another placement, as a JSON file.

It is written whole after each change, under another name first: a process that dies leaves a file
that has all of the changes before.
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from placement_sched.errors import Conflict, Invalid
from placement_sched.model.placement.sync import ProviderTrait

_FORMAT = 2


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


class TraitFile:
    """Which trait was added to which provider, and for which aggregate.

    ``placement`` is the address of the placement that the file is about. Raises :class:`Invalid`
    for a file of something else or about another placement, and if it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path, self._placement = path, placement
        self._kept = _read(path, placement)

    @property
    def pairs(self) -> Mapping[ProviderTrait, str]:
        """The aggregate for which each trait was added, by provider and trait."""
        return {pair: aggregate for pair, (aggregate, _) in self._kept.items()}

    @property
    def seen(self) -> Mapping[ProviderTrait, SeenProvider]:
        """How the provider of each pair was seen last, if that is known."""
        return {pair: seen for pair, (_, seen) in self._kept.items() if seen is not None}

    def remember(
        self,
        pairs: Mapping[ProviderTrait, str],
        seen: Mapping[str, SeenProvider] = MappingProxyType({}),
    ) -> None:
        """Record pairs, and how providers are seen now, by uuid."""
        changed: _Kept = {}
        for pair, aggregate in pairs.items():
            _, before = self._kept.get(pair, (aggregate, None))
            changed[pair] = (aggregate, seen.get(pair[0], before))
        self._update(changed)

    def forget(self, pairs: Collection[ProviderTrait]) -> None:
        """Remove pairs from the record."""
        self._update({}, without=frozenset(pairs))

    def see(self, providers: Mapping[str, SeenProvider]) -> None:
        """Record how providers are seen now, by uuid."""
        self._update(
            {
                pair: (aggregate, providers[pair[0]])
                for pair, (aggregate, _) in self._kept.items()
                if pair[0] in providers
            }
        )

    def _update(self, changed: "_Kept", without: Collection[ProviderTrait] = ()) -> None:
        kept = self._kept | changed
        kept = {pair: entry for pair, entry in kept.items() if pair not in without}
        if kept == self._kept:
            return
        traits = [
            {"provider": provider, "trait": trait, "aggregate": aggregate}
            | (seen._asdict() if seen else {})
            for (provider, trait), (aggregate, seen) in sorted(kept.items())
        ]
        document = {"format": _FORMAT, "placement": self._placement, "traits": traits}
        folder, prefix = self._path.parent, f".{self._path.name}."
        with (
            _named(self._path),
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
        self._kept = kept


_Kept = dict[ProviderTrait, tuple[str, SeenProvider | None]]


@contextmanager
def opened(path: Path, placement: str) -> Iterator[TraitFile]:
    """Open the record in a file, which the first change creates, for one process at a time.

    Raises as :class:`TraitFile` does, and :class:`Conflict` while another process has it open.
    """
    lock = path.with_name(f".{path.name}.lock")
    with _named(path):
        held = lock.open("w")
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"--state {path}: another sync_traits is at work with it") from None
        yield TraitFile(path, placement)


def _read(path: Path, placement: str) -> _Kept:
    with _named(path):
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return {}
    try:
        # Format 1 had a document in each line, the format in the first.
        document = orjson.loads(text.partition(b"\n")[0] or text)
        number, about = document["format"], document["placement"]
        pairs = dict(map(_entry, document["traits"])) if number == _FORMAT else {}
    except (ValueError, LookupError, TypeError):
        raise Invalid(f"--state {path}: this is not a record of sync_traits") from None
    if number != _FORMAT:
        raise Invalid(f"--state {path}: a record of format {number}, not of {_FORMAT}")
    if about != placement:
        raise Invalid(f"--state {path}: the record of {about}, not of {placement}")
    return pairs


def _entry(one: Mapping[str, Any]) -> tuple[ProviderTrait, tuple[str, SeenProvider | None]]:
    # The provider may have been out of reach when its trait was recorded.
    known = "generation" in one
    seen = SeenProvider(int(one["generation"]), str(one["modified"])) if known else None
    return (str(one["provider"]), str(one["trait"])), (str(one["aggregate"]), seen)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise Invalid(f"--state {path}: {failure.strerror}") from None
