"""Which NUMA nodes of a host are tried first, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.hardware.host_fit_devices import Devices
from placement_sched.scheduler.hardware.host_fit_order import in_order
from tests.scheduler.hardware.fitting import a_cell, a_host, an_instance, asked
from tests.scheduler.hardware.pci_stats import Stats

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
