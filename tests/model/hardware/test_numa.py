# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of hosts and instances."""

import pytest

from placement_sched.model.hardware.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NetworkMetadata,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
    NUMATopologyLimits,
)
from placement_sched.schemas.node_report import numa_topology

CELL = {"id": 0, "cpuset": [0, 1], "memory": 1024}


def numa_cell(**changes):
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


def test_free_cpus_and_memory_are_those_of_nova():
    cell = numa_cell()
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
def test_memory_fits_whole_free_pages(size, kib, free, total):
    assert numa_cell().can_fit_pagesize(size, kib) is free
    assert numa_cell().can_fit_pagesize(size, kib, use_free=False) is total
    with pytest.raises(ValueError, match="NUMA node 0 has no pages of 8 KiB"):
        numa_cell().can_fit_pagesize(8, 8)


@pytest.mark.parametrize(
    ("siblings", "has_threads"), [([], False), ([{0}, {1}], False), ([{0}, {1, 2}], True)]
)
def test_host_has_threads_if_a_core_has_two_siblings(siblings, has_threads):
    cell = numa_cell(siblings=tuple(map(frozenset, siblings)))
    assert cell.has_threads is has_threads
    assert NUMATopology([numa_cell(siblings=()), cell]).has_threads is has_threads


def test_report_is_parsed_once_on_first_access(monkeypatch):
    parsed_ids = []
    from_document = NUMACell.from_document
    monkeypatch.setattr(
        NUMACell,
        "from_document",
        lambda document: parsed_ids.append(document["id"]) or from_document(document),
    )
    topology = numa_topology({"cells": [CELL, CELL | {"id": 1}]}).topology
    assert parsed_ids == []
    assert [cell.id for cell in topology.cells] == [0, 1]
    assert topology.cells is topology.cells
    assert parsed_ids == [0, 1]


def test_each_key_of_a_report_is_parsed():
    (cell,) = numa_topology(
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


def test_topology_without_nodes_is_false():
    assert not NUMATopology()
    assert not numa_topology({"cells": []}).topology
    assert len(NUMATopology([numa_cell()])) == 1
    assert NUMATopology([numa_cell()]) == NUMATopology([numa_cell()]) != NUMATopology()
    assert "NUMACell(id=0" in repr(NUMATopology([numa_cell()]))


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
def test_limits_are_written_as_json(network, document):
    limits = NUMATopologyLimits(
        cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5, network_metadata=network, packing=True
    )
    assert limits.as_json() == {
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.5,
        "network_metadata": document,
    }


def test_topology_is_read_from_a_document():
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
