# SPDX-License-Identifier: Apache-2.0
"""Random PCI devices of hosts, and requests, for nova's classes and for ours."""

from collections.abc import Iterable
from typing import Any

from tests.differential.comparison import CaseComparison, Differences
from tests.differential.pci.explained import EXPLANATIONS
from tests.differential.pci.generate import PciCase, random_case
from tests.differential.pci.sides import NovaPciClasses, OwnPciClasses, PciResult


class PciComparison(CaseComparison):
    """``coverage`` of a tally counts properties of nova's results."""

    name, noun, default_count = "pci", "cases", 5000
    sides = OwnPciClasses, NovaPciClasses
    draw_case = staticmethod(random_case)

    def compare_responses(
        self, case: PciCase
    ) -> tuple[tuple[PciResult, PciResult], list[str], Differences]:
        ours, theirs = self.ours.fit_pci_devices(case), self.theirs.fit_pci_devices(case)
        names = [] if ours == theirs else self._find_explanations(case, ours)
        unexplained = {} if ours == theirs or names else {"result": (ours, theirs)}
        return (ours, theirs), names, unexplained

    def list_covered_behaviours(
        self, case: PciCase, results: tuple[PciResult, PciResult]
    ) -> Iterable[Any]:
        return _list_properties_of_result(case, results[1])

    def to_saved_json(self, case: PciCase) -> Any:
        return case.as_json()

    def _find_explanations(self, case: PciCase, ours: PciResult) -> list[str]:
        changed_by_all = case
        for name, change in EXPLANATIONS.items():
            changed, changed_by_all = change(case), change(changed_by_all)
            if changed != case and self.theirs.fit_pci_devices(changed) == ours:
                return [name]
        names = [name for name, change in EXPLANATIONS.items() if change(case) != case]
        return names if names and self.theirs.fit_pci_devices(changed_by_all) == ours else []


def _list_properties_of_result(case: PciCase, theirs: PciResult) -> list[str]:
    remaining, offered = len(theirs.candidates), len(case.candidates)
    properties = {
        "failed": bool(theirs.failed),
        "supported": theirs.supports,
        "rejected": not theirs.supports,
        "several requests supported": theirs.supports and len(case.requests) > 1,
        "of providers": theirs.supports and any(map(bool, _list_suffixes_of_groups(case))),
        "near": theirs.supports and bool(case.numa_cells),
        "passed": theirs.passes,
        "candidates dropped": 0 < remaining < offered,
    }
    return [name for name, is_shown in properties.items() if is_shown]


def _list_suffixes_of_groups(case: PciCase) -> list[str]:
    ids = [request["request_id"] for request in case.requests if request["alias_name"]]
    return [suffix for suffix in case.mappings or {} if suffix.rpartition("-")[0] in ids]
