# SPDX-License-Identifier: Apache-2.0
"""Random PCI devices of hosts, and requests, to nova's classes and to ours."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.duel import PEER_PYTHON, CaseComparison, Differences, repeat_forever
from tests.differential.generate.dice import Dice
from tests.differential.pci.explained import EXPLANATIONS
from tests.differential.pci.generate import PciCase, random_case
from tests.differential.pci.sides import Answer, Ours, Theirs


class PciComparison(CaseComparison):
    """``seen`` of a tally counts what nova's answers show."""

    name, noun, many = "pci", "questions", 5000

    @classmethod
    def open_sides(cls, _folder: Path, python: Path = PEER_PYTHON) -> Self:
        return cls(Ours(), Theirs(python))

    def random_cases(self, random: Random) -> Iterator[PciCase]:
        return repeat_forever(partial(random_case, Dice(random)))

    def compare_answers(
        self, question: PciCase
    ) -> tuple[tuple[Answer, Answer], list[str], Differences]:
        ours, theirs = self.ours.ask(question), self.theirs.ask(question)
        names = [] if ours == theirs else self._explained(question, ours)
        left = {} if ours == theirs or names else {"answer": (ours, theirs)}
        return (ours, theirs), names, left

    def coverage_of(self, question: PciCase, answers: tuple[Answer, Answer]) -> Iterable[Any]:
        return _coverage_of_answer(question, answers[1])

    def as_saved(self, question: PciCase) -> Any:
        return question.as_json()

    def _explained(self, question: PciCase, ours: Answer) -> list[str]:
        mended_by_all = question
        for explanation in EXPLANATIONS:
            mended, mended_by_all = explanation.mend(question), explanation.mend(mended_by_all)
            if mended != question and self.theirs.ask(mended) == ours:
                return [explanation.name]
        names = [one.name for one in EXPLANATIONS if one.mend(question) != question]
        return names if names and self.theirs.ask(mended_by_all) == ours else []


def _coverage_of_answer(question: PciCase, theirs: Answer) -> list[str]:
    kept, offered = len(theirs.candidates), len(question.candidates)
    told = {
        "failed": bool(theirs.failed),
        "supported": theirs.supports,
        "refused": not theirs.supports,
        "several requests supported": theirs.supports and len(question.requests) > 1,
        "of providers": theirs.supports and any(map(bool, _suffixes_of_groups(question))),
        "near": theirs.supports and bool(question.numa_cells),
        "passed": theirs.passes,
        "candidates dropped": 0 < kept < offered,
    }
    return [name for name, shown in told.items() if shown]


def _suffixes_of_groups(question: PciCase) -> list[str]:
    ids = [one["request_id"] for one in question.requests if one["alias_name"]]
    return [suffix for suffix in question.mappings or {} if suffix.rpartition("-")[0] in ids]
