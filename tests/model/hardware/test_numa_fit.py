# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of an instance on a host's, as nova 34 decides the same cases."""

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
    a_cell,
    a_host,
    an_instance,
    asked,
    limits,
    pages,
    with_networks,
)

TWO = an_instance(asked(0, shared=[0]), asked(1, shared=[1]))


def nodes(found):
    return found.reason if isinstance(found, Rejection) else [cell.id for cell in found]


def sizes(*memory):
    """Return a host whose nodes have so much memory and a CPU each."""
    return a_host(*(a_cell(n, shared=[n], memory=mb) for n, mb in enumerate(memory)))


def amounts(*memory):
    return an_instance(*(asked(n, shared=[n], memory=mb) for n, mb in enumerate(memory)))


@pytest.mark.parametrize(
    ("host", "instance", "found"),
    [
        (sizes(512), amounts(512), [0]),
        (sizes(512, 512), amounts(512, 512), [0, 1]),
        (sizes(512, 1024), amounts(1024, 512), [1, 0]),
        (sizes(512, 512, 1024), amounts(512, 1024), [0, 2]),
        (sizes(1024, 256, 1024, 1024), amounts(512, 512, 512), [0, 2, 3]),
        (sizes(512), amounts(512, 512), "2 NUMA nodes requested, the host has 1"),
        (
            sizes(512, 512, 256),
            amounts(512, 1024),
            (
                "NUMA node 1 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: "
                "1024 MB "
                "requested, 512 of 512 MB in all; NUMA node 2: 1024 MB requested, 256 of 256 MB in "
                "all"
            ),
        ),
        (
            sizes(1024, 512),
            amounts(1024, 1024),
            (
                "the NUMA nodes of the instance do not fit all at once: node 0 only on NUMA node "
                "0; node 1 only on NUMA node 0"
            ),
        ),
    ],
)
def test_each_node_gets_one_of_the_hosts_for_itself(host, instance, found):
    assert nodes(fit_to_host(host, instance)) == found


def test_nova_takes_no_node_for_another():
    """nova 34 passes this host: it has judged a node of it for another node of the instance."""
    found = fit_to_host(sizes(1024, 1024, 1024), amounts(512, 512, 2048), limits())
    assert nodes(found).startswith("NUMA node 2 of the instance fits on no NUMA node")


def test_word_for_pages_is_read_again_for_each_node():
    """nova 34 keeps the size that it found for a node which then had no CPU left."""
    host = a_host(
        a_cell(0, memory=2048, mempages=pages((4, 524288))),
        a_cell(1, shared=[1], mempages=pages((2048, 512))),
    )
    (cell,) = fit_to_host(host, an_instance(asked(shared=[0], pagesize=PAGES_ANY)), limits())
    assert (cell.id, cell.pagesize) == (1, 2048)


def test_emulator_gets_its_cpu_on_the_first_node_only():
    host = a_host(*(a_cell(n, pinned=range(4), siblings=CORES) for n in range(2)))
    instance = an_instance(
        asked(0, pinned=range(3)), asked(1, pinned=range(3, 7)), emulator="isolate"
    )
    first, second = fit_to_host(host, instance, limits())
    assert (first.cpuset_reserved, second.cpuset_reserved) == ({3}, frozenset())
    other = an_instance(asked(0, pinned=range(4)), asked(1, pinned=range(4, 7)), emulator="isolate")
    assert nodes(fit_to_host(host, other, limits())) == (
        "NUMA node 0 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 4 "
        "dedicated CPUs "
        "and 1 for the emulator requested, 4 of 4 dedicated CPUs free"
    )


@pytest.mark.parametrize(
    ("near", "found"),
    [
        ([{0, 1}], [0, 1]),
        ([{1, 2}], [1, 2]),
        (
            [{0}],
            (
                "1 PCI request cannot be served near NUMA nodes with enough capacity; free "
                "devices: 2 at NUMA "
                "node 2"
            ),
        ),
    ],
)
def test_chosen_nodes_are_near_devices(near, found):
    devices = Devices(Stats([(2, 2)], near), ["request"])
    assert sorted(nodes(fit_to_host(sizes(512, 512, 512), TWO, limits(), devices))) == sorted(found)


@pytest.mark.parametrize(
    ("physnets", "tunneled", "found"),
    [
        ("a", False, [0]),
        ("b", False, [1]),
        ("x", False, [0]),
        ("", True, [1]),
        (
            "ab",
            True,
            (
                "the NUMA nodes with enough capacity lack requested networks: a at NUMA node 0, b "
                "at NUMA "
                "node 1, tunnels at NUMA node 1"
            ),
        ),
    ],
)
def test_chosen_nodes_are_near_networks(physnets, tunneled, found):
    host = a_host(with_networks(0, "a"), with_networks(1, "b", tunneled=True))
    network = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    asking = limits(network_metadata=network)
    assert nodes(fit_to_host(host, an_instance(asked(shared=[0])), asking)) == found


@pytest.mark.parametrize(("packing", "found"), [(False, [1]), (True, [0])])
def test_limits_set_which_nodes_are_taken_first(packing, found):
    host = a_host(a_cell(0, shared=[0], memory_usage=1), a_cell(1, shared=[1]))
    instance = an_instance(asked(shared=[0]))
    assert nodes(fit_to_host(host, instance, limits(packing=packing))) == found


ONE = an_instance(asked(shared=[0]))
PINNED = an_instance(asked(pinned=[0]))


def order(host, instance=ONE, devices=None, packing=False):
    return [cell.id for cell in in_order(a_host(*host), instance, devices, packing=packing)]


@pytest.mark.parametrize(
    ("host", "instance", "spread", "packed"),
    [
        ([a_cell(0, memory_usage=9), a_cell(1)], ONE, [1, 0], [0, 1]),
        ([a_cell(0, memory_usage=9, memory=2000), a_cell(1)], ONE, [0, 1], [1, 0]),
        ([a_cell(0, cpu_usage=1), a_cell(1, memory_usage=9)], ONE, [1, 0], [0, 1]),
        ([a_cell(1), a_cell(0)], ONE, [1, 0], [1, 0]),
        ([a_cell(0, pinned=[0, 1]), a_cell(1, pinned=[2, 3, 4])], ONE, [0, 1], [0, 1]),
        ([a_cell(0, pinned=[0, 1]), a_cell(1, pinned=[2, 3, 4])], PINNED, [1, 0], [0, 1]),
        (
            [a_cell(0, pinned=[0, 1]), a_cell(1, pinned=[2, 3, 4], pinned_cpus=[2, 3])],
            PINNED,
            [0, 1],
            [1, 0],
        ),
    ],
    ids=["memory", "amount of it", "cpus first", "equal", "unpinned", "pinned", "free ones"],
)
def test_least_used_nodes_come_first_or_most_used_ones(host, instance, spread, packed):
    assert order(host, instance) == spread
    assert order(host, instance, packing=True) == packed


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize(
    ("pools", "asks", "expected"),
    [
        ([(1, 2)], False, [0, 1]),
        ([(0, 2)], False, [1, 0]),
        ([(1, 2)], True, [1, 0]),
        ([(0, 2), (1, 2), (1, 1)], True, [1, 0]),
        ([(0, 2), (1, 2), (1, 1)], False, [0, 1]),
        ([(None, 9), (1, 0)], True, [0, 1]),
    ],
)
def test_nodes_with_devices_are_for_those_who_ask_for_some(pools, asks, expected, packing):
    devices = Devices(Stats(pools), ["request"] if asks else [])
    assert order([a_cell(0), a_cell(1)], ONE, devices, packing) == expected


def test_order_stays_where_every_node_is_needed():
    two = an_instance(asked(0, shared=[0]), asked(1, shared=[1]))
    devices = Devices(Stats([(1, 2)]), ["request"])
    assert order([a_cell(0, memory_usage=9), a_cell(1)], two, devices) == [0, 1]


NETWORKS = a_host(
    with_networks(0, "a"), with_networks(1, "b", tunneled=True), with_networks(2, "a", "b")
)
PLAIN = a_host(with_networks(0), with_networks(1))


@pytest.mark.parametrize(
    ("physnets", "tunneled", "nodes", "reached"),
    [
        ("", False, [0], True),
        ("a", False, [0], True),
        ("a", False, [1], False),
        ("ab", False, [0], False),
        ("ab", False, [0, 1], True),
        ("ab", False, [2], True),
        ("", True, [2], False),
        ("", True, [1], True),
        ("a", True, [2], False),
        ("a", True, [1, 2], True),
    ],
)
def test_chosen_nodes_have_the_cards_of_all_networks(physnets, tunneled, nodes, reached):
    asked = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    assert bind_to_nodes(NETWORKS, asked) == asked
    assert can_reach_networks([NETWORKS.cells[node] for node in nodes], asked) is reached


def test_networks_that_the_host_has_at_no_node_in_particular_do_not_count():
    asked = NetworkMetadata(physnets=frozenset("ax"), tunneled=True)
    assert bind_to_nodes(PLAIN, asked) == NetworkMetadata()
    assert bind_to_nodes(NETWORKS, asked).physnets == {"a"}
    assert bind_to_nodes(NETWORKS, None) == NetworkMetadata()


USED_PAGES = pages((4, 262144, 5), (2048, 512, 7))


def used(host, instance):
    """Return what is used of each node: shared CPUs, memory, pinned CPUs, pages."""
    left = with_usage(host, fit_to_host(host, instance, limits(cpu=4.0)))
    return [
        (
            cell.cpu_usage,
            cell.memory_usage,
            sorted(cell.pinned_cpus),
            [pages.used for pages in cell.mempages],
        )
        for cell in left.cells
    ]


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        (an_instance(asked(shared=[3])), (1, 512, [], [131077, 7])),
        (an_instance(asked(shared=[3], pagesize=-1)), (1, 512, [], [131077, 7])),
        (an_instance(asked(shared=[3], pagesize=2048)), (1, 512, [], [5, 263])),
        (an_instance(asked(pinned=[0, 1, 2])), (0, 512, [0, 1, 4], [131077, 7])),
        (
            an_instance(asked(pinned=[0, 1, 2]), emulator="isolate"),
            (0, 512, [0, 1, 4, 5], [131077, 7]),
        ),
        (
            an_instance(asked(shared=[3], pinned=[0, 1, 2]), emulator="share"),
            (1, 512, [0, 1, 4], [131077, 7]),
        ),
    ],
    ids=["shared", "small pages", "huge pages", "pinned", "emulator", "mixed"],
)
def test_memory_pages_and_cpus_are_taken(instance, expected):
    host = a_host(a_cell(shared=[8, 9], pinned=range(8), siblings=THREADS, mempages=USED_PAGES))
    assert used(host, instance) == [expected]


@pytest.mark.parametrize(
    ("host", "taken"),
    [
        (a_cell(pinned=range(4), siblings=CORES), [0, 1]),
        (a_cell(shared=range(8), pinned=range(8), siblings=THREADS), [0, 1, 4, 5]),
    ],
    ids=["cores of one thread", "a host of former days"],
)
def test_isolated_cpus_take_their_cores(host, taken):
    instance = an_instance(asked(pinned=[0, 1], cpu_thread_policy="isolate"))
    assert used(a_host(host), instance) == [(0, 512, taken, [])]


def test_other_nodes_and_the_topology_given_stay_as_they_are():
    host = a_host(a_cell(0, shared=[0], memory_usage=9, mempages=USED_PAGES), a_cell(1, shared=[1]))
    before = repr(host)
    (first, second) = used(host, an_instance(asked(shared=[0])))
    assert first == (0, 9, [], [5, 7])
    assert second == (1, 512, [], [])
    assert repr(host) == before


def test_too_few_nodes_are_reported_with_both_numbers():
    refusal = reject_too_few_nodes(a_host(a_cell()), an_instance(asked(0), asked(1)))
    assert (refusal.asked, refusal.has) == (2, 1)


def test_devices_at_no_node_are_reported_as_such():
    assert reject_far_devices({}, 2).reason == (
        "2 PCI requests cannot be served near NUMA nodes with enough capacity; free devices: none "
        "at any node"
    )
