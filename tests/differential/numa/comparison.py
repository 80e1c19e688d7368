# SPDX-License-Identifier: Apache-2.0
"""Random hosts with NUMA nodes, and instances, for nova's fit and for ours."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tests.differential.comparison import CaseComparison, Differences
from tests.differential.numa.generate import NumaCase, random_case
from tests.differential.numa.sides import NovaNumaFilter, OwnNumaFilter, ResultsByInstance
from tests.differential.numa.single_cells import fit_instance_cell_by_cell, may_nova_confuse_nodes


@dataclass(frozen=True)
class NumaResults:
    """A case and both results."""

    case: NumaCase
    ours: ResultsByInstance
    theirs: ResultsByInstance

    @property
    def first_differing_instance(self) -> int | None:
        """The first instance with different results, None for equal results."""
        ours, theirs = self.ours, self.theirs
        if self.has_nova_lost_usage:
            last = len(theirs) - 1
            kept = [_copy_document_without(item, "host") for item in ours[last : last + 1]]
            ours, theirs = (
                [*ours[:last], *kept],
                [*theirs[:last], _copy_document_without(theirs[last], "lost")],
            )
        both = zip_longest(
            self._remove_incomparable_values(ours), self._remove_incomparable_values(theirs)
        )
        return next((number for number, pair in enumerate(both) if pair[0] != pair[1]), None)

    @property
    def has_nova_lost_usage(self) -> bool:
        """Return whether nova could not subtract the CPUs that it assigned.

        It also assigns whole cores to the emulator's threads, even if a core is in use.
        """
        instance = self.case["instance"]
        policies = (instance["cells"][0]["cpu_thread_policy"], instance["emulator_threads_policy"])
        return "lost" in self.theirs[-1] and policies == ("isolate", "isolate")

    def equals_our_result(self, number: int, result: dict[str, Any]) -> bool:
        (ours, theirs) = self._remove_incomparable_values([self.ours[number], result])
        return {name: ours[name] for name in theirs} == theirs

    def _remove_incomparable_values(self, rounds: ResultsByInstance) -> ResultsByInstance:
        """Return the rounds without reasons and without random choices of nova.

        In nova, the order of a Python set decides which thread of a core comes first. If this is
        not the numerical order, only the cores of CPUs are compared.
        """
        plain = [_copy_document_without(item, "reason") for item in rounds]
        if are_threads_in_order(self.case):
            return plain
        every = [core for cell in self.case["host"] for core in cell["siblings"]]
        cores = {cpu: number for number, core in enumerate(every) for cpu in core}
        return [_replace_cpus_by_cores(item, cores) for item in plain]


class NumaComparison(CaseComparison):
    """``coverage`` of a tally counts nova's verdicts and exact comparisons of CPUs.

    A difference is explained if nova has confused two nodes (``mixed up``), or could not subtract
    the CPUs that it assigned (``lost``).
    """

    name, noun, default_count = "numa", "hosts", 5000
    sides = OwnNumaFilter, NovaNumaFilter
    draw_case = staticmethod(random_case)

    def compare_responses(self, case: NumaCase) -> tuple[NumaResults, list[str], Differences]:
        results = self.get_both_results(case)
        names = ["lost"] * results.has_nova_lost_usage
        if results.first_differing_instance is None:
            return results, names, {}
        if self.has_nova_confused_nodes(results):
            return results, [*names, "mixed up"], {}
        return (
            results,
            names,
            {f"instance {results.first_differing_instance}": (results.ours, results.theirs)},
        )

    def get_both_results(self, case: NumaCase) -> NumaResults:
        return NumaResults(case, self.ours.fit_instances(case), self.theirs.fit_instances(case))

    def list_covered_behaviours(self, case: NumaCase, results: NumaResults) -> Iterable[Any]:
        yield from (item.get("passes", False) for item in results.theirs)
        yield from ["exact"] * are_threads_in_order(case)

    def has_nova_confused_nodes(self, results: NumaResults) -> bool:
        number = results.first_differing_instance
        if (
            number is None
            or number >= len(results.ours)
            or not may_nova_confuse_nodes(results.case)
        ):
            return False
        pieces = fit_instance_cell_by_cell(self.theirs, results.case, number, results.ours)
        return results.equals_our_result(number, pieces)


def are_threads_in_order(case: NumaCase) -> bool:
    cores = [core for cell in case["host"] for core in cell["siblings"]]
    return all(len(core) < 3 and list(set(core)) == core for core in cores)


def _copy_document_without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


def _replace_cpus_by_cores(document: dict[str, Any], cores: Mapping[int, int]) -> dict[str, Any]:
    if not document.get("passes"):
        return document
    cells = [
        {
            **cell,
            "pinning": [[vcpu, cores[cpu]] for vcpu, cpu in cell["pinning"]],
            "reserved": sorted(cores[cpu] for cpu in cell["reserved"]),
        }
        for cell in document["cells"]
    ]
    host = [
        {**cell, "pinned_cpus": sorted(cores[cpu] for cpu in cell["pinned_cpus"])}
        for cell in document.get("host", ())
    ]
    return {**document, "cells": cells, **({"host": host} if "host" in document else {})}
