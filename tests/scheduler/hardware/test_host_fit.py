"""NUMA nodes of an instance on a host: the nodes chosen, or why there are none."""

import pytest

from placement_sched.model.host_numa import NetworkMetadata
from placement_sched.model.numa_topology import PAGES_ANY
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.hardware.host_fit import fit_to_host
from placement_sched.scheduler.hardware.host_fit_devices import Devices
from tests.scheduler.hardware.fitting import (
    CORES,
    a_cell,
    a_host,
    an_instance,
    asked,
    limits,
    pages,
    with_networks,
)
from tests.scheduler.hardware.pci_stats import Stats

TWO = an_instance(asked(0, shared=[0]), asked(1, shared=[1]))


def nodes(found):
    return found.reason if isinstance(found, Refusal) else [cell.id for cell in found]


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
        (sizes(512), amounts(512, 512), "2 NUMA nodes asked, the host has 1"),
        (
            sizes(512, 512, 256),
            amounts(512, 1024),
            (
                "NUMA node 1 of the instance fits on none of the host: NUMA nodes 0, 1: 1024 MB "
                "asked, 512 of 512 MB in all; NUMA node 2: 1024 MB asked, 256 of 256 MB in all"
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
    assert nodes(found).startswith("NUMA node 2 of the instance fits on none")


def test_word_for_pages_is_read_anew_for_each_node():
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
        "NUMA node 0 of the instance fits on none of the host: NUMA nodes 0, 1: 4 dedicated CPUs "
        "and 1 for the emulator asked, 4 of 4 dedicated CPUs free"
    )


@pytest.mark.parametrize(
    ("near", "found"),
    [
        ([{0, 1}], [0, 1]),
        ([{1, 2}], [1, 2]),
        (
            [{0}],
            (
                "1 PCI request cannot be served near NUMA nodes with room; free devices: 2 at NUMA "
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
                "the NUMA nodes with room lack networks asked: a at NUMA node 0, b at NUMA node 1, "
                "tunnels at NUMA node 1"
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
def test_limits_tell_which_nodes_are_taken_first(packing, found):
    host = a_host(a_cell(0, shared=[0], memory_usage=1), a_cell(1, shared=[1]))
    instance = an_instance(asked(shared=[0]))
    assert nodes(fit_to_host(host, instance, limits(packing=packing))) == found
