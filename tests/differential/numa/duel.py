"""Random cases for both sides, and what tells their answers apart."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.numa.generate import Case, case
from tests.differential.numa.pieces import by_pieces, may_be_mixed_up
from tests.differential.numa.sides import Ours, Rounds, Theirs


@dataclass(frozen=True)
class Finding:
    """A case, and what both sides made of it."""

    case: Case
    ours: Rounds
    theirs: Rounds

    @property
    def number(self) -> int | None:
        """Return the number of the first instance with which the sides do not do the same."""
        ours, theirs = self.ours, self.theirs
        if self.is_lost:
            last = len(theirs) - 1
            kept = [_without(one, "host") for one in ours[last : last + 1]]
            ours, theirs = [*ours[:last], *kept], [*theirs[:last], _without(theirs[last], "lost")]
        both = zip_longest(self._comparable(ours), self._comparable(theirs))
        return next((number for number, (one, other) in enumerate(both) if one != other), None)

    @property
    def is_lost(self) -> bool:
        """Return whether nova failed to take away the CPUs that it gave, and so came to an end.

        It takes whole cores for the emulator's threads too, of a core that it knew to be in use.
        """
        asked = self.case["instance"]
        policies = (asked["cells"][0]["cpu_thread_policy"], asked["emulator_threads_policy"])
        return "lost" in self.theirs[-1] and policies == ("isolate", "isolate")

    def is_as(self, number: int, told: dict[str, Any]) -> bool:
        """Return whether ours is what is told of the instance of this number."""
        (ours, theirs) = self._comparable([self.ours[number], told])
        return {name: ours[name] for name in theirs} == theirs

    def _comparable(self, rounds: Rounds) -> Rounds:
        """Return what is told, without reasons, and without what nova leaves to chance.

        Which threads of a core come first it leaves to the order in which Python keeps numbers in
        a set: where that is not the order of the numbers, CPUs are the same if their core is.
        """
        plain = [_without(one, "reason") for one in rounds]
        if threads_in_order(self.case):
            return plain
        every = [core for cell in self.case["host"] for core in cell["siblings"]]
        cores = {cpu: number for number, core in enumerate(every) for cpu in core}
        return [_by_core(one, cores) for one in plain]


@dataclass
class Tally:
    """What came of a run.

    ``verdicts`` are nova's, of instances; ``exact`` cases are compared CPU by CPU; in ``mixed_up``
    ones nova took one node for another, in ``lost`` ones it could not take away what it gave.
    """

    cases: int = 0
    exact: int = 0
    mixed_up: int = 0
    lost: int = 0
    verdicts: Counter[bool] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Theirs) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(self, seed: int, cases: int) -> Tally:
        """Put random cases to both, and return how often what differed."""
        tally, dice = Tally(), Dice(Random(seed))
        for _ in range(cases):
            finding = self.see(case(dice))
            tally.cases += 1
            tally.exact += threads_in_order(finding.case)
            tally.verdicts.update(one.get("passes", False) for one in finding.theirs)
            tally.lost += finding.is_lost
            if finding.number is None:
                continue
            if self.is_mixed_up(finding):
                tally.mixed_up += 1
            else:
                tally.findings.append(finding)
        return tally

    def see(self, asked: Case) -> Finding:
        """Return what both make of a case."""
        return Finding(asked, self._ours.ask(asked), self._theirs.ask(asked))

    def is_mixed_up(self, finding: Finding) -> bool:
        """Return whether ours is what nova itself says when it is asked node by node."""
        number = finding.number
        if number is None or number >= len(finding.ours) or not may_be_mixed_up(finding.case):
            return False
        pieces = by_pieces(self._theirs, finding.case, number, finding.ours)
        return finding.is_as(number, pieces)


def threads_in_order(asked: Case) -> bool:
    """Return whether a set of each core's threads has them in the order of their numbers."""
    cores = [core for cell in asked["host"] for core in cell["siblings"]]
    return all(len(core) < 3 and list(set(core)) == core for core in cores)


def _without(told: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != name}


def _by_core(told: dict[str, Any], cores: Mapping[int, int]) -> dict[str, Any]:
    """Return a round with each CPU of the host replaced by its core."""
    if not told.get("passes"):
        return told
    cells = [
        {
            **cell,
            "pinning": [[vcpu, cores[cpu]] for vcpu, cpu in cell["pinning"]],
            "reserved": sorted(cores[cpu] for cpu in cell["reserved"]),
        }
        for cell in told["cells"]
    ]
    host = [
        {**cell, "pinned_cpus": sorted(cores[cpu] for cpu in cell["pinned_cpus"])}
        for cell in told.get("host", ())
    ]
    return {**told, "cells": cells, **({"host": host} if "host" in told else {})}
