# SPDX-License-Identifier: Apache-2.0
"""One NUMA node of an instance on one of a host's, as nova 34 decides the same cases."""

import pytest

from placement_sched.model.hardware.numa import PAGES_ANY, PAGES_LARGE, PAGES_SMALL, FittedNUMACell
from placement_sched.model.hardware.numa_fit import (
    PinnedCPUs,
    choose_pages,
    fit_cell,
    memory_shortage,
    pin_cell,
    plain_shortage,
    shared_shortage,
    smallest_page,
)
from tests.support.numa_nodes import CORES, THREADS, a_cell, asked, limits, pages

HOST = a_cell(
    7, shared=[8, 9], pinned=range(4), siblings=CORES, mempages=pages((4, 262144), (2048, 512))
)


def test_node_is_returned_as_it_would_be_there():
    node = asked(3, shared=[1], pinned=[0, 2], pagesize=PAGES_ANY, cpu_thread_policy="prefer")
    assert fit_cell(HOST, node, limits(), reserved=1) == FittedNUMACell(
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


@pytest.mark.parametrize("pagesize", [None, 0])
def test_nothing_is_said_of_pages_where_nothing_is_asked(pagesize):
    found = fit_cell(HOST, asked(shared=[0], pagesize=pagesize))
    assert (found.pagesize, found.cpu_pinning, found.host_cpus) == (pagesize, {}, frozenset())


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (asked(memory=1025), "1025 MB requested, 1024 MB free of 1024 x 1"),
        (
            asked(pinned=[0], memory=1025),
            "1025 MB requested, 1024 MB in 262144 of 262144 pages of 4 KiB free",
        ),
        (asked(pagesize=8), "pages of 8 KiB requested, the node has none"),
        (asked(shared=range(3)), "3 shared CPUs requested, 2 in all"),
        (asked(shared=range(3), pinned=[9]), "3 shared CPUs requested, 2 in all"),
        (asked(pinned=range(5)), "5 dedicated CPUs requested, 4 of 4 dedicated CPUs free"),
    ],
    ids=["memory", "memory beside pinned", "pages", "shared", "mixed", "dedicated"],
)
def test_reason_is_what_the_hosts_node_lacks(node, reason):
    assert fit_cell(HOST, node, limits()) == reason


@pytest.mark.parametrize("policy", [None, "shared"])
def test_node_without_cpus_needs_memory_only(policy):
    assert isinstance(fit_cell(a_cell(), asked(cpu_policy=policy), limits()), FittedNUMACell)


def test_dedicated_cpus_do_not_count_as_shared_ones():
    """A node asks for CPUs of both kinds and the policy of one: nova looks at those pinned."""
    node = asked(shared=range(9), pinned=[9], cpu_policy="dedicated")
    assert isinstance(fit_cell(HOST, node, limits()), FittedNUMACell)
    unpinned = asked(shared=[0], pinned=range(1, 9), cpu_policy="shared")
    assert isinstance(fit_cell(HOST, unpinned, limits()), FittedNUMACell)


SMALL, BIG, HUGE = 4, 2048, 1048576
FULL = pages((SMALL, 262144), (BIG, 512), (HUGE, 1))


@pytest.mark.parametrize(
    ("used", "ratio", "memory", "short"),
    [
        (0, 1.0, 1024, None),
        (0, 1.5, 1536, None),
        (512, 1.0, 512, None),
        (512, 1.0, 513, "513 MB requested, 512 MB free of 1024 x 1"),
        (512, 1.5, 1024, None),
        (512, 1.5, 1025, "1025 MB requested, 1024 MB free of 1024 x 1.5"),
        (0, 0.5, 513, "513 MB requested, 512 MB free of 1024 x 0.5"),
    ],
)
def test_memory_is_given_away_by_the_ratio(used, ratio, memory, short):
    host = a_cell(memory_usage=used)
    assert memory_shortage(host, asked(memory=memory), limits(ram=ratio)) == short
    assert memory_shortage(host, asked(memory=memory), None) is None


def test_beside_dedicated_cpus_the_ratio_does_not_count():
    host = a_cell(memory_usage=1024)
    assert memory_shortage(host, asked(pinned=[0]), limits(ram=0.5)) is None
    assert memory_shortage(host, asked(shared=[1], pinned=[0]), limits()) is not None


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
        ({"mempages": pages((SMALL, 262144))}, 1024, None, None),
        (
            {"mempages": pages((SMALL, 131072, 0, 1))},
            512,
            None,
            "512 MB requested, 511 MB in 131071 of 131072 pages of 4 KiB free",
        ),
        (
            {"mempages": pages((BIG, 512), (SMALL, 131071))},
            512,
            "512 MB requested, 511 MB in 131071 of 131071 pages of 4 KiB in all",
            "512 MB requested, 511 MB in 131071 of 131071 pages of 4 KiB free",
        ),
        # Only the node's pages count, not the memory that it has in all.
        ({"memory": 256, "mempages": pages((SMALL, 262144))}, 1024, None, None),
    ],
    ids=[
        "all", "too much", "in use", "all small pages", "a page kept", "few small ones", "by pages",
    ],
)  # fmt: skip
def test_memory_without_a_page_size_is_of_the_smallest_pages(host, memory, floating, pinned):
    cell = a_cell(**host)
    assert plain_shortage(cell, asked(memory=memory)) == floating
    assert plain_shortage(cell, asked(memory=memory, pinned=[0])) == pinned


@pytest.mark.parametrize(
    ("size", "there", "found"),
    [
        (SMALL, FULL, SMALL),
        (BIG, FULL, BIG),
        (PAGES_SMALL, FULL, SMALL),
        (PAGES_LARGE, FULL, BIG),
        (PAGES_ANY, FULL, BIG),
        (PAGES_ANY, pages((SMALL, 262144), (BIG, 512, 512)), SMALL),
        (PAGES_SMALL, pages((BIG, 512)), BIG),
        (PAGES_ANY, pages((BIG, 512)), BIG),
        (PAGES_LARGE, pages((BIG, 512)), "large pages requested, the node has none"),
        (8, FULL, "pages of 8 KiB requested, the node has none"),
        (BIG, (), "pages of 2048 KiB requested, the node has none"),
        (
            BIG,
            pages((BIG, 512, 200, 57)),
            "512 MB in pages of 2048 KiB requested, 510 MB in 255 of 512 pages of 2048 KiB free",
        ),
        (
            PAGES_LARGE,
            pages((SMALL, 262144), (BIG, 9, 9)),
            "512 MB in large pages requested, 0 MB in 0 of 9 pages of 2048 KiB free",
        ),
        (
            PAGES_SMALL,
            pages((SMALL, 100), (BIG, 512)),
            "512 MB in small pages requested, 0 MB in 100 of 100 pages of 4 KiB free",
        ),
    ],
)  # fmt: skip
def test_pages_are_the_largest_that_a_word_means_and_memory_fills_up(size, there, found):
    host = a_cell(mempages=there)
    assert choose_pages(host, asked(pagesize=size)) == found


def test_smallest_pages_are_those_of_the_least_size():
    assert smallest_page(a_cell(mempages=pages((BIG, 1), (SMALL, 1)))) == SMALL
    assert smallest_page(a_cell()) is None


FEW = "of 8 dedicated CPUs free"


def on(host, wanted, policy=None, reserved=0):
    node = asked(pinned=range(wanted), cpu_thread_policy=policy)
    found = pin_cell(host, node, reserved)
    if isinstance(found, PinnedCPUs):
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
        ([0, 1], 5, "5 dedicated CPUs on sibling threads requested, 4 free"),
        ([0, 1, 2, 3], 1, "1 dedicated CPUs on sibling threads requested, 0 free"),
        ([0], 8, f"8 dedicated CPUs requested, 7 {FEW}"),
    ],
)
def test_required_siblings_are_of_full_cores(taken, wanted, found):
    assert on(threaded(*taken), wanted, "require") == found


@pytest.mark.parametrize("policy", [None, "prefer", "isolate"])
def test_cores_of_one_thread_are_taken_in_order(policy):
    host = a_cell(pinned=range(4), siblings=CORES, pinned_cpus=[1])
    assert on(host, 3, policy) == ([0, 2, 3], [])
    assert on(host, 4, policy) == "4 dedicated CPUs requested, 3 of 4 dedicated CPUs free"


def test_siblings_cannot_be_had_of_cores_of_one_thread():
    host = a_cell(pinned=range(4), siblings=CORES)
    assert on(host, 1, "require") == "1 dedicated CPUs on sibling threads requested, 0 free"


def test_isolation_is_not_for_cores_of_several_threads():
    assert (
        on(threaded(), 1, "isolate")
        == "thread policy isolate requested, cores have several threads"
    )


@pytest.mark.parametrize(
    ("taken", "wanted", "reserved", "found"),
    [
        ([], 2, 0, ([0, 1], [])),
        ([0], 2, 0, ([1, 2], [])),
        ([0, 1], 3, 0, "3 dedicated CPUs on separate cores requested, 2 cores free"),
        ([], 1, 1, ([0], [1])),
        ([0], 1, 1, ([1], [4])),
        ([], 4, 1, "1 dedicated CPU for the emulator requested, 0 left"),
        ([0, 4], 3, 1, "1 dedicated CPU for the emulator requested, 0 left"),
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
        ([], 8, f"8 dedicated CPUs and 1 for the emulator requested, 8 {FEW}"),
    ],
)
def test_emulator_gets_a_cpu_that_is_left(taken, wanted, found):
    assert on(threaded(*taken), wanted, None, reserved=1) == found


def test_cpus_of_no_core_are_not_taken():
    host = a_cell(pinned=range(4), siblings=CORES[:2])
    assert on(host, 2) == ([0, 1], [])
    assert on(host, 3) == "3 dedicated CPUs on reported cores requested, 2 free"
    assert on(host, 2, reserved=1) == "1 dedicated CPU for the emulator requested, 0 left"


def test_where_no_cores_are_reported_each_cpu_is_one():
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
    found = pin_cell(threaded(), node, reserved)
    assert (found == PinnedCPUs({}, frozenset())) is fits
    empty = asked(cpu_policy="dedicated")
    assert pin_cell(threaded(), empty, 0) == ("CPU policies require pinned CPUs, none requested")


@pytest.mark.parametrize(
    ("used", "ratio", "wanted", "short"),
    [
        (0, 1.0, 4, None),
        (0, 16.0, 5, "5 shared CPUs requested, 4 in all"),
        (0, 0.5, 3, "3 shared CPUs requested, 2 free of 4 x 0.5"),
        (4, 1.0, 1, "1 shared CPUs requested, 0 free of 4 x 1"),
        (4, 2.0, 4, None),
        (5, 2.0, 4, "4 shared CPUs requested, 3 free of 4 x 2"),
        (5, 1.3, 0, None),
        (6, 1.3, 0, "0 shared CPUs requested, -0.8 free of 4 x 1.3"),
    ],
)
def test_shared_cpus_are_given_away_by_the_ratio(used, ratio, wanted, short):
    host = a_cell(shared=range(4), cpu_usage=used)
    assert shared_shortage(host, asked(shared=range(wanted)), limits(cpu=ratio)) == short


def test_without_limits_only_the_nodes_own_cpus_count():
    host = a_cell(shared=range(4), cpu_usage=99)
    assert shared_shortage(host, asked(shared=range(4)), None) is None
    assert shared_shortage(host, asked(shared=range(5)), None) is not None
