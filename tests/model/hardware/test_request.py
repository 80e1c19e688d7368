# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes requested, explicitly or by implication (nova 34 observed)."""

import pytest

from placement_sched.model.hardware.numa import PAGES_LARGE, InstanceNUMACell, InstanceNUMATopology
from tests.model.hardware.asked import hardware_of, refused

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
    assert hardware_of(extra_specs, properties).numa_topology is None


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
    found = hardware_of(extra_specs, properties).numa_topology
    assert found == InstanceNUMATopology(cells=(node,))


def test_topology_spreads_pinned_cpus_over_its_nodes():
    extra_specs = {
        "hw:numa_nodes": "2",
        "hw:cpu_policy": "mixed",
        "hw:cpu_dedicated_mask": "1-2",
        "hw:emulator_threads_policy": "isolate",
    }
    mixed = {"memory": 2048, "cpu_policy": "mixed"}
    assert hardware_of(extra_specs).numa_topology == InstanceNUMATopology(
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
    hardware = hardware_of(extra_specs, properties)
    refused(lambda: hardware.numa_topology, *extra_specs, *properties)


def test_topology_of_an_empty_thread_policy_is_refused():
    hardware = hardware_of({"hw:numa_nodes": "1", "hw:cpu_thread_policy": ""})
    assert "'hw:cpu_thread_policy' is empty" in refused(lambda: hardware.numa_topology)


def test_topology_of_more_cpus_than_are_supported_is_refused():
    hardware = hardware_of({"hw:cpu_policy": "dedicated"}, vcpus=2_000_000_000)
    assert "2000000000 vcpus" in refused(lambda: hardware.numa_topology)


NODES, NAME = "hw:numa_nodes", "hw_numa_nodes"


def nodes(extra_specs, properties=(), **flavor):
    """Return CPUs and memory of each node."""
    topology = hardware_of(extra_specs, properties, **flavor).numa_topology
    return topology and [(set(cell.cpuset), cell.memory) for cell in topology.cells]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "count"),
    [({}, {}, None), ({NODES: ""}, {}, None), ({NODES: "2"}, {}, 2), ({}, {NAME: "4"}, 4)],
)
def test_number_of_nodes_is_that_of_flavor_or_image(by_flavor, by_image, count):
    found = nodes(by_flavor, by_image)
    assert (found and len(found)) == count


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({NODES: "0"}, {}, (NODES,)),
        ({NODES: "-1"}, {}, (NODES,)),
        ({NODES: "02"}, {}, (NODES,)),
        ({NODES: "two"}, {}, (NODES,)),
        ({NODES: "999999999"}, {}, (NODES,)),
        ({NODES: "9" * 5000}, {}, (NODES,)),
        ({}, {NAME: "0"}, (NAME,)),
        ({NODES: "2"}, {NAME: "2"}, (NODES, NAME)),
    ],
)
def test_invalid_number_of_nodes_or_one_that_is_set_twice_is_refused(by_flavor, by_image, named):
    refused(lambda: nodes(by_flavor, by_image), *named)


def spread(cpus, memory, prefix="hw:numa"):
    """Return the keys that spread CPUs and memory over nodes."""
    keys = {f"{prefix}_cpus.{node}": text for node, text in enumerate(cpus)}
    return keys | {f"{prefix}_mem.{node}": text for node, text in enumerate(memory)}


def test_shares_are_equal_unless_spread():
    assert nodes({NODES: "2"}) == [({0, 1}, 2048), ({2, 3}, 2048)]


@pytest.mark.parametrize("vcpus", [0, 4])
def test_shares_of_one_node_are_everything(vcpus):
    assert nodes({NODES: "1"}, vcpus=vcpus) == [(set(range(vcpus)), 4096)]


def test_shares_are_as_the_flavor_spreads_them():
    extra_specs = spread(["0,2-3", "1"], ["1024", "3072"]) | {"hw:numa_mem.3": "junk"}
    assert nodes({NODES: "2", **extra_specs}) == [({0, 2, 3}, 1024), ({1}, 3072)]


def test_shares_are_as_the_image_spreads_them():
    properties = spread(["0", "1-3"], ["4096", "0"], "hw_numa")
    assert nodes({NODES: "2"}, properties) == [({0}, 4096), ({1, 2, 3}, 0)]


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({NODES: "3"}, {}, (NODES, "hw:numa_cpus.N", "hw:numa_mem.N")),
        ({}, {NAME: "3"}, (NAME,)),
        (spread(["0-3"], []), {}, ("hw:numa_cpus.N", "hw:numa_mem.N", NODES)),
        (spread([], ["4096"]), {}, ("hw:numa_cpus.N", "hw_numa_mem.N")),
        (spread(["0-3"], ["4096"]), {}, ("hw:numa_cpus.N", NODES)),
        (spread(["0-1", "2-3", ""], ["2048", "2048", "0"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2-4"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-2", "2-3"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2-3"], ["2048", "2047"]), {}, ("hw:numa_mem.N",)),
        (spread(["0-1", "2-3"], ["-1", "4097"]), {}, ("hw:numa_mem.N",)),
        (spread(["0-1", "x"], ["2048", "2048"]), {}, ("hw:numa_cpus.1",)),
        (spread(["0-1", "2-3"], ["2G", "2048"]), {}, ("hw:numa_mem.0",)),
        (spread(["0-1"], []), spread(["0-1"], [], "hw_numa"), ("hw:numa_cpus.0", "hw_numa_cpus.0")),
        (spread([], ["1"]), spread([], ["1"], "hw_numa"), ("hw:numa_mem.0", "hw_numa_mem.0")),
    ],
)
def test_shares_that_do_not_add_up_are_refused(extra_specs, properties, named):
    number = {} if NODES in extra_specs or NAME in properties else {NODES: "2"}
    refused(lambda: nodes(number | extra_specs, properties), *named)
