# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of an instance on the NUMA cells of a host (nova 34 observed)."""

import pytest

from placement_sched.model.hardware.numa import PAGES_ANY, NetworkMetadata
from placement_sched.model.hardware.numa_fit import (
    bind_to_nodes,
    can_reach_networks,
    fit_to_host,
    in_order,
    reject_far_devices,
    reject_too_few_nodes,
    with_usage,
)
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.model.verdict import Rejection
from tests.model.hardware.pci_stats import Stats
from tests.support.numa_nodes import (
    CORES,
    THREADS,
    build_cell,
    build_cell_with_networks,
    build_host_topology,
    build_host_with_memory,
    build_instance_cell,
    build_instance_topology,
    build_instance_with_memory,
    build_limits,
    build_pages,
)

ONE_CELL = build_instance_topology(build_instance_cell(shared=[0]))
TWO_CELLS = build_instance_topology(
    build_instance_cell(0, shared=[0]), build_instance_cell(1, shared=[1])
)


def cell_ids(found):
    return found.reason if isinstance(found, Rejection) else [cell.id for cell in found]


NOWHERE = (
    "NUMA node 1 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 1024 MB "
    "requested, 512 of 512 MB in all; NUMA node 2: 1024 MB requested, 256 of 256 MB in all"
)
NOT_ALL_AT_ONCE = (
    "the NUMA nodes of the instance do not fit all at once: node 0 only on NUMA node 0; node 1 "
    "only on NUMA node 0"
)


@pytest.mark.parametrize(
    ("host", "instance", "expected"),
    [
        ([512, 512], [512, 512], [0, 1]),
        ([512, 1024], [1024, 512], [1, 0]),
        ([1024, 256, 1024, 1024], [512, 512, 512], [0, 2, 3]),
        ([512], [512, 512], "2 NUMA nodes requested, the host has 1"),
        ([512, 512, 256], [512, 1024], NOWHERE),
        ([1024, 512], [1024, 1024], NOT_ALL_AT_ONCE),
    ],
)
def test_each_cell_gets_its_own_host_cell(host, instance, expected):
    fitted = fit_to_host(build_host_with_memory(*host), build_instance_with_memory(*instance))
    assert cell_ids(fitted) == expected


def test_page_size_is_chosen_for_each_host_cell():
    host = build_host_topology(
        build_cell(0, memory=2048, mempages=build_pages((4, 524288))),
        build_cell(1, shared=[1], mempages=build_pages((2048, 512))),
    )
    (cell,) = fit_to_host(
        host,
        build_instance_topology(build_instance_cell(shared=[0], pagesize=PAGES_ANY)),
        build_limits(),
    )
    assert (cell.id, cell.pagesize) == (1, 2048)


def test_emulator_gets_its_cpu_on_the_first_node_only():
    host = build_host_topology(*(build_cell(n, pinned=range(4), siblings=CORES) for n in range(2)))
    instance = build_instance_topology(
        build_instance_cell(0, pinned=range(3)),
        build_instance_cell(1, pinned=range(3, 7)),
        emulator="isolate",
    )
    first, second = fit_to_host(host, instance, build_limits())
    assert (first.cpuset_reserved, second.cpuset_reserved) == ({3}, frozenset())
    other = build_instance_topology(
        build_instance_cell(0, pinned=range(4)),
        build_instance_cell(1, pinned=range(4, 7)),
        emulator="isolate",
    )
    assert cell_ids(fit_to_host(host, other, build_limits())) == (
        "NUMA node 0 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 4 "
        "dedicated CPUs "
        "and 1 for the emulator requested, 4 of 4 dedicated CPUs free"
    )


FAR_DEVICES = (
    "1 PCI request cannot be served near NUMA nodes with enough capacity; free devices: 2 at NUMA "
    "node 2"
)


@pytest.mark.parametrize(
    ("near_cells", "expected"), [([{0, 1}], [0, 1]), ([{1, 2}], [1, 2]), ([{0}], FAR_DEVICES)]
)
def test_chosen_nodes_are_near_devices(near_cells, expected):
    devices = Devices(Stats([(2, 2)], near_cells), ["request"])
    fitted = fit_to_host(build_host_with_memory(512, 512, 512), TWO_CELLS, build_limits(), devices)
    assert sorted(cell_ids(fitted)) == sorted(expected)


NO_NETWORKS = (
    "the NUMA nodes with enough capacity lack requested networks: a at NUMA node 0, b at NUMA node "
    "1, tunnels at NUMA node 1"
)


@pytest.mark.parametrize(
    ("physnets", "tunneled", "expected"),
    [
        ("a", False, [0]),
        ("b", False, [1]),
        ("x", False, [0]),
        ("", True, [1]),
        ("ab", True, NO_NETWORKS),
    ],
)
def test_chosen_nodes_are_near_networks(physnets, tunneled, expected):
    host = build_host_topology(
        build_cell_with_networks(0, "a"), build_cell_with_networks(1, "b", tunneled=True)
    )
    network = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    fitted = fit_to_host(host, ONE_CELL, build_limits(network_metadata=network))
    assert cell_ids(fitted) == expected


@pytest.mark.parametrize(("packing", "expected"), [(False, [1]), (True, [0])])
def test_packing_limit_decides_which_cell_is_first(packing, expected):
    host = build_host_topology(build_cell(0, shared=[0], memory_usage=1), build_cell(1, shared=[1]))
    assert cell_ids(fit_to_host(host, ONE_CELL, build_limits(packing=packing))) == expected


PINNED = build_instance_topology(build_instance_cell(pinned=[0]))


def cell_order(host, instance=ONE_CELL, devices=None, packing=False):
    return [
        cell.id for cell in in_order(build_host_topology(*host), instance, devices, packing=packing)
    ]


@pytest.mark.parametrize(
    ("host", "instance", "spread", "packed"),
    [
        ([build_cell(0, memory_usage=9), build_cell(1)], ONE_CELL, [1, 0], [0, 1]),
        ([build_cell(0, memory_usage=9, memory=2000), build_cell(1)], ONE_CELL, [0, 1], [1, 0]),
        ([build_cell(0, cpu_usage=1), build_cell(1, memory_usage=9)], ONE_CELL, [1, 0], [0, 1]),
        ([build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4])], ONE_CELL, [0, 1], [0, 1]),
        ([build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4])], PINNED, [1, 0], [0, 1]),
        (
            [build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4], pinned_cpus=[2, 3])],
            PINNED,
            [0, 1],
            [1, 0],
        ),
    ],
    ids=["memory", "amount of it", "cpus first", "unpinned", "pinned", "free ones"],
)
def test_cells_are_sorted_by_usage(host, instance, spread, packed):
    assert cell_order(host, instance) == spread
    assert cell_order(host, instance, packing=True) == packed


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize(
    ("pools", "has_requests", "expected"),
    [
        ([(0, 2)], False, [1, 0]),
        ([(1, 2)], True, [1, 0]),
        ([(0, 2), (1, 2), (1, 1)], True, [1, 0]),
        ([(None, 9), (1, 0)], True, [0, 1]),
    ],
)
def test_cells_with_devices_come_first_only_for_device_requests(
    pools, has_requests, expected, packing
):
    devices = Devices(Stats(pools), ["request"] if has_requests else [])
    assert cell_order([build_cell(0), build_cell(1)], ONE_CELL, devices, packing) == expected


def test_order_is_unchanged_if_each_cell_is_needed():
    host = [build_cell(0, memory_usage=9), build_cell(1)]
    assert cell_order(host, TWO_CELLS, Devices(Stats([(1, 2)]), ["request"])) == [0, 1]


NETWORKS = build_host_topology(
    build_cell_with_networks(0, "a"),
    build_cell_with_networks(1, "b", tunneled=True),
    build_cell_with_networks(2, "a", "b"),
)
PLAIN = build_host_topology(build_cell_with_networks(0), build_cell_with_networks(1))


@pytest.mark.parametrize(
    ("physnets", "tunneled", "cell_ids", "is_reachable"),
    [
        ("a", False, [0], True),
        ("ab", False, [0, 1], True),
        ("ab", False, [2], True),
        ("", True, [1], True),
        ("a", True, [2], False),
        ("a", True, [1, 2], True),
    ],
)
def test_chosen_cells_reach_all_networks(physnets, tunneled, cell_ids, is_reachable):
    networks = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    assert bind_to_nodes(NETWORKS, networks) == networks
    assert can_reach_networks([NETWORKS.cells[node] for node in cell_ids], networks) is is_reachable


def test_networks_without_a_cell_are_ignored():
    networks = NetworkMetadata(physnets=frozenset("ax"), tunneled=True)
    assert bind_to_nodes(PLAIN, networks) == NetworkMetadata()
    assert bind_to_nodes(NETWORKS, networks).physnets == {"a"}
    assert bind_to_nodes(NETWORKS, None) == NetworkMetadata()


USED_PAGES = build_pages((4, 262144, 5), (2048, 512, 7))


def usage_of_cells(host, instance):
    """Return shared CPUs, memory, pinned CPUs and pages in use for each cell."""
    topology = with_usage(host, fit_to_host(host, instance, build_limits(cpu=4.0)))
    return [
        (
            cell.cpu_usage,
            cell.memory_usage,
            sorted(cell.pinned_cpus),
            [page.used for page in cell.mempages],
        )
        for cell in topology.cells
    ]


@pytest.mark.parametrize(
    ("cell", "emulator", "expected"),
    [
        ({"shared": [3]}, None, (1, 512, [], [131077, 7])),
        ({"shared": [3], "pagesize": -1}, None, (1, 512, [], [131077, 7])),
        ({"shared": [3], "pagesize": 2048}, None, (1, 512, [], [5, 263])),
        ({"pinned": [0, 1, 2]}, None, (0, 512, [0, 1, 4], [131077, 7])),
        ({"pinned": [0, 1, 2]}, "isolate", (0, 512, [0, 1, 4, 5], [131077, 7])),
        ({"shared": [3], "pinned": [0, 1, 2]}, "share", (1, 512, [0, 1, 4], [131077, 7])),
    ],
    ids=["shared", "small pages", "huge pages", "pinned", "emulator", "mixed"],
)
def test_usage_includes_memory_pages_and_cpus(cell, emulator, expected):
    host = build_host_topology(
        build_cell(shared=[8, 9], pinned=range(8), siblings=THREADS, mempages=USED_PAGES)
    )
    instance = build_instance_topology(build_instance_cell(**cell), emulator=emulator)
    assert usage_of_cells(host, instance) == [expected]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (build_cell(pinned=range(4), siblings=CORES), [0, 1]),
        (build_cell(shared=range(8), pinned=range(8), siblings=THREADS), [0, 1, 4, 5]),
    ],
    ids=["cores of one thread", "a host of former days"],
)
def test_isolated_cpus_take_their_cores(host, expected):
    instance = build_instance_topology(
        build_instance_cell(pinned=[0, 1], cpu_thread_policy="isolate")
    )
    assert usage_of_cells(build_host_topology(host), instance) == [(0, 512, expected, [])]


def test_other_cells_and_the_original_topology_are_unchanged():
    host = build_host_topology(
        build_cell(0, shared=[0], memory_usage=9, mempages=USED_PAGES), build_cell(1, shared=[1])
    )
    before = repr(host)
    first, second = usage_of_cells(host, ONE_CELL)
    assert first == (0, 9, [], [5, 7])
    assert second == (1, 512, [], [])
    assert repr(host) == before


def test_rejections_have_requested_and_free_amounts_and_devices():
    rejection = reject_too_few_nodes(
        build_host_topology(build_cell()),
        build_instance_topology(build_instance_cell(0), build_instance_cell(1)),
    )
    assert (rejection.asked, rejection.has) == (2, 1)
    assert reject_far_devices({}, 2).reason == (
        "2 PCI requests cannot be served near NUMA nodes with enough capacity; free devices: none "
        "at any node"
    )
