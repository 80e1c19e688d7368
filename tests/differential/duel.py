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


class Comparison(ABC):
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
    def open_sides(cls, folder: Path, python: Path = PEER_PYTHON) -> "Comparison":
        """Return both sides, with databases in ``folder`` if they need any."""

    @abstractmethod
    def random_outcomes(self, random: Random) -> Iterator[Outcome]:
        """Ask random questions without end, and yield what comes of each."""

    def kind(self, asked: Any, left: Differences) -> tuple[str, ...]:
        return tuple(sorted(map(str, left)))

    def shorten(self, finding: Finding) -> Finding:
        return finding

    def as_saved(self, asked: Any) -> Any:
        return asked

    def run(
        self, seed: int, many: int, progress: Callable[[int], None] = lambda _done: None
    ) -> Tally:
        tally = Tally()
        for outcome in self._first_outcomes(many, self.random_outcomes(Random(seed))):
            tally.asked += outcome.counted
            tally.seen.update(outcome.seen)
            tally.explained.update(outcome.explained)
            if outcome.left:
                kind = self.kind(outcome.asked, outcome.left)
                tally.findings.append(Finding(outcome.asked, outcome.left, kind))
            progress(tally.asked)
        return tally

    @staticmethod
    def _first_outcomes(many: int, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        asked = 0
        while asked < many:
            outcome = next(outcomes)
            asked += outcome.counted
            yield outcome

    def close(self) -> None:
        for side in (self.theirs, self.ours):
            if hasattr(side, "close"):
                side.close()


class CaseComparison(Comparison):
    """A comparison whose questions stand alone: ``see`` compares the answers to one."""

    @abstractmethod
    def random_cases(self, random: Random) -> Iterator[Any]:
        """Yield random questions without end."""

    @abstractmethod
    def compare_answers(self, asked: Any) -> tuple[Any, list[str], Differences]:
        """Return both answers, the names of what explains a difference, and what is left."""

    def coverage_of(self, asked: Any, answers: Any) -> Iterable[Any]:
        return ()

    def smaller_cases(self, asked: Any) -> Iterator[Any]:
        return iter(())

    def random_outcomes(self, random: Random) -> Iterator[Outcome]:
        for asked in self.random_cases(random):
            answers, names, left = self.compare_answers(asked)
            yield Outcome(asked, left, names, self.coverage_of(asked, answers))

    def shorten(self, finding: Finding) -> Finding:
        smaller = True
        while smaller:
            smaller = False
            for asked in self.smaller_cases(finding.asked):
                left = self.compare_answers(asked)[2]
                if left and self.kind(asked, left) == finding.kind:
                    finding, smaller = Finding(asked, left, finding.kind), True
                    break
        return finding


@contextmanager
def running_comparison(kind: type[Comparison], folder: Path) -> Iterator[Comparison]:
    needs_peer()
    with closing(kind.open_sides(folder)) as comparison:
        yield comparison


def comparison_fixtures(kind: type[Comparison]) -> tuple[Any, Any, Any]:
    @pytest.fixture(scope="session")
    def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
        with running_comparison(kind, tmp_path_factory.mktemp(kind.name)) as comparison:
            yield comparison

    @pytest.fixture(scope="session")
    def ours(comparison: Comparison) -> Any:
        return comparison.ours

    @pytest.fixture(scope="session")
    def theirs(comparison: Comparison) -> Any:
        return comparison.theirs

    return comparison, ours, theirs


def minimize(
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


def save_finding(comparison: Comparison, finding: Finding, seed: int, number: int) -> Path | None:
    if comparison.cases is None:
        return None
    comparison.cases.mkdir(exist_ok=True)
    path = comparison.cases / f"seed-{seed}-{number}.json"
    path.write_text(json.dumps(comparison.as_saved(finding.asked), indent=2) + "\n")
    return path


def documents_without_a_part(
    said: Any, needed: frozenset[str], *, lists: bool = True
) -> Iterator[Any]:
    yield from documents_without_an_item(said, needed, lists=lists)
    if isinstance(said, Mapping):
        for key, value in said.items():
            for less in documents_without_a_part(value, needed, lists=lists):
                yield {**said, key: less}
    elif lists and isinstance(said, list):
        for place, value in enumerate(said):
            for less in documents_without_a_part(value, needed, lists=lists):
                yield [*said[:place], less, *said[place + 1 :]]


def documents_without_an_item(
    said: Any, needed: frozenset[str], *, lists: bool = True
) -> Iterator[Any]:
    if isinstance(said, Mapping):
        for key in said:
            if key not in needed:
                yield {name: one for name, one in said.items() if name != key}
    elif lists and isinstance(said, list):
        for place in range(len(said)):
            yield said[:place] + said[place + 1 :]


def repeat_forever(make: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield make()
