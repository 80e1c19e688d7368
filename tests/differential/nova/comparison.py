# SPDX-License-Identifier: Apache-2.0
"""Candidates queries that nova and our scheduler build for random requests."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.comparison import PEER_PYTHON, CaseComparison
from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.differences import Differences, find_differences
from tests.differential.nova.explained import NovaResults, explain_differences
from tests.differential.nova.generate.cloud import random_cloud
from tests.differential.nova.generate.requests import RequestCase, random_request_case
from tests.differential.nova.sides import NovaWithOpenStackPlacement, OwnExplainApi

#: Number of requests per cloud.
REQUESTS_PER_CLOUD = 25


class NovaComparison(CaseComparison):
    """``coverage`` of a tally counts nova's verdicts."""

    name, noun, default_count = "nova", "requests", 1000
    cases_folder = Path(__file__).parent / "cases"

    @classmethod
    def open_sides(cls, folder: Path, python: Path = PEER_PYTHON) -> Self:
        return cls(
            OwnExplainApi(f"sqlite:///{folder / 'ours.db'}"),
            NovaWithOpenStackPlacement(f"sqlite:///{folder / 'theirs.db'}", python),
        )

    def draw_cases(self, random: Random) -> Iterator[RequestCase]:
        rng = RandomSource(random)
        while True:
            cloud = random_cloud(rng)
            for _ in range(REQUESTS_PER_CLOUD):
                yield random_request_case(rng, cloud)

    def compare_responses(self, case: RequestCase) -> tuple[NovaResults, list[str], Differences]:
        results = NovaResults(
            case,
            self.ours.build_query(case),
            self.theirs.build_query(case),
            self.theirs.build_query,
        )
        return results, *explain_differences(
            results, find_differences(case, results.ours, results.theirs)
        )

    def list_covered_behaviours(self, case: RequestCase, results: NovaResults) -> Iterable[Any]:
        return [results.theirs.verdict]

    def build_finding_kind(self, case: RequestCase, unexplained: Differences) -> tuple[str, ...]:
        return (
            *sorted(unexplained),
            *(str(value)[:60] for value in unexplained.get("verdict", ())),
        )

    def to_saved_json(self, case: RequestCase) -> Any:
        return case.to_saved_json()
