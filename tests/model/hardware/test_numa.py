# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of hosts and instances."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.numa import (
    FitBudget,
    InstanceNUMACell,
    InstanceNUMATopology,
    NetworkMetadata,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
    NUMATopologyLimits,
    find_arrangement,
)
from placement_sched.model.hardware.numa_fit import fit_to_host, select_fitting_candidates
from placement_sched.model.hardware.pci_devices import Devices, PciPools
from placement_sched.model.hardware.pci_requests import InstancePCIRequest
from placement_sched.model.image import CHOICES
from placement_sched.model.rejection import Rejection
from placement_sched.schemas.node_report import parse_numa_topology
from tests.model.hardware.numa_nodes import build_host_with_memory, build_instance_with_memory

NUMA_CELL_REPORT = {"id": 0, "cpuset": [0, 1], "memory": 1024}


def build_numa_cell(**changes):
    fields = {
        "id": 0,
        "pcpuset": frozenset(range(8)),
        "pinned_cpus": frozenset({1, 4}),
        "siblings": tuple(frozenset({n, n + 4}) for n in range(4)),
        "memory": 1024,
        "memory_usage": 24,
        "mempages": (
            NUMAPagesTopology(size_kb=4, total=100, used=10, reserved=5),
            NUMAPagesTopology(size_kb=2048, total=10),
        ),
    }
    return NUMACell(**(fields | changes))


def test_numa_cell_has_the_free_cpus_and_memory_of_nova():
    cell = build_numa_cell()
    assert cell.free_pcpus == {0, 2, 3, 5, 6, 7}
    assert cell.free_siblings == ({0}, {5}, {2, 6}, {3, 7})
    assert cell.free_cores == ((0,), (5,), (2, 6), (3, 7))
    assert (cell.avail_pcpus, cell.avail_memory) == (6, 1000)
    assert [(pages.free, pages.free_kb) for pages in cell.mempages] == [(85, 340), (10, 20480)]


@pytest.mark.parametrize(
    ("size", "kib", "free", "total"),
    [
        (4, 340, True, True),
        (4, 344, False, True),
        (4, 400, False, True),
        (4, 404, False, False),
        (4, 341, False, False),
        (2048, 20480, True, True),
        (2048, 2047, False, False),
        (2048, 0, True, True),
    ],
)
def test_memory_of_an_instance_must_fit_whole_free_pages(size, kib, free, total):
    assert build_numa_cell().can_fit_pagesize(size, kib) is free
    assert build_numa_cell().can_fit_pagesize(size, kib, use_free=False) is total
    with pytest.raises(ValueError, match="NUMA node 0 has no pages of 8 KiB"):
        build_numa_cell().can_fit_pagesize(8, 8)


@pytest.mark.parametrize(
    ("siblings", "has_threads"), [([], False), ([{0}, {1}], False), ([{0}, {1, 2}], True)]
)
def test_host_has_threads_if_a_core_has_two_siblings(siblings, has_threads):
    cell = build_numa_cell(siblings=tuple(map(frozenset, siblings)))
    assert cell.has_threads is has_threads
    assert NUMATopology([build_numa_cell(siblings=()), cell]).has_threads is has_threads


def test_numa_report_is_parsed_once_on_first_access(monkeypatch):
    parsed_ids = []
    from_document = NUMACell.from_document
    monkeypatch.setattr(
        NUMACell,
        "from_document",
        lambda document: parsed_ids.append(document["id"]) or from_document(document),
    )
    topology = parse_numa_topology(
        {"cells": [NUMA_CELL_REPORT, NUMA_CELL_REPORT | {"id": 1}]}
    ).topology
    assert parsed_ids == []
    assert [cell.id for cell in topology.cells] == [0, 1]
    assert topology.cells is topology.cells
    assert parsed_ids == [0, 1]


def test_each_key_of_a_reported_numa_cell_is_parsed():
    (cell,) = parse_numa_topology(
        {
            "cells": [
                {
                    "id": 3,
                    "cpuset": [1, 2],
                    "pcpuset": [4, 5],
                    "memory": 1024,
                    "cpu_usage": 1,
                    "memory_usage": 512,
                    "pinned_cpus": [4],
                    "siblings": [[1, 2], [4, 5]],
                    "mempages": [{"size_kb": 4, "total": 100, "used": 5, "reserved": 1}],
                    "network_metadata": {"physnets": ["a", "b"], "tunneled": True},
                    "socket": 1,
                }
            ]
        }
    ).topology.cells
    assert cell == NUMACell(
        id=3,
        cpuset=frozenset({1, 2}),
        pcpuset=frozenset({4, 5}),
        memory=1024,
        cpu_usage=1,
        memory_usage=512,
        pinned_cpus=frozenset({4}),
        siblings=(frozenset({1, 2}), frozenset({4, 5})),
        mempages=(NUMAPagesTopology(size_kb=4, total=100, used=5, reserved=1),),
        network_metadata=NetworkMetadata(physnets=frozenset({"a", "b"}), tunneled=True),
        socket=1,
    )


def test_numa_topology_without_nodes_is_false_in_conditions():
    assert not NUMATopology()
    assert not parse_numa_topology({"cells": []}).topology
    assert len(NUMATopology([build_numa_cell()])) == 1
    assert NUMATopology([build_numa_cell()]) == NUMATopology([build_numa_cell()]) != NUMATopology()
    assert "NUMACell(id=0" in repr(NUMATopology([build_numa_cell()]))


@pytest.mark.parametrize(
    ("network", "document"),
    [
        (None, None),
        (
            NetworkMetadata(physnets=frozenset({"b", "a"}), tunneled=True),
            {"physnets": ["a", "b"], "tunneled": True},
        ),
    ],
)
def test_numa_limits_are_written_as_json(network, document):
    limits = NUMATopologyLimits(
        cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5, network_metadata=network, packing=True
    )
    assert limits.as_json() == {
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.5,
        "network_metadata": document,
    }


def test_numa_topology_is_read_from_a_document():
    pinned = {
        "memory": 256,
        "pagesize": -2,
        "cpu_policy": "dedicated",
        "cpu_thread_policy": "isolate",
    }
    first = {"id": 3, "cpuset": [0, 1], "memory": 512}
    second = {"cpuset": [], "pcpuset": [2], **pinned}
    topology = InstanceNUMATopology.from_document(
        {"cells": [first, second], "emulator_threads_policy": "isolate"}
    )
    assert topology == InstanceNUMATopology(
        cells=(
            InstanceNUMACell(id=3, cpuset=frozenset({0, 1}), memory=512),
            InstanceNUMACell(id=1, cpuset=frozenset(), pcpuset=frozenset({2}), **pinned),
        ),
        emulator_threads_policy="isolate",
    )
    assert [len(cell) for cell in topology.cells] == [2, 1]
    assert topology.cells[1].total_cpus == {2}
    assert topology.emulator_threads_isolated


def test_instance_topology_has_the_policy_of_its_cells():
    empty = InstanceNUMATopology()
    assert not empty
    assert empty.cpu_policy is None
    assert not empty.emulator_threads_isolated
    cell = InstanceNUMACell(id=0, cpuset=frozenset(), memory=1, cpu_policy="mixed")
    assert InstanceNUMATopology(cells=(cell,)).cpu_policy == "mixed"


@pytest.mark.parametrize(
    ("places", "result"),
    [
        ([[0, 1]], (0,)),
        ([[0, 1], [0, 1]], (0, 1)),
        ([[0, 1], [0]], (1, 0)),
        ([[0], [0]], None),
        ([[0, 1, 2], [0, 1], [0, 1]], (2, 0, 1)),
        ([[1], []], None),
        ([], ()),
    ],
)
def test_numa_arrangement_prefers_the_first_host_nodes(places, result):
    assert find_arrangement(places, lambda _places: True) == result


NUMA_MODULE = "placement_sched.model.hardware.numa"
RANDOM_HOST_NODES = st.lists(
    st.lists(st.integers(0, 4), unique=True).map(sorted), min_size=1, max_size=4
)
RANDOM_ACCEPTED_NODE_SETS = st.frozensets(
    st.frozensets(st.integers(0, 4), min_size=1, max_size=4), max_size=12
)


@given(RANDOM_HOST_NODES, RANDOM_ACCEPTED_NODE_SETS)
def test_numa_arrangement_equals_that_of_an_exhaustive_search(places, accepted_sets):
    arrangements = (
        arrangement
        for arrangement in permutations(range(5), len(places))
        if all(place in places_set for place, places_set in zip(arrangement, places, strict=True))
        and frozenset(arrangement) in accepted_sets
    )
    assert find_arrangement(
        places, lambda places_set: frozenset(places_set) in accepted_sets
    ) == next(arrangements, None)


def test_each_set_of_host_numa_nodes_is_evaluated_once():
    sets, budget = [], FitBudget(1_000_000)

    def reject_node_set(places_set):
        sets.append(frozenset(places_set))

    assert find_arrangement([list(range(10))] * 5, reject_node_set, budget=budget) is None
    assert len(sets) == len(set(sets)) == 252


@given(RANDOM_HOST_NODES, st.lists(st.sampled_from("abc"), min_size=5, max_size=5), st.data())
def test_equal_host_numa_nodes_are_interchangeable(places, place_kinds, data):
    counts = st.lists(st.sampled_from("abc"), min_size=len(places), max_size=len(places))
    accepted_sets = data.draw(st.lists(counts.map(sorted), max_size=4))

    def accept_node_set(places_set):
        return sorted(place_kinds[place] for place in places_set) in accepted_sets

    arrangements = (
        arrangement
        for arrangement in permutations(range(5), len(places))
        if all(place in places_set for place, places_set in zip(arrangement, places, strict=True))
        and accept_node_set(arrangement)
    )
    assert find_arrangement(places, accept_node_set, lambda: place_kinds) == next(
        arrangements, None
    )


def test_equal_sets_of_host_numa_nodes_are_evaluated_once():
    sets = []
    place_kinds = ["near", *["far"] * 15]
    assert find_arrangement([range(16)] * 8, sets.append, lambda: place_kinds) is None
    assert len(sets) == 2


def test_numa_arrangement_search_stops_at_its_budget():
    sets, budget = [], FitBudget(1000)
    assert find_arrangement([list(range(64))] * 32, sets.append, budget=budget) is None
    assert (budget.is_exhausted, budget.remaining) == (True, 0)
    assert len(sets) <= 100


def test_first_numa_arrangement_is_tried_with_an_exhausted_budget():
    budget = FitBudget(0)
    assert find_arrangement([range(16)] * 16, lambda _: True, budget=budget) == tuple(range(16))
    assert not budget.is_exhausted
    assert find_arrangement([range(32)] * 16, lambda _: False, budget=budget) is None
    assert budget.is_exhausted


@pytest.mark.parametrize(("steps", "sets", "number"), [(0, 10, 4), (0, 1000, 1), (1000, 245, 5)])
def test_search_budget_counts_all_sets_of_numa_nodes_but_the_first(steps, sets, number):
    attempts: list[tuple[int, ...]] = []
    budget = FitBudget(steps)
    assert (
        find_arrangement([range(8)] * 2, attempts.append, budget=budget, steps_per_check=sets)
        is None
    )
    assert len(attempts) == number
    assert budget.is_exhausted


NUMA_LIMITS = NUMATopologyLimits(cpu_allocation_ratio=16.0, ram_allocation_ratio=1.0)
RANDOM_PCI_POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "vendor_id": st.just("10de"),
            "product_id": st.sampled_from("ab"),
            "numa_node": st.sampled_from([None, 0, 1, 2, 3]),
            "count": st.integers(1, 3),
        },
        optional={"dev_type": st.sampled_from(["type-PF", "type-VF"]), "physnet": st.just("x")},
    ),
    max_size=5,
)
RANDOM_PCI_REQUESTS = st.lists(
    st.builds(
        InstancePCIRequest,
        count=st.integers(1, 4),
        spec=st.sampled_from(
            [({"product_id": "a"},), ({"product_id": "b"},), ({"vendor_id": "10de"},)]
        ),
        numa_policy=st.sampled_from([None, *CHOICES["hw_pci_numa_affinity_policy"]]),
    ),
    min_size=1,
    max_size=3,
)
RANDOM_NODE_SOCKETS = st.lists(st.sampled_from([0, 1]), min_size=4, max_size=4)


@given(
    RANDOM_PCI_POOLS,
    RANDOM_PCI_REQUESTS,
    RANDOM_NODE_SOCKETS,
    st.integers(1, 4),
    st.sets(st.integers(0, 3)),
)
def test_numa_nodes_near_devices_equal_an_exhaustive_search(pools, requests, sockets, count, full):
    numa = {"cells": [{"id": node, "socket": socket} for node, socket in enumerate(sockets)]}
    stats = PciPools.from_report(pools, numa)
    host = build_host_with_memory(*(1 if node in full else 512 for node in range(4)))
    instance = build_instance_with_memory(*[512] * count)
    result = fit_to_host(host, instance, None, Devices(stats, requests))
    served = any(
        not full.intersection(places_set)
        and stats.support_requests(requests, None, [host.cells[node] for node in places_set])
        for places_set in combinations(range(4), count)
    )
    assert isinstance(result, Rejection) is not served
    if served:
        assert stats.support_requests(requests, None, result)


class CountingPciPools(PciPools):
    """Pools that count the calls of ``support_requests``."""

    __slots__ = ("calls",)

    def support_requests(self, requests, provider_mapping=None, numa_cells=None):
        self.calls = getattr(self, "calls", 0) + 1
        return super().support_requests(requests, provider_mapping, numa_cells)


def _build_gpu_devices(pools, count, policy="required"):
    spec = ({"vendor_id": "10de", "product_id": "1db4"},)
    ids = {"vendor_id": "10de", "product_id": "1db4"}
    stats = CountingPciPools.from_report(
        [{**ids, "numa_node": node, "count": number} for node, number in pools]
    )
    return Devices(stats, [InstancePCIRequest(count=count, spec=spec, numa_policy=policy)])


@pytest.mark.parametrize(
    ("pools", "count", "nodes", "full", "attempts"),
    [
        ([(0, 2)], 1, 4, {0}, 1),
        ([(0, 2)], 3, 8, set(), 2),
        ([(node, 1) for node in range(16)], 9, 8, set(), 1),
        ([(0, 2), (1, 2)], 5, 8, set(), 3),
    ],
    ids=["no capacity", "too few devices", "a device per node", "two nodes"],
)
def test_few_sets_of_sixteen_numa_nodes_are_tried_for_devices(pools, count, nodes, full, attempts):
    host = build_host_with_memory(*(1 if node in full else 512 for node in range(16)))
    instance = build_instance_with_memory(*[512] * nodes)
    devices = _build_gpu_devices(pools, count)
    result = fit_to_host(host, instance, None, devices)
    assert result.values["cause"] == "devices"
    assert devices.stats.calls == attempts


def test_numa_search_budget_of_a_request_is_shared_by_all_hosts(monkeypatch):
    monkeypatch.setattr(f"{NUMA_MODULE}.MAX_NUMA_STEPS", 1000)
    host, instance = build_host_with_memory(*[512] * 16), build_instance_with_memory(*[512] * 8)
    budget, attempts = FitBudget(), []
    for _ in range(10):
        devices = _build_gpu_devices([(node, node + 1) for node in range(16)], 500)
        result = select_fitting_candidates(host, instance, NUMA_LIMITS, devices, None, budget)
        assert result.values["incomplete"]
        attempts.append(devices.stats.calls)
    assert attempts[0] <= 100
    assert max(attempts[1:]) <= 10


def test_only_possible_numa_arrangement_is_found_in_few_steps():
    # Without a look-ahead, every set of the others would be tried for the last two nodes.
    places = [list(range(16))] * 13 + [[0], [0, 1], [0, 1, 2]]
    budget = FitBudget(5_000)
    result = find_arrangement(places, lambda _some: True, budget=budget)
    assert result == (*range(3, 16), 0, 1, 2)


def test_search_budget_for_further_candidates_is_shared_by_all_hosts(monkeypatch):
    monkeypatch.setattr(f"{NUMA_MODULE}.MAX_NUMA_CANDIDATES", 10)
    host, instance = build_host_with_memory(*[512] * 16), build_instance_with_memory(*[512] * 8)
    candidates = [{"mappings": {"": [str(number)]}} for number in range(1000)]
    many = _build_gpu_devices([(node, 1) for node in range(16)], 500)
    few = _build_gpu_devices([(3, 1)], 1, "preferred")
    rejection = select_fitting_candidates(
        host, instance, NUMA_LIMITS, many, candidates, FitBudget(0)
    )
    assert describe_rejection(rejection).count("Not all sets of NUMA nodes were tried") == 1
    assert 10 < many.stats.calls < 100
    remaining = select_fitting_candidates(
        host, instance, NUMA_LIMITS, few, candidates, FitBudget(0)
    )
    assert candidates[: len(remaining)] == remaining
    assert 10 < len(remaining) < 50
    spent = FitBudget(0)
    select_fitting_candidates(host, instance, NUMA_LIMITS, many, candidates, spent)
    remaining = select_fitting_candidates(host, instance, NUMA_LIMITS, few, candidates, spent)
    assert 1 <= len(remaining) < 10
    enough = FitBudget(100_000)
    assert (
        select_fitting_candidates(host, instance, NUMA_LIMITS, few, candidates, enough)
        == candidates
    )


def test_candidates_are_not_tried_if_the_numa_nodes_lack_capacity():
    host, instance = build_host_with_memory(512, 1), build_instance_with_memory(512, 512)
    devices, candidates = _build_gpu_devices([(0, 1)], 1), [{"mappings": {}}] * 1000
    budget = FitBudget(100)
    rejection = select_fitting_candidates(host, instance, NUMA_LIMITS, devices, candidates, budget)
    assert rejection.values["cause"] == "arrangement"
    assert budget.remaining > 80
