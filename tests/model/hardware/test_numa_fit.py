# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of an instance on the NUMA cells of a host (nova 34 observed)."""

import pytest

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.numa import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    FittedNUMACell,
    NetworkMetadata,
)
from placement_sched.model.hardware.numa_fit import (
    PinnedCPUs,
    bind_to_nodes,
    can_reach_networks,
    choose_pages,
    find_memory_shortage,
    find_plain_memory_shortage,
    find_shared_cpu_shortage,
    find_smallest_page,
    fit_cell,
    fit_to_host,
    pin_cell,
    reject_far_devices,
    sort_cells,
    with_usage,
)
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.model.rejection import Rejection
from tests.model.hardware.numa_nodes import (
    CORES,
    THREAD_PAIRS,
    build_cell,
    build_cell_with_networks,
    build_host_topology,
    build_host_with_memory,
    build_instance_cell,
    build_instance_topology,
    build_instance_with_memory,
    build_numa_limits,
    build_pages,
)
from tests.model.hardware.pci_stats import FakePciStats

ONE_CELL = build_instance_topology(build_instance_cell(shared=[0]))
TWO_CELLS = build_instance_topology(
    build_instance_cell(0, shared=[0]), build_instance_cell(1, shared=[1])
)


def describe(result):
    """Return the reason of a rejection, and any other result unchanged."""
    return describe_rejection(result) if isinstance(result, Rejection) else result


def list_cell_ids_or_reason(result):
    return describe(result) if isinstance(result, Rejection) else [cell.id for cell in result]


NO_FITTING_NODE_REASON = (
    "NUMA node 1 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 1024 MB "
    "requested, 512 of 512 MB in all; NUMA node 2: 1024 MB requested, 256 of 256 MB in all"
)
NODES_NOT_TOGETHER_REASON = (
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
        ([512, 512, 256], [512, 1024], NO_FITTING_NODE_REASON),
        ([1024, 512], [1024, 1024], NODES_NOT_TOGETHER_REASON),
    ],
)
def test_each_instance_cell_gets_its_own_host_cell(host, instance, expected):
    fitted = fit_to_host(build_host_with_memory(*host), build_instance_with_memory(*instance))
    assert list_cell_ids_or_reason(fitted) == expected


def test_page_size_is_chosen_for_each_host_cell():
    host = build_host_topology(
        build_cell(0, memory=2048, mempages=build_pages((4, 524288))),
        build_cell(1, shared=[1], mempages=build_pages((2048, 512))),
    )
    (cell,) = fit_to_host(
        host,
        build_instance_topology(build_instance_cell(shared=[0], pagesize=PAGES_ANY)),
        build_numa_limits(),
    )
    assert (cell.id, cell.pagesize) == (1, 2048)


def test_emulator_threads_get_a_cpu_on_the_first_numa_node_only():
    host = build_host_topology(*(build_cell(n, pinned=range(4), siblings=CORES) for n in range(2)))
    instance = build_instance_topology(
        build_instance_cell(0, pinned=range(3)),
        build_instance_cell(1, pinned=range(3, 7)),
        emulator="isolate",
    )
    first, second = fit_to_host(host, instance, build_numa_limits())
    assert (first.cpuset_reserved, second.cpuset_reserved) == ({3}, frozenset())
    other = build_instance_topology(
        build_instance_cell(0, pinned=range(4)),
        build_instance_cell(1, pinned=range(4, 7)),
        emulator="isolate",
    )
    assert list_cell_ids_or_reason(fit_to_host(host, other, build_numa_limits())) == (
        "NUMA node 0 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 4 "
        "dedicated CPUs "
        "and 1 for the emulator requested, 4 of 4 dedicated CPUs free"
    )


FAR_DEVICES_REASON = (
    "1 PCI request cannot be served near NUMA nodes with enough capacity. Free devices: 2 at NUMA "
    "node 2"
)


@pytest.mark.parametrize(
    ("near_cells", "expected"),
    [([{0, 1}], [0, 1]), ([{1, 2}], [1, 2]), ([{0}], FAR_DEVICES_REASON)],
)
def test_chosen_host_numa_nodes_are_near_pci_devices(near_cells, expected):
    devices = Devices(FakePciStats([(2, 2)], near_cells), ["request"])
    fitted = fit_to_host(
        build_host_with_memory(512, 512, 512), TWO_CELLS, build_numa_limits(), devices
    )
    assert sorted(list_cell_ids_or_reason(fitted)) == sorted(expected)


NO_NETWORKS_REASON = (
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
        ("ab", True, NO_NETWORKS_REASON),
    ],
)
def test_chosen_host_numa_nodes_are_near_physical_networks(physnets, tunneled, expected):
    host = build_host_topology(
        build_cell_with_networks(0, "a"), build_cell_with_networks(1, "b", tunneled=True)
    )
    network = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    fitted = fit_to_host(host, ONE_CELL, build_numa_limits(network_metadata=network))
    assert list_cell_ids_or_reason(fitted) == expected


@pytest.mark.parametrize(("packing", "expected"), [(False, [1]), (True, [0])])
def test_packing_limit_decides_which_host_cell_is_first(packing, expected):
    host = build_host_topology(build_cell(0, shared=[0], memory_usage=1), build_cell(1, shared=[1]))
    assert (
        list_cell_ids_or_reason(fit_to_host(host, ONE_CELL, build_numa_limits(packing=packing)))
        == expected
    )


PINNED_CELL = build_instance_topology(build_instance_cell(pinned=[0]))


def list_sorted_cell_ids(host, instance=ONE_CELL, devices=None, packing=False):
    return [
        cell.id
        for cell in sort_cells(build_host_topology(*host), instance, devices, packing=packing)
    ]


@pytest.mark.parametrize(
    ("host", "instance", "spread", "packed"),
    [
        ([build_cell(0, memory_usage=9), build_cell(1)], ONE_CELL, [1, 0], [0, 1]),
        ([build_cell(0, memory_usage=9, memory=2000), build_cell(1)], ONE_CELL, [0, 1], [1, 0]),
        ([build_cell(0, cpu_usage=1), build_cell(1, memory_usage=9)], ONE_CELL, [1, 0], [0, 1]),
        ([build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4])], ONE_CELL, [0, 1], [0, 1]),
        (
            [build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4])],
            PINNED_CELL,
            [1, 0],
            [0, 1],
        ),
        (
            [build_cell(0, pinned=[0, 1]), build_cell(1, pinned=[2, 3, 4], pinned_cpus=[2, 3])],
            PINNED_CELL,
            [0, 1],
            [1, 0],
        ),
    ],
    ids=["used memory", "free memory", "used cpus", "shared", "pinned", "free pinned"],
)
def test_host_cells_are_sorted_by_usage(host, instance, spread, packed):
    assert list_sorted_cell_ids(host, instance) == spread
    assert list_sorted_cell_ids(host, instance, packing=True) == packed


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
def test_cells_with_pci_devices_come_first_for_pci_requests(pools, has_requests, expected, packing):
    devices = Devices(FakePciStats(pools), ["request"] if has_requests else [])
    assert (
        list_sorted_cell_ids([build_cell(0), build_cell(1)], ONE_CELL, devices, packing) == expected
    )


def test_order_of_host_cells_is_unchanged_if_all_are_needed():
    host = [build_cell(0, memory_usage=9), build_cell(1)]
    assert list_sorted_cell_ids(host, TWO_CELLS, Devices(FakePciStats([(1, 2)]), ["request"])) == [
        0,
        1,
    ]


HOST_WITH_NETWORKS = build_host_topology(
    build_cell_with_networks(0, "a"),
    build_cell_with_networks(1, "b", tunneled=True),
    build_cell_with_networks(2, "a", "b"),
)
HOST_WITHOUT_NETWORKS = build_host_topology(
    build_cell_with_networks(0), build_cell_with_networks(1)
)


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
def test_chosen_host_cells_reach_all_requested_networks(physnets, tunneled, cell_ids, is_reachable):
    networks = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    assert bind_to_nodes(HOST_WITH_NETWORKS, networks) == networks
    assert (
        can_reach_networks([HOST_WITH_NETWORKS.cells[node] for node in cell_ids], networks)
        is is_reachable
    )


def test_requested_networks_without_a_host_cell_are_ignored():
    networks = NetworkMetadata(physnets=frozenset("ax"), tunneled=True)
    assert bind_to_nodes(HOST_WITHOUT_NETWORKS, networks) == NetworkMetadata()
    assert bind_to_nodes(HOST_WITH_NETWORKS, networks).physnets == {"a"}
    assert bind_to_nodes(HOST_WITH_NETWORKS, None) == NetworkMetadata()


USED_PAGES = build_pages((4, 262144, 5), (2048, 512, 7))


def list_cell_usage(host, instance):
    """Return shared CPUs, memory, pinned CPUs and pages in use for each cell."""
    topology = with_usage(host, fit_to_host(host, instance, build_numa_limits(cpu=4.0)))
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
def test_usage_of_a_host_cell_includes_memory_pages_and_cpus(cell, emulator, expected):
    host = build_host_topology(
        build_cell(shared=[8, 9], pinned=range(8), siblings=THREAD_PAIRS, mempages=USED_PAGES)
    )
    instance = build_instance_topology(build_instance_cell(**cell), emulator=emulator)
    assert list_cell_usage(host, instance) == [expected]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (build_cell(pinned=range(4), siblings=CORES), [0, 1]),
        (build_cell(shared=range(8), pinned=range(8), siblings=THREAD_PAIRS), [0, 1, 4, 5]),
    ],
    ids=["cores of one thread", "host of Stein"],
)
def test_isolated_cpus_use_their_whole_cores(host, expected):
    instance = build_instance_topology(
        build_instance_cell(pinned=[0, 1], cpu_thread_policy="isolate")
    )
    assert list_cell_usage(build_host_topology(host), instance) == [(0, 512, expected, [])]


def test_usage_is_added_only_to_the_used_cells_of_a_new_topology():
    host = build_host_topology(
        build_cell(0, shared=[0], memory_usage=9, mempages=USED_PAGES), build_cell(1, shared=[1])
    )
    before = repr(host)
    first, second = list_cell_usage(host, ONE_CELL)
    assert first == (0, 9, [], [5, 7])
    assert second == (1, 512, [], [])
    assert repr(host) == before


def test_numa_rejections_have_requested_and_free_amounts():
    rejection = fit_to_host(
        build_host_topology(build_cell()),
        build_instance_topology(build_instance_cell(0), build_instance_cell(1)),
    )
    assert rejection.as_json() == {
        "kind": "numa_topology",
        "cause": "nodes",
        "requested": 2,
        "actual": 1,
    }
    rejection = fit_to_host(build_host_with_memory(512, 256), build_instance_with_memory(1024))
    assert rejection.as_json() == {
        "kind": "numa_topology",
        "cause": "node",
        "instance_node": 0,
        "parts": [
            {
                "kind": "numa_topology",
                "cause": "memory",
                "host_nodes": [node],
                "requested": 1024,
                "total": total,
            }
            for node, total in enumerate((512, 256))
        ],
    }
    assert describe(reject_far_devices({}, 2)) == (
        "2 PCI requests cannot be served near NUMA nodes with enough capacity. Free devices: none "
        "at any node"
    )


HOST_CELL = build_cell(
    7,
    shared=[8, 9],
    pinned=range(4),
    siblings=CORES,
    mempages=build_pages((4, 262144), (2048, 512)),
)


def test_fitted_instance_cell_has_host_cpus_and_pages():
    node = build_instance_cell(
        3, shared=[1], pinned=[0, 2], pagesize=PAGES_ANY, cpu_thread_policy="prefer"
    )
    assert fit_cell(HOST_CELL, node, build_numa_limits(), reserved=1) == FittedNUMACell(
        id=7,
        cpuset=frozenset({1}),
        pcpuset=frozenset({0, 2}),
        memory=512,
        pagesize=2048,
        cpu_policy="mixed",
        cpu_thread_policy="prefer",
        cpu_pinning={0: 0, 2: 1},
        cpuset_reserved=frozenset({2}),
    )


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (build_instance_cell(memory=1025), "1025 MB requested, 1024 MB free of 1024 x 1"),
        (
            build_instance_cell(pinned=[0], memory=1025),
            "1025 MB requested, 1024 MB in 262144 of 262144 pages of 4 KiB free",
        ),
        (build_instance_cell(pagesize=8), "pages of 8 KiB requested, the node has none"),
        (build_instance_cell(shared=range(3)), "3 shared CPUs requested, 2 in all"),
        (build_instance_cell(shared=range(3), pinned=[9]), "3 shared CPUs requested, 2 in all"),
        (
            build_instance_cell(pinned=range(5)),
            "5 dedicated CPUs requested, 4 of 4 dedicated CPUs free",
        ),
    ],
    ids=["memory", "memory beside pinned", "pages", "shared", "mixed", "dedicated"],
)
def test_reason_of_a_numa_rejection_names_the_missing_resource(node, reason):
    assert describe(fit_cell(HOST_CELL, node, build_numa_limits())) == reason


def test_dedicated_cpus_do_not_count_as_shared_cpus():
    node = build_instance_cell(shared=range(9), pinned=[9], cpu_policy="dedicated")
    assert isinstance(fit_cell(HOST_CELL, node, build_numa_limits()), FittedNUMACell)
    unpinned = build_instance_cell(shared=[0], pinned=range(1, 9), cpu_policy="shared")
    assert isinstance(fit_cell(HOST_CELL, unpinned, build_numa_limits()), FittedNUMACell)


@pytest.mark.parametrize("pagesize", [None, 0])
def test_page_size_of_a_cell_is_unchanged_if_none_is_requested(pagesize):
    assert (
        fit_cell(HOST_CELL, build_instance_cell(shared=[0], pagesize=pagesize)).pagesize == pagesize
    )


SMALL_PAGE_KB, LARGE_PAGE_KB, HUGE_PAGE_KB = 4, 2048, 1048576
PAGES_OF_ALL_SIZES = build_pages((SMALL_PAGE_KB, 262144), (LARGE_PAGE_KB, 512), (HUGE_PAGE_KB, 1))


@pytest.mark.parametrize(
    ("used", "ratio", "memory", "shortage"),
    [
        (0, 1.0, 1024, None),
        (512, 1.0, 513, "513 MB requested, 512 MB free of 1024 x 1"),
        (512, 1.5, 1025, "1025 MB requested, 1024 MB free of 1024 x 1.5"),
        (0, 0.5, 513, "513 MB requested, 512 MB free of 1024 x 0.5"),
    ],
)
def test_allocation_ratio_applies_to_memory(used, ratio, memory, shortage):
    host = build_cell(memory_usage=used)
    cell = build_instance_cell(memory=memory)
    assert describe(find_memory_shortage(host, cell, build_numa_limits(ram=ratio))) == shortage
    assert find_memory_shortage(host, cell, None) is None


def test_allocation_ratio_does_not_apply_to_dedicated_cpus():
    host = build_cell(memory_usage=1024)
    assert (
        find_memory_shortage(host, build_instance_cell(pinned=[0]), build_numa_limits(ram=0.5))
        is None
    )
    mixed = build_instance_cell(shared=[1], pinned=[0])
    assert find_memory_shortage(host, mixed, build_numa_limits()) is not None


@pytest.mark.parametrize(
    ("host", "memory", "floating", "pinned"),
    [
        ({}, 1024, None, None),
        (
            {},
            1025,
            "1025 MB requested, 1024 of 1024 MB in all",
            "1025 MB requested, 1024 of 1024 MB free",
        ),
        ({"memory_usage": 600}, 512, None, "512 MB requested, 424 of 1024 MB free"),
        ({"mempages": build_pages((SMALL_PAGE_KB, 262144))}, 1024, None, None),
        (
            {"mempages": build_pages((SMALL_PAGE_KB, 131072, 0, 1))},
            512,
            None,
            "512 MB requested, 511 MB in 131071 of 131072 pages of 4 KiB free",
        ),
        (
            {"mempages": build_pages((LARGE_PAGE_KB, 512), (SMALL_PAGE_KB, 131071))},
            512,
            "512 MB requested, 511 MB in 131071 of 131071 pages of 4 KiB in all",
            "512 MB requested, 511 MB in 131071 of 131071 pages of 4 KiB free",
        ),
        # Only the node's pages count, not the memory that it has in all.
        ({"memory": 256, "mempages": build_pages((SMALL_PAGE_KB, 262144))}, 1024, None, None),
    ],
    ids=[
        "all", "too much", "in use", "all pages", "reserved page", "few pages", "more pages",
    ],
)  # fmt: skip
def test_memory_without_a_page_size_uses_the_smallest_pages(host, memory, floating, pinned):
    cell = build_cell(**host)
    plain, with_pinned_cpus = (
        find_plain_memory_shortage(cell, build_instance_cell(memory=memory, pinned=cpus))
        for cpus in ([], [0])
    )
    assert (describe(plain), describe(with_pinned_cpus)) == (floating, pinned)


@pytest.mark.parametrize(
    ("size", "host_pages", "expected"),
    [
        (LARGE_PAGE_KB, PAGES_OF_ALL_SIZES, LARGE_PAGE_KB),
        (PAGES_SMALL, PAGES_OF_ALL_SIZES, SMALL_PAGE_KB),
        (PAGES_LARGE, PAGES_OF_ALL_SIZES, LARGE_PAGE_KB),
        (PAGES_ANY, PAGES_OF_ALL_SIZES, LARGE_PAGE_KB),
        (PAGES_ANY, build_pages((SMALL_PAGE_KB, 262144), (LARGE_PAGE_KB, 512, 512)), SMALL_PAGE_KB),
        (PAGES_ANY, build_pages((LARGE_PAGE_KB, 512)), LARGE_PAGE_KB),
        (
            PAGES_LARGE,
            build_pages((LARGE_PAGE_KB, 512)),
            "large pages requested, the node has none",
        ),
        (8, PAGES_OF_ALL_SIZES, "pages of 8 KiB requested, the node has none"),
        (
            LARGE_PAGE_KB,
            build_pages((LARGE_PAGE_KB, 512, 200, 57)),
            "512 MB in pages of 2048 KiB requested, 510 MB in 255 of 512 pages of 2048 KiB free",
        ),
        (
            PAGES_LARGE,
            build_pages((SMALL_PAGE_KB, 262144), (LARGE_PAGE_KB, 9, 9)),
            "512 MB in large pages requested, 0 MB in 0 of 9 pages of 2048 KiB free",
        ),
        (
            PAGES_SMALL,
            build_pages((SMALL_PAGE_KB, 100), (LARGE_PAGE_KB, 512)),
            "512 MB in small pages requested, 0 MB in 100 of 100 pages of 4 KiB free",
        ),
    ],
)  # fmt: skip
def test_largest_memory_pages_with_enough_free_memory_are_chosen(size, host_pages, expected):
    host = build_cell(mempages=host_pages)
    assert describe(choose_pages(host, build_instance_cell(pagesize=size))) == expected


def test_smallest_page_size_of_a_host_cell_is_found():
    assert (
        find_smallest_page(build_cell(mempages=build_pages((LARGE_PAGE_KB, 1), (SMALL_PAGE_KB, 1))))
        == SMALL_PAGE_KB
    )
    assert find_smallest_page(build_cell()) is None
    for policy in (None, "shared"):
        fitted = fit_cell(build_cell(), build_instance_cell(cpu_policy=policy), build_numa_limits())
        assert isinstance(fitted, FittedNUMACell)


def pin_cpus(host, count, policy=None, reserved=0):
    node = build_instance_cell(pinned=range(count), cpu_thread_policy=policy)
    result = pin_cell(host, node, reserved)
    if isinstance(result, PinnedCPUs):
        assert sorted(result.cpus) == list(range(count))
        return [result.cpus[cpu] for cpu in range(count)], sorted(result.reserved)
    return describe(result)


def build_host_with_threads(*pinned):
    return build_cell(pinned=range(8), siblings=THREAD_PAIRS, pinned_cpus=pinned)


def build_host_of_stein_release(*pinned):
    """Return a node as before Train: the same CPUs for sharing and for pinning."""
    return build_cell(shared=range(8), pinned=range(8), siblings=THREAD_PAIRS, pinned_cpus=pinned)


@pytest.mark.parametrize(
    ("pinned", "count", "cpus"),
    [
        ([], 1, [0]),
        ([], 3, [0, 4, 1]),
        ([0], 2, [1, 5]),
        ([0, 1], 5, [4, 5, 2, 6, 3]),
        ([0, 1, 2], 3, [4, 5, 6]),
        ([4, 2, 3], 4, [0, 1, 6, 7]),
    ],
)
@pytest.mark.parametrize("policy", [None, "prefer"])
def test_free_threads_of_whole_cores_are_pinned_first(pinned, count, cpus, policy):
    assert pin_cpus(build_host_with_threads(*pinned), count, policy) == (cpus, [])


@pytest.mark.parametrize(
    ("pinned", "count", "expected"),
    [
        ([], 3, ([0, 4, 1], [])),
        ([0, 1], 4, ([2, 6, 3, 7], [])),
        ([0, 1], 5, "5 dedicated CPUs on sibling threads requested, 4 free"),
        ([0], 8, "8 dedicated CPUs requested, 7 of 8 dedicated CPUs free"),
    ],
)
def test_required_siblings_are_taken_from_free_cores(pinned, count, expected):
    assert pin_cpus(build_host_with_threads(*pinned), count, "require") == expected


@pytest.mark.parametrize("policy", [None, "prefer", "isolate"])
def test_cores_of_one_thread_are_pinned_in_order(policy):
    host = build_cell(pinned=range(4), siblings=CORES, pinned_cpus=[1])
    assert pin_cpus(host, 3, policy) == ([0, 2, 3], [])
    assert pin_cpus(host, 4, policy) == "4 dedicated CPUs requested, 3 of 4 dedicated CPUs free"


def test_require_and_isolate_policies_are_rejected_by_unfit_cores():
    host = build_cell(pinned=range(4), siblings=CORES)
    assert pin_cpus(host, 1, "require") == "1 dedicated CPUs on sibling threads requested, 0 free"
    reason = "thread policy isolate requested, cores have several threads"
    assert pin_cpus(build_host_with_threads(), 1, "isolate") == reason


@pytest.mark.parametrize(
    ("pinned", "count", "reserved", "expected"),
    [
        ([0], 2, 0, ([1, 2], [])),
        ([0, 1], 3, 0, "3 dedicated CPUs on separate cores requested, 2 cores free"),
        ([], 1, 1, ([0], [1])),
        ([0], 1, 1, ([1], [4])),
        ([], 4, 1, "1 dedicated CPUs for the emulator requested, 0 free"),
    ],
)
def test_isolate_policy_leaves_siblings_idle_on_stein_hosts(pinned, count, reserved, expected):
    assert pin_cpus(build_host_of_stein_release(*pinned), count, "isolate", reserved) == expected


@pytest.mark.parametrize(
    ("pinned", "count", "expected"),
    [
        ([], 2, ([0, 4], [1])),
        ([0, 1], 4, ([2, 6, 3, 7], [4])),
        ([], 7, ([0, 4, 1, 5, 2, 6, 3], [7])),
        ([], 8, "8 dedicated CPUs and 1 for the emulator requested, 8 of 8 dedicated CPUs free"),
    ],
)
def test_emulator_threads_get_a_free_cpu(pinned, count, expected):
    assert pin_cpus(build_host_with_threads(*pinned), count, None, reserved=1) == expected


def test_only_cpus_of_reported_cores_are_pinned():
    host = build_cell(pinned=range(4), siblings=CORES[:2])
    assert pin_cpus(host, 2) == ([0, 1], [])
    assert pin_cpus(host, 3) == "3 dedicated CPUs on reported cores requested, 2 free"
    assert pin_cpus(host, 2, reserved=1) == "1 dedicated CPUs for the emulator requested, 0 free"
    assert pin_cpus(build_cell(pinned=[7, 3, 5], pinned_cpus=[3]), 2) == ([5, 7], [])


@pytest.mark.parametrize(
    ("policy", "reserved", "fits"),
    [(None, 0, True), ("require", 0, True), ("isolate", 0, False), (None, 1, False)],
)
def test_cell_without_pinned_cpus_fits_a_mixed_policy_unless_isolated(policy, reserved, fits):
    node = build_instance_cell(shared=[0], cpu_policy="mixed", cpu_thread_policy=policy)
    expected = pin_cell(build_host_with_threads(), node, reserved)
    assert (expected == PinnedCPUs({}, frozenset())) is fits
    empty = build_instance_cell(cpu_policy="dedicated")
    result = pin_cell(build_host_with_threads(), empty, 0)
    assert describe(result) == "CPU policies require pinned CPUs, none requested"


@pytest.mark.parametrize(
    ("used", "ratio", "count", "shortage"),
    [
        (0, 1.0, 4, None),
        (0, 0.5, 3, "3 shared CPUs requested, 2 free of 4 x 0.5"),
        (4, 1.0, 1, "1 shared CPUs requested, 0 free of 4 x 1"),
        (5, 2.0, 4, "4 shared CPUs requested, 3 free of 4 x 2"),
        (6, 1.3, 0, "0 shared CPUs requested, -0.8 free of 4 x 1.3"),
    ],
)
def test_allocation_ratio_applies_to_shared_cpus(used, ratio, count, shortage):
    host = build_cell(shared=range(4), cpu_usage=used)
    cell = build_instance_cell(shared=range(count))
    assert describe(find_shared_cpu_shortage(host, cell, build_numa_limits(cpu=ratio))) == shortage


def test_usage_of_shared_cpus_is_ignored_without_limits():
    host = build_cell(shared=range(4), cpu_usage=99)
    assert find_shared_cpu_shortage(host, build_instance_cell(shared=range(4)), None) is None
    assert find_shared_cpu_shortage(host, build_instance_cell(shared=range(5)), None) is not None
