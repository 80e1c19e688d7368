# SPDX-License-Identifier: Apache-2.0
"""Random requests to nova's own functions and to our scheduler: what they ask of placement."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.duel import PEER_PYTHON, CaseComparison, documents_without_a_part
from tests.differential.generate.dice import Dice
from tests.differential.nova.compare import Differences, differences
from tests.differential.nova.explained import NovaAnswers, explain_differences
from tests.differential.nova.generate.cloud import random_cloud
from tests.differential.nova.generate.requests import RequestCase, random_request_case
from tests.differential.nova.sides import Ours, Theirs

#: So many requests are made in one cloud.
EPISODE = 25
#: Without which neither side, or only one, would take the request.
_NEEDED = frozenset(
    {"project_id", "flavor", "vcpus", "memory_mb", "extra_specs", "properties", "id"}
)


class NovaComparison(CaseComparison):
    """``seen`` of a tally counts nova's verdicts."""

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
            here = random_cloud(dice)
            for _ in range(EPISODE):
                yield random_request_case(dice, here)

    def compare_answers(self, asked: RequestCase) -> tuple[NovaAnswers, list[str], Differences]:
        seen = NovaAnswers(asked, self.ours.ask(asked), self.theirs.ask(asked), self.theirs.ask)
        return seen, *explain_differences(seen, differences(asked, seen.ours, seen.theirs))

    def coverage_of(self, asked: RequestCase, answers: NovaAnswers) -> Iterable[Any]:
        return [answers.theirs.verdict]

    def kind(self, asked: RequestCase, left: Differences) -> tuple[str, ...]:
        return (*sorted(left), *(str(value)[:60] for value in left.get("verdict", ())))

    def as_saved(self, asked: RequestCase) -> Any:
        return asked.as_saved()

    def smaller_cases(self, asked: RequestCase) -> Iterator[RequestCase]:
        for options in _smaller_documents(asked.options):
            yield replace(asked, options=options)
        for number in range(len(asked.cloud.aggregates)):
            kept = asked.cloud.aggregates[:number] + asked.cloud.aggregates[number + 1 :]
            yield replace(asked, cloud=replace(asked.cloud, aggregates=kept))
        for spec in _smaller_documents(asked.request_spec):
            yield replace(asked, request_spec=spec)


def _smaller_documents(said: Any) -> Iterator[Any]:
    for less in documents_without_a_part(said, _NEEDED, lists=False):
        document = {**less, "image": None} if "image" in said and "image" not in less else less
        if document != said:
            yield document
