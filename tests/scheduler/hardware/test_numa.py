"""The NUMA nodes asked for, said or implied (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.numa_topology import (
    PAGES_LARGE,
    InstanceNUMACell,
    InstanceNUMATopology,
)
from placement_sched.scheduler.hardware.numa import numa_topology
from tests.scheduler.hardware.asked import flavor_of, image_of

ALL = frozenset(range(4))
NONE = frozenset()


def one_node(**fields):
    """Return one node that has the whole instance."""
    return InstanceNUMACell(**{"id": 0, "cpuset": ALL, "memory": 4096, **fields})


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({}, {}),
        ({"hw:cpu_policy": "shared"}, {}),
        ({"hw:mem_page_size": "0"}, {}),
        ({"hw:pmem": ","}, {}),
        ({"hw:numa_cpus.0": "junk"}, {}),
        ({"resources:VCPU": "4"}, {}),
        ({"hw:emulator_threads_policy": "share"}, {}),
        ({"hw:cpu_thread_policy": ""}, {}),
    ],
)
def test_topology_is_none_where_nothing_asks_for_one(extra_specs, properties):
    assert numa_topology(flavor_of(extra_specs), image_of(properties)) is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "node"),
    [
        ({"hw:numa_nodes": "1"}, {}, one_node()),
        ({}, {"hw_numa_nodes": "1"}, one_node()),
        ({"hw:pmem": "6GB"}, {}, one_node()),
        ({"hw:mem_page_size": "large"}, {}, one_node(pagesize=PAGES_LARGE)),
        ({"hw:mem_page_size": "2MB"}, {}, one_node(pagesize=2048)),
        (
            {"hw:cpu_policy": "dedicated"},
            {"hw_cpu_thread_policy": "require"},
            one_node(cpuset=NONE, pcpuset=ALL, cpu_policy="dedicated", cpu_thread_policy="require"),
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-1"},
            {},
            one_node(cpuset=frozenset({0, 1}), pcpuset=frozenset({2, 3}), cpu_policy="mixed"),
        ),
        (
            {"resources:PCPU": "4", "trait:HW_CPU_HYPERTHREADING": "forbidden"},
            {},
            one_node(cpuset=NONE, pcpuset=ALL, cpu_policy="dedicated", cpu_thread_policy="isolate"),
        ),
    ],
)
def test_topology_of_one_node_is_implied_or_said(extra_specs, properties, node):
    found = numa_topology(flavor_of(extra_specs), image_of(properties))
    assert found == InstanceNUMATopology(cells=(node,))


def test_topology_spreads_pinned_cpus_over_its_nodes():
    flavor = flavor_of(
        {
            "hw:numa_nodes": "2",
            "hw:cpu_policy": "mixed",
            "hw:cpu_dedicated_mask": "1-2",
            "hw:emulator_threads_policy": "isolate",
        }
    )
    mixed = {"memory": 2048, "cpu_policy": "mixed"}
    assert numa_topology(flavor, image_of({})) == InstanceNUMATopology(
        cells=(
            InstanceNUMACell(id=0, cpuset=frozenset({0}), pcpuset=frozenset({1}), **mixed),
            InstanceNUMACell(id=1, cpuset=frozenset({3}), pcpuset=frozenset({2}), **mixed),
        ),
        emulator_threads_policy="isolate",
    )


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}),
        ({"hw:locked_memory": "true"}, {"hw_locked_memory": "false"}),
        ({"hw:mem_encryption": "true"}, {"hw_mem_encryption": "false"}),
        ({"hw:numa_nodes": "1"}, {"hw_numa_nodes": "1"}),
    ],
)
def test_topology_refuses_contradictions_though_nothing_else_asks_for_nodes(
    extra_specs, properties
):
    with pytest.raises(Invalid) as refused:
        numa_topology(flavor_of(extra_specs), image_of(properties))
    assert all(f"'{key}'" in refused.value.detail for key in (*extra_specs, *properties))


def test_topology_of_an_empty_thread_policy_is_refused():
    flavor = flavor_of({"hw:numa_nodes": "1", "hw:cpu_thread_policy": ""})
    with pytest.raises(Invalid, match="'hw:cpu_thread_policy' is empty"):
        numa_topology(flavor, image_of({}))


def test_topology_of_more_cpus_than_can_be_told_apart_is_refused():
    flavor = flavor_of({"hw:cpu_policy": "dedicated"}, vcpus=2_000_000_000)
    with pytest.raises(Invalid, match="2000000000 vcpus"):
        numa_topology(flavor, image_of({}))
