# SPDX-License-Identifier: Apache-2.0
"""Base classes of comparisons: random cases for both sides, and the differences."""

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest

from tests.differential.generate.random_values import RandomSource

ROOT = Path(__file__).resolve().parents[2]
#: The interpreter of the virtual environment that has openstack-placement and nova.
PEER_PYTHON = Path(
    os.environ.get("PLACEMENT_SCHED_PEER_PYTHON", ROOT / ".venv-peer" / "bin" / "python")
)

#: Differing values by aspect: ours, then the peer's.
Differences = Mapping[Any, tuple[Any, Any]]


def skip_without_peer() -> None:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("OpenStack's placement and nova are not installed: make peer")


@dataclass(frozen=True)
class CaseOutcome:
    """Result of a case.

    ``explained`` has the names of the explanations that apply, and ``coverage`` the behaviours that
    the case covers. Comparisons of the state between two cases are not ``counted``.
    """

    case: Any
    unexplained: Differences = field(default_factory=dict)
    explained: Iterable[str] = ()
    coverage: Iterable[Any] = ()
    counted: bool = True


@dataclass(frozen=True)
class Finding:
    """A case with unexplained differences."""

    case: Any
    differences: Differences
    #: Mostly equal for findings with the same cause.
    kind: tuple[str, ...]


@dataclass
class RunTotals:
    """Totals of a run."""

    count: int = 0
    coverage: Counter[Any] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add_totals(self, other: "RunTotals") -> None:
        self.count += other.count
        self.coverage += other.coverage
        self.explained += other.explained
        self.findings += other.findings


class Comparison(ABC):
    """A comparison of two sides.

    ``name`` selects it on the command line. ``noun`` describes its cases, and ``default_count`` is
    their default number per seed. Findings are saved in ``cases_folder``, or nowhere if it is None.
    """

    name: str
    noun: str
    default_count: int
    cases_folder: Path | None = None

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours = ours
        self.theirs = theirs

    @classmethod
    @abstractmethod
    def open_sides(cls, folder: Path, python: Path = PEER_PYTHON) -> "Comparison":
        """Return a comparison of both sides, with their databases in ``folder``."""

    @abstractmethod
    def draw_outcomes(self, random: Random) -> Iterator[CaseOutcome]:
        """Yield the outcomes of an endless sequence of random cases."""

    def build_finding_kind(self, case: Any, unexplained: Differences) -> tuple[str, ...]:
        return tuple(sorted(map(str, unexplained)))

    def shorten_finding(self, finding: Finding) -> Finding:
        return finding

    def to_saved_json(self, case: Any) -> Any:
        return case

    def run_random_cases(
        self, seed: int, many: int, progress: Callable[[int], None] = lambda _done: None
    ) -> RunTotals:
        tally = RunTotals()
        for outcome in self._take_until_enough_counted(many, self.draw_outcomes(Random(seed))):
            tally.count += outcome.counted
            tally.coverage.update(outcome.coverage)
            tally.explained.update(outcome.explained)
            if outcome.unexplained:
                kind = self.build_finding_kind(outcome.case, outcome.unexplained)
                tally.findings.append(Finding(outcome.case, outcome.unexplained, kind))
            progress(tally.count)
        return tally

    @staticmethod
    def _take_until_enough_counted(
        many: int, outcomes: Iterator[CaseOutcome]
    ) -> Iterator[CaseOutcome]:
        count = 0
        while count < many:
            outcome = next(outcomes)
            count += outcome.counted
            yield outcome

    def close(self) -> None:
        for side in (self.theirs, self.ours):
            if hasattr(side, "close"):
                side.close()


class CaseComparison(Comparison):
    """A comparison of independent cases.

    ``sides`` are the classes of both sides, and ``draw_case`` returns a random case.
    """

    sides: tuple[Callable[[], Any], Callable[[Path], Any]]
    draw_case: Callable[[RandomSource], Any]

    @classmethod
    def open_sides(cls, _folder: Path, python: Path = PEER_PYTHON) -> Comparison:
        ours, theirs = cls.sides
        return cls(ours(), theirs(python))

    def draw_cases(self, random: Random) -> Iterator[Any]:
        """Yield an endless sequence of random cases."""
        rng = RandomSource(random)
        while True:
            yield self.draw_case(rng)

    @abstractmethod
    def compare_responses(self, case: Any) -> tuple[Any, list[str], Differences]:
        """Return both responses, explanations, and unexplained differences."""

    def list_covered_behaviours(self, case: Any, responses: Any) -> Iterable[Any]:
        return ()

    def draw_outcomes(self, random: Random) -> Iterator[CaseOutcome]:
        for case in self.draw_cases(random):
            responses, names, unexplained = self.compare_responses(case)
            yield CaseOutcome(
                case, unexplained, names, self.list_covered_behaviours(case, responses)
            )


#: Intended differences: functions that return the differing aspects that they cover, by the names
#: in ``doc/source/allowed_differences.txt``, which has the reasons.
Explanations = dict[str, Callable[[Any, Any], set[Any]]]


def add_explanation(explanations: Explanations, name: str) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to the explanations."""

    def add_function(function: Any) -> Any:
        explanations[name] = function
        return function

    return add_function


def apply_explanations(
    explanations: Explanations, responses: Any, differences: Mapping[Any, Any]
) -> tuple[list[str], dict[Any, Any]]:
    """Return the names of the explanations that apply, and the unexplained differences."""
    names, rest = [], dict(differences)
    for name, explains in explanations.items():
        explained = explains(responses, rest) & rest.keys() if rest else set()
        if explained:
            names.append(name)
            rest = {aspect: values for aspect, values in rest.items() if aspect not in explained}
    return names, rest


def minimize_failing_parts(
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
    if comparison.cases_folder is None:
        return None
    comparison.cases_folder.mkdir(exist_ok=True)
    path = comparison.cases_folder / f"seed-{seed}-{number}.json"
    path.write_text(json.dumps(comparison.to_saved_json(finding.case), indent=2) + "\n")
    return path
