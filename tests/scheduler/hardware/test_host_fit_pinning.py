"""Pinned CPUs, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.hardware.host_fit_pinning import Pinned, pinned
from tests.scheduler.hardware.fitting import CORES, THREADS, a_cell, asked

FEW = "of 8 dedicated CPUs free"


def on(host, wanted, policy=None, reserved=0):
    node = asked(pinned=range(wanted), cpu_thread_policy=policy)
    found = pinned(host, node, reserved)
    if isinstance(found, Pinned):
        assert sorted(found.cpus) == list(range(wanted))
        return [found.cpus[cpu] for cpu in range(wanted)], sorted(found.reserved)
    return found


def threaded(*taken):
    return a_cell(pinned=range(8), siblings=THREADS, pinned_cpus=taken)


def old(*taken):
    """Return a node as before Train: the same CPUs for sharing and for pinning."""
    return a_cell(shared=range(8), pinned=range(8), siblings=THREADS, pinned_cpus=taken)


@pytest.mark.parametrize(
    ("taken", "wanted", "cpus"),
    [
        ([], 1, [0]),
        ([], 2, [0, 4]),
        ([], 3, [0, 4, 1]),
        ([], 8, [0, 4, 1, 5, 2, 6, 3, 7]),
        ([0], 1, [1]),
        ([0], 2, [1, 5]),
        ([0, 1], 3, [2, 6, 3]),
        ([0, 1], 5, [4, 5, 2, 6, 3]),
        ([0, 4], 2, [1, 5]),
        ([0, 1, 2], 3, [4, 5, 6]),
        ([4, 2, 3], 4, [0, 1, 6, 7]),
    ],
)
@pytest.mark.parametrize("policy", [None, "prefer"])
def test_full_cores_are_preferred(taken, wanted, cpus, policy):
    assert on(threaded(*taken), wanted, policy) == (cpus, [])


@pytest.mark.parametrize(
    ("taken", "wanted", "found"),
    [
        ([], 3, ([0, 4, 1], [])),
        ([0], 1, ([1], [])),
        ([0, 1], 4, ([2, 6, 3, 7], [])),
        ([0, 1], 5, "5 dedicated CPUs on sibling threads asked, 4 free"),
        ([0, 1, 2, 3], 1, "1 dedicated CPUs on sibling threads asked, 0 free"),
        ([0], 8, f"8 dedicated CPUs asked, 7 {FEW}"),
    ],
)
def test_required_siblings_are_of_full_cores(taken, wanted, found):
    assert on(threaded(*taken), wanted, "require") == found


@pytest.mark.parametrize("policy", [None, "prefer", "isolate"])
def test_cores_of_one_thread_are_taken_in_order(policy):
    host = a_cell(pinned=range(4), siblings=CORES, pinned_cpus=[1])
    assert on(host, 3, policy) == ([0, 2, 3], [])
    assert on(host, 4, policy) == "4 dedicated CPUs asked, 3 of 4 dedicated CPUs free"


def test_siblings_cannot_be_had_of_cores_of_one_thread():
    host = a_cell(pinned=range(4), siblings=CORES)
    assert on(host, 1, "require") == "1 dedicated CPUs on sibling threads asked, 0 free"


def test_isolation_is_not_for_cores_of_several_threads():
    assert on(threaded(), 1, "isolate") == "thread policy isolate asked, cores have several threads"


@pytest.mark.parametrize(
    ("taken", "wanted", "reserved", "found"),
    [
        ([], 2, 0, ([0, 1], [])),
        ([0], 2, 0, ([1, 2], [])),
        ([0, 1], 3, 0, "3 dedicated CPUs on cores of their own asked, 2 cores free"),
        ([], 1, 1, ([0], [1])),
        ([0], 1, 1, ([1], [4])),
        ([], 4, 1, "1 dedicated CPU for the emulator asked, 0 left"),
        ([0, 4], 3, 1, "1 dedicated CPU for the emulator asked, 0 left"),
    ],
)
def test_hosts_of_former_days_isolate_by_leaving_threads_idle(taken, wanted, reserved, found):
    assert on(old(*taken), wanted, "isolate", reserved) == found


@pytest.mark.parametrize(
    ("taken", "wanted", "found"),
    [
        ([], 1, ([0], [4])),
        ([], 2, ([0, 4], [1])),
        ([0], 2, ([1, 5], [4])),
        ([0, 1], 4, ([2, 6, 3, 7], [4])),
        ([], 7, ([0, 4, 1, 5, 2, 6, 3], [7])),
        ([], 8, f"8 dedicated CPUs and 1 for the emulator asked, 8 {FEW}"),
    ],
)
def test_emulator_gets_a_cpu_that_is_left(taken, wanted, found):
    assert on(threaded(*taken), wanted, None, reserved=1) == found


def test_cpus_of_no_core_are_not_taken():
    host = a_cell(pinned=range(4), siblings=CORES[:2])
    assert on(host, 2) == ([0, 1], [])
    assert on(host, 3) == "3 dedicated CPUs on cores that it tells asked, 2 free"
    assert on(host, 2, reserved=1) == "1 dedicated CPU for the emulator asked, 0 left"


def test_where_no_cores_are_told_each_cpu_is_one():
    host = a_cell(pinned=[7, 3, 5], pinned_cpus=[3])
    assert on(host, 2) == ([5, 7], [])


@pytest.mark.parametrize(
    ("policy", "reserved", "fits"),
    [
        (None, 0, True),
        ("prefer", 0, True),
        ("require", 0, True),
        ("isolate", 0, False),
        (None, 1, False),
    ],
)
def test_node_without_pinned_cpus_may_be_beside_others(policy, reserved, fits):
    node = asked(shared=[0], cpu_policy="mixed", cpu_thread_policy=policy)
    found = pinned(threaded(), node, reserved)
    assert (found == Pinned({}, frozenset())) is fits
    empty = asked(cpu_policy="dedicated")
    assert pinned(threaded(), empty, 0) == (
        "none of the CPUs asked is pinned, which its policies take for granted"
    )
