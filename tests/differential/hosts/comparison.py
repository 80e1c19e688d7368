# SPDX-License-Identifier: Apache-2.0
"""Random hosts and requests for the filters and weighers of nova and for ours."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.differential.comparison import CaseComparison
from tests.differential.hosts.case import HostsCase
from tests.differential.hosts.differences import Differences, find_differences
from tests.differential.hosts.explained import HostResults, explain_differences
from tests.differential.hosts.generate.cases import random_case
from tests.differential.hosts.sides import NovaPlugins, OwnPlugins


class HostsComparison(CaseComparison):
    """``coverage`` of a tally counts verdicts of filters, and weighers that separate hosts."""

    name, noun, default_count = "hosts", "cases", 1000
    sides = OwnPlugins, NovaPlugins
    draw_case = staticmethod(random_case)
    cases_folder = Path(__file__).parent / "cases"

    def compare_responses(self, case: HostsCase) -> tuple[HostResults, list[str], Differences]:
        theirs = self.theirs.run_plugins_for_case(case)
        results = HostResults(case, self.ours.run_plugins_for_case(case, theirs), theirs)
        return results, *explain_differences(results, find_differences(case, results.ours, theirs))

    def list_covered_behaviours(self, case: HostsCase, results: HostResults) -> Iterable[Any]:
        theirs = results.theirs
        for name, verdicts in theirs.filters.items():
            for verdict in verdicts:
                yield (
                    name,
                    "fails" if isinstance(verdict, str) else "passes" if verdict else "rejects",
                )
        for name, weights in theirs.weighers.items():
            if isinstance(weights, dict) and any(weights["normalized"]):
                yield name, "separates"
        yield from ["later instances"] * max(0, len(theirs.rounds) - 1)

    def build_finding_kind(self, case: HostsCase, unexplained: Differences) -> tuple[str, ...]:
        found = {
            " ".join((kind, name, *map(_shorten_verdict, values)))
            for (kind, name, _), values in unexplained.items()
        }
        return tuple(sorted(found))

    def to_saved_json(self, case: HostsCase) -> Any:
        return case.to_saved_json()


def _shorten_verdict(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.split()[:4])
    return str(value) if isinstance(value, bool) else ""
