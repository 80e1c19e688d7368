# SPDX-License-Identifier: Apache-2.0
"""Random NUMA nodes for nova's fit and for ours."""

import pytest

from tests.differential.numa.comparison import NumaComparison, NumaResults

pytestmark = pytest.mark.system
COMPARISON = NumaComparison

RANDOM_SEED, CASE_COUNT = 2026, 400


def build_numa_case(host, instance, **changes):
    return {
        "host": [
            {
                "id": number,
                "cpuset": [number],
                "pcpuset": [],
                "memory": memory,
                "cpu_usage": 0,
                "memory_usage": 0,
                "pinned_cpus": [],
                "siblings": [[number]],
                "mempages": [{"size_kb": 4, "total": memory * 256, "used": 0, "reserved": 0}],
                "network_metadata": {"physnets": [], "tunneled": False},
                "socket": 0,
            }
            for number, memory in enumerate(host)
        ],
        "instance": {
            "cells": [
                {
                    "id": number,
                    "cpuset": [number],
                    "pcpuset": [],
                    "memory": memory,
                    "pagesize": None,
                    "cpu_policy": None,
                    "cpu_thread_policy": None,
                }
                for number, memory in enumerate(instance)
            ],
            "emulator_threads_policy": None,
        },
        "extra_specs": {},
        "properties": {},
        "cpu_allocation_ratio": 1.0,
        "ram_allocation_ratio": 1.0,
        "network_metadata": None,
        "devices": None,
        "asks_devices": False,
        "candidates": [{"number": 0, "allocations": {}, "mappings": {"device": ["p0"]}}],
        "packing": False,
        "instances": 1,
        **changes,
    }


def test_random_instances_get_equal_or_explained_numa_nodes_and_cpus(comparison):
    tally = comparison.run_random_cases(RANDOM_SEED, CASE_COUNT)
    assert [finding.case for finding in tally.findings] == []
    assert tally.count == CASE_COUNT
    assert tally.coverage["exact"] > CASE_COUNT * 0.5
    assert tally.explained["mixed up"] < CASE_COUNT * 0.05
    assert min(tally.coverage[True], tally.coverage[False]) > CASE_COUNT * 0.2


def test_wrong_nova_fit_is_attributed_to_mixed_up_numa_nodes(comparison):
    results = comparison.get_both_results(build_numa_case([1024, 1024, 1024], [512, 512, 2048]))
    assert (results.ours[0]["passes"], results.theirs[0]["passes"]) == (False, True)
    assert results.first_differing_instance == 0
    assert comparison.has_nova_confused_nodes(results)


def test_comparison_detects_different_numa_nodes(comparison):
    results = comparison.get_both_results(build_numa_case([1024, 1024], [512]))
    assert results.first_differing_instance is None
    (result,) = results.ours
    other = {**result, "cells": [{**result["cells"][0], "id": 1}]}
    wrong = NumaResults(results.case, [other], results.theirs)
    assert (wrong.first_differing_instance, comparison.has_nova_confused_nodes(wrong)) == (0, False)


def test_mixed_up_numa_nodes_do_not_explain_other_differences(comparison):
    results = comparison.get_both_results(build_numa_case([1024, 1024, 1024], [512, 512, 2048]))
    passing = {**results.theirs[0], "candidates": []}
    wrong = NumaResults(results.case, [passing], results.theirs)
    assert (wrong.first_differing_instance, comparison.has_nova_confused_nodes(wrong)) == (0, False)


@pytest.mark.parametrize("changed", ["host", "cells", "candidates"])
def test_every_key_of_a_numa_result_is_compared(comparison, changed):
    results = comparison.get_both_results(build_numa_case([1024], [512]))
    (result,) = results.ours
    wrong = NumaResults(results.case, [{**result, changed: []}], results.theirs)
    assert wrong.first_differing_instance == 0
