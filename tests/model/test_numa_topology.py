"""The NUMA nodes of an instance, as a request gives them."""

from placement_sched.model.numa_topology import InstanceNUMACell, InstanceNUMATopology


def test_topology_is_read_from_a_document():
    topology = InstanceNUMATopology.from_document(
        {
            "cells": [
                {"id": 3, "cpuset": [0, 1], "memory": 512},
                {
                    "cpuset": [],
                    "pcpuset": [2],
                    "memory": 256,
                    "pagesize": -2,
                    "cpu_policy": "dedicated",
                    "cpu_thread_policy": "isolate",
                },
            ],
            "emulator_threads_policy": "isolate",
        }
    )
    assert topology == InstanceNUMATopology(
        cells=(
            InstanceNUMACell(id=3, cpuset=frozenset({0, 1}), memory=512),
            InstanceNUMACell(
                id=1,
                cpuset=frozenset(),
                pcpuset=frozenset({2}),
                memory=256,
                pagesize=-2,
                cpu_policy="dedicated",
                cpu_thread_policy="isolate",
            ),
        ),
        emulator_threads_policy="isolate",
    )
    assert [len(cell) for cell in topology.cells] == [2, 1]
    assert topology.cells[1].total_cpus == {2}
    assert topology.emulator_threads_isolated


def test_topology_without_nodes_is_false():
    empty = InstanceNUMATopology()
    assert not empty
    assert empty.cpu_policy is None
    assert not empty.emulator_threads_isolated


def test_topology_has_the_policy_of_its_nodes():
    cell = InstanceNUMACell(id=0, cpuset=frozenset(), memory=1, cpu_policy="mixed")
    assert InstanceNUMATopology(cells=(cell,)).cpu_policy == "mixed"
