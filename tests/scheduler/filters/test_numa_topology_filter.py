# SPDX-License-Identifier: Apache-2.0
"""Host filter by NUMA topology, as nova 34 decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.numa import NetworkMetadata, NUMATopology, NUMATopologyLimits
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.filters.numa_topology_filter import NUMATopologyFilter
from placement_sched.schemas.node_report import parse_numa_topology
from tests.model.hardware.numa_nodes import (
    CORES,
    THREAD_PAIRS,
    build_cell,
    build_cell_with_networks,
)
from tests.support.states import build_host_state, build_settings, build_spec, find_rejection

ONE_NUMA_NODE = {"cells": [{"cpuset": [0], "memory": 512}]}
TWO_NUMA_NODES = {"cells": [{"cpuset": [0], "memory": 512}, {"cpuset": [1], "memory": 512}]}
CELL_PACKING_OPTION = "compute__packing_host_numa_cells_allocation_strategy"


def build_host_with_cells(*cells, **attributes):
    return build_host_state(numa_topology=NUMATopology(cells), **attributes)


def find_filter_rejection(host, spec, **options):
    plugin = NUMATopologyFilter.with_settings(build_settings(**options))
    return find_rejection(plugin, host, spec)


@pytest.mark.parametrize(
    ("topology", "request_spec", "reason"),
    [
        (None, None, None),
        ([], None, None),
        ([build_cell(shared=[0])], None, None),
        (None, ONE_NUMA_NODE, "1 NUMA node requested, the host reports no NUMA topology"),
        ([], TWO_NUMA_NODES, "2 NUMA nodes requested, the host reports no NUMA topology"),
        ([build_cell(shared=[0])], ONE_NUMA_NODE, None),
        ([build_cell(shared=[0])], TWO_NUMA_NODES, "2 NUMA nodes requested, the host has 1"),
        ([build_cell(0, shared=[0]), build_cell(1, shared=[1])], TWO_NUMA_NODES, None),
        (
            [build_cell(shared=[])],
            ONE_NUMA_NODE,
            ("NUMA node 0 of the instance fits on no NUMA node of the host: NUMA node 0: 1 shared "
             "CPUs requested, 0 in all"),
        ),
    ],
)  # fmt: skip
def test_host_needs_enough_numa_nodes(topology, request_spec, reason):
    host = build_host_state(numa_topology=None if topology is None else NUMATopology(topology))
    assert find_filter_rejection(host, build_spec(numa_topology=request_spec)) == reason


def test_passing_hosts_have_numa_topology_limits():
    host = build_host_with_cells(
        build_cell(shared=[0]), cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5
    )
    assert find_filter_rejection(host, build_spec(numa_topology=TWO_NUMA_NODES)) is not None
    assert host.limits == {}
    assert find_filter_rejection(host, build_spec(numa_topology=ONE_NUMA_NODE)) is None
    assert host.limits == {
        "numa_topology": NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5)
    }


def test_host_without_a_ratio_uses_the_configured_ratio():
    host = build_host_with_cells(build_cell(shared=[0], cpu_usage=2), cpu_allocation_ratio=None)
    spec = build_spec(numa_topology=ONE_NUMA_NODE)
    assert find_filter_rejection(host, spec, DEFAULT__cpu_allocation_ratio=3.0) is None
    assert find_filter_rejection(host, spec, DEFAULT__cpu_allocation_ratio=2.0).endswith(
        "0 free of 1 x 2"
    )
    assert find_filter_rejection(host, spec) is None  # initial_cpu_allocation_ratio is 4.0


@pytest.mark.parametrize(
    ("extra_specs", "properties", "is_required"),
    [
        ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, {}, True),
        ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_thread_policy": "require"}, True),
        ({}, {"hw_cpu_policy": "dedicated", "hw_cpu_thread_policy": "require"}, True),
        ({"hw:cpu_thread_policy": "require"}, {}, False),
        ({"hw:cpu_policy": "mixed", "hw:cpu_thread_policy": "require"}, {}, False),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}, {}, False),
    ],
)
def test_thread_policy_requires_threads_on_any_numa_node(extra_specs, properties, is_required):
    spec = build_spec(extra_specs, properties, numa_topology=None)
    plain = build_host_with_cells(build_cell(siblings=CORES))
    reason = "thread policy require requested, no core of the host has several threads"
    assert find_filter_rejection(plain, spec) == (reason if is_required else None)
    assert (
        find_filter_rejection(
            build_host_with_cells(
                build_cell(0, siblings=CORES), build_cell(1, siblings=THREAD_PAIRS)
            ),
            spec,
        )
        is None
    )
    assert find_filter_rejection(build_host_state(), spec) is None


@pytest.mark.parametrize("packing", [False, True])
def test_packing_option_decides_if_instances_spread_over_numa_nodes(packing):
    host = build_host_with_cells(
        build_cell(0, shared=[0], memory_usage=1), build_cell(1, shared=[1])
    )
    spec = build_spec(numa_topology=ONE_NUMA_NODE)
    assert find_filter_rejection(host, spec, **{CELL_PACKING_OPTION: packing}) is None
    host.consume_from_request(spec)
    used = [cell.memory_usage for cell in host.numa_topology.cells]
    assert used == ([513, 0] if packing else [1, 512])


@pytest.mark.parametrize(
    "network",
    [{"physnets": ["b"]}, NetworkMetadata(physnets=frozenset("b"))],
    ids=["JSON document", "NetworkMetadata"],
)
def test_chosen_numa_nodes_are_near_the_networks(network):
    host = build_host_with_cells(build_cell_with_networks(0, "a"), build_cell_with_networks(1, "b"))
    spec = build_spec(numa_topology=ONE_NUMA_NODE, network_metadata=network)
    assert find_filter_rejection(host, spec) is None
    host.consume_from_request(spec)
    assert [cell.cpu_usage for cell in host.numa_topology.cells] == [0, 1]


PCI_CARD = {"vendor_id": "8086", "product_id": "1520"}
#: A device of each of two providers. The name of a provider is the NUMA node of its device.
PCI_POOLS = [{**PCI_CARD, "numa_node": node, "count": 1, "rp_uuid": str(node)} for node in (0, 1)]


def build_pci_candidates(*providers):
    return [{"allocations": {}, "mappings": {"pci-0": [provider]}} for provider in providers]


ONE_PCI_DEVICE_REQUEST = {
    "requests": [{"count": 1, "alias_name": "nic", "request_id": "pci", "spec": [PCI_CARD]}]
}


def test_candidates_with_devices_at_unchosen_numa_nodes_are_removed():
    host = build_host_with_cells(
        build_cell(0, shared=[0]), build_cell(1), pci_stats=PciPools.from_report(PCI_POOLS)
    )
    request = build_spec(numa_topology=ONE_NUMA_NODE, pci_requests=ONE_PCI_DEVICE_REQUEST)
    host.allocation_candidates = build_pci_candidates("1", "0", "1", "0")
    assert find_filter_rejection(host, request) is None
    assert host.allocation_candidates == build_pci_candidates("0", "0")
    host.allocation_candidates = build_pci_candidates("1")
    assert (
        find_filter_rejection(
            host, build_spec(numa_topology=ONE_NUMA_NODE, pci_requests={"requests": []})
        )
        is None
    )
    assert describe_rejection(NUMATopologyFilter().rejection(host, request)) == (
        "1 PCI request cannot be served near NUMA nodes with enough capacity. "
        "Free devices: 1 at NUMA node 0, 1 at NUMA node 1"
    )
    assert host.allocation_candidates == build_pci_candidates("1")
    host.allocation_candidates = []
    assert find_filter_rejection(host, request) == "no allocation candidate remains"


NUMA_TOPOLOGY_FILTER = NUMATopologyFilter.with_settings(build_settings())
CPU_LISTS = st.lists(st.integers(0, 9), max_size=6)
REPORTED_CELL_AMOUNTS = st.sampled_from([0, 1, 512, 2**31 - 1])
#: Any topology that the schema of a report accepts.
REPORTED_NUMA_CELLS = st.fixed_dictionaries(
    {
        "cpuset": CPU_LISTS,
        "pcpuset": CPU_LISTS,
        "memory": REPORTED_CELL_AMOUNTS,
        "cpu_usage": REPORTED_CELL_AMOUNTS,
        "memory_usage": REPORTED_CELL_AMOUNTS,
        "pinned_cpus": st.lists(st.integers(0, 20), max_size=5),
        "siblings": st.lists(CPU_LISTS, max_size=4),
        "mempages": st.lists(
            st.fixed_dictionaries(
                {
                    "size_kb": st.sampled_from([1, 3, 4, 2048, 2**31 - 1]),
                    "total": REPORTED_CELL_AMOUNTS,
                    "used": REPORTED_CELL_AMOUNTS,
                    "reserved": REPORTED_CELL_AMOUNTS,
                }
            ),
            max_size=3,
        ),
    }
)
REQUESTED_NUMA_CELLS = st.fixed_dictionaries(
    {
        "cpuset": CPU_LISTS,
        "pcpuset": st.none() | CPU_LISTS,
        "memory": st.sampled_from([0, 1, 512]),
        "pagesize": st.sampled_from([None, 0, -1, -2, -3, 3, 4]),
        "cpu_policy": st.sampled_from([None, "dedicated", "mixed", "shared"]),
        "cpu_thread_policy": st.sampled_from([None, "prefer", "isolate", "require"]),
    }
)


@given(
    cells=st.lists(REPORTED_NUMA_CELLS, max_size=3),
    requested=st.lists(REQUESTED_NUMA_CELLS, min_size=1, max_size=3),
    emulator=st.sampled_from([None, "isolate", "share"]),
    ratio=st.sampled_from([None, 0.0, 1e-9, 1.0, 1e30]),
)
def test_numa_topology_filter_raises_no_error_for_random_topologies(
    cells, requested, emulator, ratio
):
    numbered = [{"id": number, **cell} for number, cell in enumerate(cells)]
    host = build_host_state(
        numa_topology=parse_numa_topology({"cells": numbered}).topology, cpu_allocation_ratio=ratio
    )
    spec = build_spec(numa_topology={"cells": requested, "emulator_threads_policy": emulator})
    for _ in range(2):
        if NUMA_TOPOLOGY_FILTER.rejection(host, spec) is None:
            host.consume_from_request(spec)
