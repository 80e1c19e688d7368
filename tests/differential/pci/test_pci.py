# SPDX-License-Identifier: Apache-2.0
"""Results of nova's PCI pools, filter and weigher equal ours, or are explained."""

from collections import Counter

import pytest

from placement_sched.model.hardware import pci_devices
from tests.differential.pci.comparison import PciComparison
from tests.differential.pci.explained import EXPLANATIONS
from tests.differential.pci.generate import PciCase

pytestmark = pytest.mark.system
COMPARISON = PciComparison


#: ``make test-only WHAT=differential`` runs more cases.
RANDOM_SEED, CASE_COUNT = 2026, 2000

PCI_POOL = {"vendor_id": "8086", "product_id": "1", "numa_node": 1, "count": 2}
PCI_POOL_WITH_PROVIDER = {**PCI_POOL, "rp_uuid": "a"}


def build_pci_case(pools, *requests, **fields):
    usual = {"sockets": [(0, 0), (1, 0)], "mappings": None, "numa_cells": None, "candidates": [{}]}
    return PciCase(pools=pools, requests=list(requests), **(usual | fields))


def build_pci_request(request_id="r", **fields):
    usual = {"count": 1, "spec": [{}], "alias_name": "nic", "requester_id": None}
    return {**usual, "request_id": request_id, "numa_policy": None, **fields}


def test_random_pci_requests_get_equal_or_explained_devices(comparison):
    tally = comparison.run_random_cases(RANDOM_SEED, CASE_COUNT)
    assert tally.count == CASE_COUNT
    assert tally.findings == []
    assert tally.explained.total() < CASE_COUNT * 0.05
    rare = {"failed"}
    scarce = {name: count for name, count in tally.coverage.items() if count < CASE_COUNT * 0.03}
    assert set(scarce) <= rare, tally.coverage
    assert len(tally.coverage.keys() - rare) == 7


@pytest.mark.parametrize(
    ("number", "differing"),
    [
        (
            0,
            build_pci_case(
                [PCI_POOL], build_pci_request(numa_policy="socket"), sockets=None, numa_cells=[0]
            ),
        ),
        (1, build_pci_case([PCI_POOL], build_pci_request(spec=[]))),
        (
            2,
            build_pci_case(
                [PCI_POOL_WITH_PROVIDER],
                build_pci_request("r"),
                build_pci_request("r1"),
                mappings={"r-0": ["a"], "r1-0": ["a"]},
            ),
        ),
        (
            2,
            build_pci_case(
                [PCI_POOL_WITH_PROVIDER], build_pci_request(None), mappings={"None-0": ["a"]}
            ),
        ),
    ],
)
def test_each_explanation_alone_explains_its_differing_case(comparison, number, differing):
    (ours, theirs), names, left = comparison.compare_responses(differing)
    assert ours != theirs
    assert left == {}
    assert names == [list(EXPLANATIONS)[number]]


#: The condition for placement's mappings (4) has another test.
@pytest.mark.parametrize(
    "missing", [0, *(pytest.param(index, marks=pytest.mark.exhaustive) for index in (1, 2, 3, 5))]
)
def test_comparison_detects_a_missing_device_rule(comparison, monkeypatch, missing):
    conditions = pci_devices._CONDITIONS
    remaining = (*conditions[:missing], *conditions[missing + 1 :])
    monkeypatch.setattr(pci_devices, "_CONDITIONS", remaining)
    assert comparison.run_random_cases(RANDOM_SEED, 600).findings


def test_comparison_detects_an_ignored_placement_mapping(comparison, monkeypatch):
    monkeypatch.setattr(
        pci_devices, "count_devices_by_provider", lambda _request, _mappings: Counter()
    )
    assert comparison.run_random_cases(RANDOM_SEED, 600).findings
