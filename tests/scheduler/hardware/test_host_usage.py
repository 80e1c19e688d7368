"""What an instance takes away from a host's NUMA nodes, as nova 34 counts it."""

import pytest

from placement_sched.scheduler.hardware.host_fit import fit_to_host
from placement_sched.scheduler.hardware.host_usage import with_usage
from tests.scheduler.hardware.fitting import (
    CORES,
    THREADS,
    a_cell,
    a_host,
    an_instance,
    asked,
    limits,
    pages,
)

PAGES = pages((4, 262144, 5), (2048, 512, 7))


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
    host = a_host(a_cell(shared=[8, 9], pinned=range(8), siblings=THREADS, mempages=PAGES))
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
    host = a_host(a_cell(0, shared=[0], memory_usage=9, mempages=PAGES), a_cell(1, shared=[1]))
    before = repr(host)
    (first, second) = used(host, an_instance(asked(shared=[0])))
    assert first == (0, 9, [], [5, 7])
    assert second == (1, 512, [], [])
    assert repr(host) == before
