"""One NUMA node of an instance on one of a host's: what is asked of each is looked at."""

import pytest

from placement_sched.model.numa_topology import PAGES_ANY, FittedNUMACell
from placement_sched.scheduler.hardware.host_fit_cell import Shortage, fit_cell
from tests.scheduler.hardware.fitting import CORES, a_cell, asked, limits, pages

HOST = a_cell(
    7,
    shared=[8, 9],
    pinned=range(4),
    siblings=CORES,
    mempages=pages((4, 262144), (2048, 512)),
)


def test_node_is_told_as_it_would_be_there():
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
        (asked(memory=1025), "1025 MB asked, 1024 MB free of 1024 x 1"),
        (
            asked(pinned=[0], memory=1025),
            "1025 MB asked, 262144 of 262144 pages of 4 KiB free",
        ),
        (asked(pagesize=8), "pages of 8 KiB asked, there are none such"),
        (asked(shared=range(3)), "3 shared CPUs asked, 2 in all"),
        (asked(shared=range(3), pinned=[9]), "3 shared CPUs asked, 2 in all"),
        (asked(pinned=range(5)), "5 dedicated CPUs asked, 4 of 4 dedicated CPUs free"),
    ],
    ids=["memory", "memory beside pinned", "pages", "shared", "mixed", "dedicated"],
)
def test_what_the_hosts_node_lacks_is_told(node, reason):
    assert fit_cell(HOST, node, limits()) == Shortage(reason)


@pytest.mark.parametrize("policy", [None, "shared"])
def test_node_without_cpus_needs_memory_only(policy):
    assert isinstance(fit_cell(a_cell(), asked(cpu_policy=policy), limits()), FittedNUMACell)


def test_dedicated_cpus_do_not_count_as_shared_ones():
    """A node asks for CPUs of both kinds and the policy of one: nova looks at those pinned."""
    node = asked(shared=range(9), pinned=[9], cpu_policy="dedicated")
    assert isinstance(fit_cell(HOST, node, limits()), FittedNUMACell)
    unpinned = asked(shared=[0], pinned=range(1, 9), cpu_policy="shared")
    assert isinstance(fit_cell(HOST, unpinned, limits()), FittedNUMACell)
