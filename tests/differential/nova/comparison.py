# SPDX-License-Identifier: Apache-2.0
"""Candidates queries that nova and our scheduler build for random requests."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.comparison import PEER_PYTHON, CaseComparison, documents_without_a_part
from tests.differential.generate.dice import Dice
from tests.differential.nova.differences import Differences, differences
from tests.differential.nova.explained import NovaAnswers, explain_differences
from tests.differential.nova.generate.cloud import random_cloud
from tests.differential.nova.generate.requests import RequestCase, random_request_case
from tests.differential.nova.sides import Ours, Theirs

#: Number of requests per cloud.
EPISODE = 25
#: Keys that at least a side requires in a request.
_NEEDED = frozenset(
    {"project_id", "flavor", "vcpus", "memory_mb", "extra_specs", "properties", "id"}
)


class NovaComparison(CaseComparison):
    """``coverage`` of a tally counts nova's verdicts."""

    name, noun, many = "nova", "requests", 1000
    cases = Path(__file__).parent / "cases"

    @classmethod
    def open_sides(cls, folder: Path, python: Path = PEER_PYTHON) -> Self:
        return cls(
            Ours(f"sqlite:///{folder / 'ours.db'}"),
            Theirs(f"sqlite:///{folder / 'theirs.db'}", python),
        )

    def random_cases(self, random: Random) -> Iterator[RequestCase]:
        dice = Dice(random)
        while True:
            cloud = random_cloud(dice)
            for _ in range(EPISODE):
                yield random_request_case(dice, cloud)

    def compare_answers(self, case: RequestCase) -> tuple[NovaAnswers, list[str], Differences]:
        answers = NovaAnswers(
            case, self.ours.get_answer(case), self.theirs.get_answer(case), self.theirs.get_answer
        )
        return answers, *explain_differences(
            answers, differences(case, answers.ours, answers.theirs)
        )

    def coverage_of(self, case: RequestCase, answers: NovaAnswers) -> Iterable[Any]:
        return [answers.theirs.verdict]

    def kind(self, case: RequestCase, unexplained: Differences) -> tuple[str, ...]:
        return (
            *sorted(unexplained),
            *(str(value)[:60] for value in unexplained.get("verdict", ())),
        )

    def as_saved(self, case: RequestCase) -> Any:
        return case.as_saved()

    def smaller_cases(self, case: RequestCase) -> Iterator[RequestCase]:
        for options in _smaller_documents(case.options):
            yield replace(case, options=options)
        for number in range(len(case.cloud.aggregates)):
            kept = case.cloud.aggregates[:number] + case.cloud.aggregates[number + 1 :]
            yield replace(case, cloud=replace(case.cloud, aggregates=kept))
        for spec in _smaller_documents(case.request_spec):
            yield replace(case, request_spec=spec)


def _smaller_documents(old: Any) -> Iterator[Any]:
    for less in documents_without_a_part(old, _NEEDED, lists=False):
        document = {**less, "image": None} if "image" in old and "image" not in less else less
        if document != old:
            yield document
