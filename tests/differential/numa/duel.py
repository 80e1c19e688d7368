# SPDX-License-Identifier: Apache-2.0
"""Random hosts with NUMA nodes, and instances, to nova's fit and to ours."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.duel import PEER_PYTHON, CaseComparison, Differences, repeat_forever
from tests.differential.generate.dice import Dice
from tests.differential.numa.generate import Case, random_case
from tests.differential.numa.pieces import fit_cell_by_cell, may_be_mixed_up
from tests.differential.numa.sides import Ours, Rounds, Theirs


@dataclass(frozen=True)
class Answers:
    """A case, and what both sides made of it."""

    case: Case
    ours: Rounds
    theirs: Rounds

    @property
    def number(self) -> int | None:
        ours, theirs = self.ours, self.theirs
        if self.is_usage_lost_by_nova:
            last = len(theirs) - 1
            kept = [_document_without(one, "host") for one in ours[last : last + 1]]
            ours, theirs = (
                [*ours[:last], *kept],
                [*theirs[:last], _document_without(theirs[last], "lost")],
            )
        both = zip_longest(self._comparable(ours), self._comparable(theirs))
        return next((number for number, (one, other) in enumerate(both) if one != other), None)

    @property
    def is_usage_lost_by_nova(self) -> bool:
        """Return whether nova failed to take away the CPUs that it gave, and so came to an end.

        It takes whole cores for the emulator's threads too, of a core that it knew to be in use.
        """
        asked = self.case["instance"]
        policies = (asked["cells"][0]["cpu_thread_policy"], asked["emulator_threads_policy"])
        return "lost" in self.theirs[-1] and policies == ("isolate", "isolate")

    def equals_first_difference(self, number: int, told: dict[str, Any]) -> bool:
        (ours, theirs) = self._comparable([self.ours[number], told])
        return {name: ours[name] for name in theirs} == theirs

    def _comparable(self, rounds: Rounds) -> Rounds:
        """Return what is told, without reasons, and without what nova leaves to chance.

        Which threads of a core come first it leaves to the order in which Python keeps numbers in
        a set: where that is not the order of the numbers, CPUs are the same if their core is.
        """
        plain = [_document_without(one, "reason") for one in rounds]
        if are_threads_in_order(self.case):
            return plain
        every = [core for cell in self.case["host"] for core in cell["siblings"]]
        cores = {cpu: number for number, core in enumerate(every) for cpu in core}
        return [_pinning_by_core(one, cores) for one in plain]


class NumaComparison(CaseComparison):
    """``seen`` of a tally counts nova's verdicts on instances, and cases compared CPU by CPU.

    Explained are cases in which nova took one node for another (``mixed up``), or could not take
    away what it gave (``lost``).
    """

    name, noun, many = "numa", "hosts", 5000

    @classmethod
    def open_sides(cls, _folder: Path, python: Path = PEER_PYTHON) -> Self:
        return cls(Ours(), Theirs(python))

    def random_cases(self, random: Random) -> Iterator[Case]:
        return repeat_forever(partial(random_case, Dice(random)))

    def compare_answers(self, asked: Case) -> tuple[Answers, list[str], Differences]:
        answers = self.answers(asked)
        names = ["lost"] * answers.is_usage_lost_by_nova
        if answers.number is None:
            return answers, names, {}
        if self.is_mixed_up(answers):
            return answers, [*names, "mixed up"], {}
        return answers, names, {f"instance {answers.number}": (answers.ours, answers.theirs)}

    def answers(self, asked: Case) -> Answers:
        return Answers(asked, self.ours.ask(asked), self.theirs.ask(asked))

    def coverage_of(self, asked: Case, answers: Answers) -> Iterable[Any]:
        yield from (one.get("passes", False) for one in answers.theirs)
        yield from ["exact"] * are_threads_in_order(asked)

    def is_mixed_up(self, answers: Answers) -> bool:
        number = answers.number
        if number is None or number >= len(answers.ours) or not may_be_mixed_up(answers.case):
            return False
        pieces = fit_cell_by_cell(self.theirs, answers.case, number, answers.ours)
        return answers.equals_first_difference(number, pieces)


def are_threads_in_order(asked: Case) -> bool:
    cores = [core for cell in asked["host"] for core in cell["siblings"]]
    return all(len(core) < 3 and list(set(core)) == core for core in cores)


def _document_without(told: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != name}


def _pinning_by_core(told: dict[str, Any], cores: Mapping[int, int]) -> dict[str, Any]:
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
