"""Memory and pages of an instance's NUMA node, as nova 34 decides the same cases."""

import pytest

from placement_sched.model.numa_topology import PAGES_ANY, PAGES_LARGE, PAGES_SMALL
from placement_sched.scheduler.hardware.host_fit_memory import (
    chosen_pages,
    memory_shortage,
    plain_shortage,
    smallest_page,
)
from tests.scheduler.hardware.fitting import a_cell, asked, limits, pages

SMALL, BIG, HUGE = 4, 2048, 1048576
FULL = pages((SMALL, 262144), (BIG, 512), (HUGE, 1))


@pytest.mark.parametrize(
    ("used", "ratio", "memory", "short"),
    [
        (0, 1.0, 1024, None),
        (0, 1.5, 1536, None),
        (512, 1.0, 512, None),
        (512, 1.0, 513, "513 MB asked, 512 MB free of 1024 x 1"),
        (512, 1.5, 1024, None),
        (512, 1.5, 1025, "1025 MB asked, 1024 MB free of 1024 x 1.5"),
        (0, 0.5, 513, "513 MB asked, 512 MB free of 1024 x 0.5"),
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
            "1025 MB asked, 1024 of 1024 MB in all",
            "1025 MB asked, 1024 of 1024 MB free",
        ),
        ({"memory_usage": 600}, 512, None, "512 MB asked, 424 of 1024 MB free"),
        ({"mempages": pages((SMALL, 262144))}, 1024, None, None),
        (
            {"mempages": pages((SMALL, 131072, 0, 1))},
            512,
            None,
            "512 MB asked, 131071 of 131072 pages of 4 KiB free",
        ),
        (
            {"mempages": pages((BIG, 512), (SMALL, 131071))},
            512,
            "512 MB asked, 131071 of 131071 pages of 4 KiB in all",
            "512 MB asked, 131071 of 131071 pages of 4 KiB free",
        ),
        # Nothing is told to be free of what the node has in all: its pages are what counts.
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
    ("size", "told", "found"),
    [
        (SMALL, FULL, SMALL),
        (BIG, FULL, BIG),
        (PAGES_SMALL, FULL, SMALL),
        (PAGES_LARGE, FULL, BIG),
        (PAGES_ANY, FULL, BIG),
        (PAGES_ANY, pages((SMALL, 262144), (BIG, 512, 512)), SMALL),
        (PAGES_SMALL, pages((BIG, 512)), BIG),
        (PAGES_ANY, pages((BIG, 512)), BIG),
        (PAGES_LARGE, pages((BIG, 512)), "large pages asked, there are none such"),
        (8, FULL, "pages of 8 KiB asked, there are none such"),
        (BIG, (), "pages of 2048 KiB asked, there are none such"),
        (
            BIG,
            pages((BIG, 512, 200, 57)),
            "512 MB in pages of 2048 KiB asked, 255 of 512 pages of 2048 KiB free",
        ),
        (
            PAGES_LARGE,
            pages((SMALL, 262144), (BIG, 9, 9)),
            "512 MB in large pages asked, 0 of 9 pages of 2048 KiB free",
        ),
        (
            PAGES_SMALL,
            pages((SMALL, 100), (BIG, 512)),
            "512 MB in small pages asked, 100 of 100 pages of 4 KiB free",
        ),
    ],
)  # fmt: skip
def test_pages_are_the_largest_that_a_word_means_and_memory_fills_up(size, told, found):
    host = a_cell(mempages=told)
    assert chosen_pages(host, asked(pagesize=size)) == found


def test_smallest_pages_are_told():
    assert smallest_page(a_cell(mempages=pages((BIG, 1), (SMALL, 1)))) == SMALL
    assert smallest_page(a_cell()) is None
