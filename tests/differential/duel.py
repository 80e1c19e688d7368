# SPDX-License-Identifier: Apache-2.0
"""What every comparison with a peer is: random questions to both sides, and what differs."""

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The interpreter of the virtual environment that has openstack-placement and nova.
PEER_PYTHON = Path(
    os.environ.get("PLACEMENT_SCHED_PEER_PYTHON", ROOT / ".venv-peer" / "bin" / "python")
)

#: What differs, by aspect: ours, then the peer's.
Differences = Mapping[Any, tuple[Any, Any]]


def needs_peer() -> None:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("OpenStack's placement and nova are not installed: make peer")


@dataclass(frozen=True)
class Outcome:
    """What came of one question.

    ``explained`` has the explanations that hold, ``left`` is what none of them explains, ``seen``
    what the question was good for. ``counted`` is false for what is looked at between two
    questions.
    """

    asked: Any
    left: Differences = field(default_factory=dict)
    explained: Iterable[str] = ()
    seen: Iterable[Any] = ()
    counted: bool = True


@dataclass(frozen=True)
class Finding:
    """A question to which the answers differ without an explanation."""

    asked: Any
    differences: Differences
    #: What findings of the same cause have in common, more or less.
    kind: tuple[str, ...]


@dataclass
class Tally:
    """What came of a run."""

    asked: int = 0
    seen: Counter[Any] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.asked += other.asked
        self.seen += other.seen
        self.explained += other.explained
        self.findings += other.findings


class Duel(ABC):
    """Two sides, asked in turn.

    ``name`` is the comparison's on the command line, ``noun`` what it asks, ``many`` how much of it
    for each seed; ``cases`` is the folder in which findings are kept, None where they are not.
    """

    name: str
    noun: str
    many: int
    cases: Path | None = None

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours = ours
        self.theirs = theirs

    @classmethod
    @abstractmethod
    def opened(cls, folder: Path, python: Path = PEER_PYTHON) -> "Duel":
        """Return both sides, with databases in ``folder`` if they need any."""

    @abstractmethod
    def outcomes(self, random: Random) -> Iterator[Outcome]:
        """Ask random questions without end, and yield what comes of each."""

    def kind(self, asked: Any, left: Differences) -> tuple[str, ...]:
        return tuple(sorted(map(str, left)))

    def shortened(self, finding: Finding) -> Finding:
        return finding

    def kept(self, asked: Any) -> Any:
        return asked

    def run(
        self, seed: int, many: int, progress: Callable[[int], None] = lambda _done: None
    ) -> Tally:
        tally = Tally()
        for outcome in self._first(many, self.outcomes(Random(seed))):
            tally.asked += outcome.counted
            tally.seen.update(outcome.seen)
            tally.explained.update(outcome.explained)
            if outcome.left:
                kind = self.kind(outcome.asked, outcome.left)
                tally.findings.append(Finding(outcome.asked, outcome.left, kind))
            progress(tally.asked)
        return tally

    @staticmethod
    def _first(many: int, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        asked = 0
        while asked < many:
            outcome = next(outcomes)
            asked += outcome.counted
            yield outcome

    def close(self) -> None:
        for side in (self.theirs, self.ours):
            if hasattr(side, "close"):
                side.close()


class CaseDuel(Duel):
    """A duel whose questions stand alone: ``see`` compares the answers to one."""

    @abstractmethod
    def questions(self, random: Random) -> Iterator[Any]:
        """Yield random questions without end."""

    @abstractmethod
    def see(self, asked: Any) -> tuple[Any, list[str], Differences]:
        """Return both answers, the names of what explains a difference, and what is left."""

    def good_for(self, asked: Any, answers: Any) -> Iterable[Any]:
        return ()

    def smaller(self, asked: Any) -> Iterator[Any]:
        return iter(())

    def outcomes(self, random: Random) -> Iterator[Outcome]:
        for asked in self.questions(random):
            answers, names, left = self.see(asked)
            yield Outcome(asked, left, names, self.good_for(asked, answers))

    def shortened(self, finding: Finding) -> Finding:
        smaller = True
        while smaller:
            smaller = False
            for asked in self.smaller(finding.asked):
                left = self.see(asked)[2]
                if left and self.kind(asked, left) == finding.kind:
                    finding, smaller = Finding(asked, left, finding.kind), True
                    break
        return finding


@contextmanager
def running(kind: type[Duel], folder: Path) -> Iterator[Duel]:
    needs_peer()
    with closing(kind.opened(folder)) as duel:
        yield duel


def fixtures(kind: type[Duel]) -> tuple[Any, Any, Any]:
    @pytest.fixture(scope="session")
    def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duel]:
        with running(kind, tmp_path_factory.mktemp(kind.name)) as duel:
            yield duel

    @pytest.fixture(scope="session")
    def ours(duel: Duel) -> Any:
        return duel.ours

    @pytest.fixture(scope="session")
    def theirs(duel: Duel) -> Any:
        return duel.theirs

    return duel, ours, theirs


def least(
    parts: tuple[Any, ...], shows: Callable[[tuple[Any, ...]], bool], seconds: float
) -> tuple[Any, ...]:
    until = monotonic() + seconds
    size = max(len(parts) // 2, 1)
    while parts and monotonic() < until:
        start, cut = 0, False
        while start < len(parts) and monotonic() < until:
            without = parts[:start] + parts[start + size :]
            if shows(without):
                parts, cut = without, True
            else:
                start += size
        if not cut or size > 1:
            if size == 1:
                return parts
            size = max(size // 2, 1)
    return parts


def keep(duel: Duel, finding: Finding, seed: int, number: int) -> Path | None:
    if duel.cases is None:
        return None
    duel.cases.mkdir(exist_ok=True)
    path = duel.cases / f"seed-{seed}-{number}.json"
    path.write_text(json.dumps(duel.kept(finding.asked), indent=2) + "\n")
    return path


def without_a_part(said: Any, needed: frozenset[str], *, lists: bool = True) -> Iterator[Any]:
    yield from without_an_item(said, needed, lists=lists)
    if isinstance(said, Mapping):
        for key, value in said.items():
            for less in without_a_part(value, needed, lists=lists):
                yield {**said, key: less}
    elif lists and isinstance(said, list):
        for place, value in enumerate(said):
            for less in without_a_part(value, needed, lists=lists):
                yield [*said[:place], less, *said[place + 1 :]]


def without_an_item(said: Any, needed: frozenset[str], *, lists: bool = True) -> Iterator[Any]:
    if isinstance(said, Mapping):
        for key in said:
            if key not in needed:
                yield {name: one for name, one in said.items() if name != key}
    elif lists and isinstance(said, list):
        for place in range(len(said)):
            yield said[:place] + said[place + 1 :]


def every(make: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield make()
