# SPDX-License-Identifier: Apache-2.0
"""Stranded amounts, compared with placing instances in turn."""

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.model.hardware.numa import NUMATopology
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.hardware.stranding import FlavorTable, _count_spread
from placement_sched.model.image import Image
from placement_sched.model.rejection import Rejection
from tests.model.hardware.stranding import (
    GPU_ALIASES,
    build_flavor,
    build_gpu_pools,
    build_numa_cell,
    build_pinned_flavor,
)


def build_host(**changes):
    fields = {
        "cpu_allocation_ratio": None,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
        "vcpus_total": 64,
        "vcpus_used": 0,
        "total_usable_ram_mb": 262144,
        "free_ram_mb": 262144,
        "total_usable_disk_gb": 1000,
        "free_disk_mb": 1024000,
        "numa_topology": None,
        "pci_stats": None,
        "limits": {},
    }
    return SimpleNamespace(**(fields | changes))


def list_positive_amounts(table, row):
    return {name: value for name, value in zip(table.classes, row.tolist(), strict=True) if value}


def subtract_fitting_instances(free, need):
    """Return the amounts that remain after as many instances as fit."""
    while all(free[name] >= amount for name, amount in need.items()):
        free = {name: free[name] - need.get(name, 0) for name in free}
    return free


RESOURCE_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
RANDOM_FLAVOR_SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))


@given(
    st.lists(RANDOM_FLAVOR_SIZES, min_size=1, max_size=4),
    st.lists(st.tuples(*[st.integers(0, 12)] * 3), min_size=1, max_size=4),
)
def test_stranded_amounts_equal_those_after_placing_instances_in_turn(sizes, hosts):
    flavors = [build_flavor(*size) for size in sizes]
    states = [
        build_host(vcpus_used=64 - cpus, free_ram_mb=ram, free_disk_mb=1024 * disk + 1023)
        for cpus, ram, disk in hosts
    ]
    table = FlavorTable.from_flavors(flavors, {})
    free = table.read(states)
    mean, for_all = table.compute_stranded(free)
    for number, amounts in enumerate(hosts):
        remaining = [
            subtract_fitting_instances(
                dict(zip(RESOURCE_CLASSES, amounts, strict=True)),
                dict(zip(RESOURCE_CLASSES, size, strict=True)),
            )
            for size in dict.fromkeys(sizes)
        ]
        for place, name in enumerate(RESOURCE_CLASSES):
            values = [amounts[name] for amounts in remaining]
            assert mean[number, place] == pytest.approx(sum(values) / len(values))
            assert for_all[number, place] == min(values)


def count_placed_instances(topology, flavor):
    """Return how many instances of a flavor are placed on the NUMA nodes of a host."""
    instance = RequestedHardware(flavor, Image()).numa_topology
    number = 0
    while not isinstance(fitted := fit_to_host(topology, instance), Rejection):
        topology, number = with_usage(topology, fitted), number + 1
    return number


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3),
)
def test_count_of_fitting_instances_on_single_nodes_equals_the_placed_instances(cells, sizes):
    flavors = [build_pinned_flavor(*size) for size in dict.fromkeys(sizes)]
    topology = NUMATopology(build_numa_cell(number, *cell) for number, cell in enumerate(cells))
    table = FlavorTable.from_flavors(flavors, {})
    fits = table.count_fits(table.read([build_host(numa_topology=topology)]))
    assert fits.tolist() == [[count_placed_instances(topology, flavor) for flavor in flavors]]


def find_most_instances_by_trying_all(nodes, count):
    """Return the most instances whose parts each use a node of their own, by trying all."""
    choices = [
        chosen
        for chosen in combinations(range(len(nodes)), count)
        if all(nodes[at] for at in chosen)
    ]
    return max(
        (
            1
            + find_most_instances_by_trying_all(
                [free - (at in chosen) for at, free in enumerate(nodes)], count
            )
            for chosen in choices
        ),
        default=0,
    )


@given(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(1, 3))
def test_instances_on_several_numa_nodes_are_counted_exactly(nodes, count):
    spread = _count_spread(np.array([nodes], dtype=np.float64), count)
    assert spread.tolist() == [find_most_instances_by_trying_all(tuple(nodes), count)]


def test_instances_on_two_numa_nodes_need_capacity_on_both():
    topology = NUMATopology([build_numa_cell(0, 8, 8), build_numa_cell(1, 3, 8)])
    flavor = build_pinned_flavor(4, 4, hw__numa_nodes="2")
    table = FlavorTable.from_flavors([flavor], {})
    fits = table.count_fits(table.read([build_host(numa_topology=topology)]))
    assert fits.tolist() == [[count_placed_instances(topology, flavor)]] == [[1]]


def test_stranded_amounts_include_numa_nodes_and_pages():
    topology = NUMATopology([build_numa_cell(0, 6, 10, shared=2, used=2), build_numa_cell(1, 6, 4)])
    table = FlavorTable.from_flavors([build_pinned_flavor(4, 8)], {})
    host = build_host(vcpus_total=14, vcpus_used=3, numa_topology=topology)
    free = table.read([host])
    # Of 14 CPUs, 12 are for pinning. Of the 3 used CPUs, 1 is shared.
    assert list_positive_amounts(table, free.hosts[0]) == {
        "VCPU": 1,
        "MEMORY_MB": 262144,
        "DISK_GB": 1000,
        "PCPU": 10,
        "1048576 KiB pages": 14 * 1024,
    }
    # An instance fits on the first node, and the second lacks pages.
    assert list_positive_amounts(table, table.compute_stranded(free)[0][0]) == {
        "VCPU": 1,
        "MEMORY_MB": 262144 - 8192,
        "DISK_GB": 1000,
        "PCPU": 6,
        "1048576 KiB pages": 6 * 1024,
    }


def test_all_memory_pages_but_the_smallest_count_as_large():
    flavor = build_flavor(2, 2048, extra_specs={"hw:mem_page_size": "large"})
    table = FlavorTable.from_flavors([flavor], {})
    topology = NUMATopology([build_numa_cell(0, 0, 5, shared=8)])
    fits = table.count_fits(table.read([build_host(numa_topology=topology)]))
    assert fits.tolist() == [[2]]


def test_stranded_pci_devices_are_counted_by_host_and_numa_node():
    alias = {"pci_passthrough:alias": "gpu:2"}
    plain = build_flavor(1, 1024, extra_specs=alias)
    near = build_pinned_flavor(2, 2, pci_passthrough__alias="gpu:2")
    table = FlavorTable.from_flavors([plain, near], GPU_ALIASES)
    topology = NUMATopology([build_numa_cell(0, 8, 8), build_numa_cell(1, 8, 8)])
    hosts = [
        build_host(numa_topology=topology, pci_stats=build_gpu_pools((0, 3), (1, 3))),
        build_host(numa_topology=topology, pci_stats=build_gpu_pools((0, 1), (1, 1))),
        build_host(pci_stats=SimpleNamespace(pools=[])),
    ]
    assert table.count_fits(table.read(hosts)).tolist() == [[3, 2], [1, 0], [0, 0]]


def test_flavors_with_resources_missing_in_host_reports_are_left_out():
    flavors = [
        build_flavor(1),
        build_flavor(1, name="the same amounts"),
        build_flavor(2, disabled=True),
        build_flavor(3, extra_specs={"resources:VGPU": "1"}),
        build_flavor(4, extra_specs={"accel:device_profile": "fpga"}),
        build_flavor(5, extra_specs={"hw:numa_nodes": "many"}),
        build_flavor(6, extra_specs={"pci_passthrough:alias": "unknown:1"}),
    ]
    assert [flavor.total["VCPU"] for flavor in FlavorTable.from_flavors(flavors, {}).flavors] == [1]


def test_host_that_reports_no_disk_has_unlimited_disk():
    table = FlavorTable.from_flavors([build_flavor(32, 1024, 500)], {})
    free = table.read([build_host(total_usable_disk_gb=0, free_disk_mb=0)])
    assert table.count_fits(free).tolist() == [[2]]
    assert list_positive_amounts(table, table.compute_stranded(free)[0][0]) == {
        "MEMORY_MB": 262144 - 2048
    }


def test_numa_nodes_are_read_once_for_each_report_and_instance():
    table = FlavorTable.from_flavors([build_pinned_flavor(4, 4)], {})
    instance = RequestedHardware(build_pinned_flavor(2, 2), Image()).numa_topology
    host = build_host(numa_topology=NUMATopology([build_numa_cell(0, 8, 8)]))
    assert table.read([host]).nodes[0, 0, 2] == 8
    assert table.read([host], (0, 0, 0), instance).nodes[0, 0, 2] == 6
    assert table.read([host], (0, 0, 0), instance, is_cached=False).nodes[0, 0, 2] == 6
    assert Counter({key: len(rows) for key, rows in table.cache.items()}) == {None: 1, instance: 1}
    host.numa_topology = NUMATopology([build_numa_cell(0, 4, 8)])
    assert table.read([host]).nodes[0, 0, 2] == 4
