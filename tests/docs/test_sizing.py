# SPDX-License-Identifier: Apache-2.0
"""The page "Sizing" has the figures of the page "Large clouds", from which it says to take them."""

import re

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

SIZING = (ROOT / "doc/source/sizing.rst").read_text()
LARGE = (ROOT / "doc/source/large_clouds.rst").read_text()
#: The rows of "Large clouds" from which each row of "Sizing" is.
ROWS = {
    "candidates, ``limit=10``": ["candidates, limit=10"],
    "candidates, ``limit=1000``": ["candidates, limit=1000"],
    "the same, by traits or aggregates": [
        *("2 required, 1 forbidden trait", "2 required, one rare, 1 forbidden"),
        *("in: two and !in: three aggregates", "!in: 19 aggregates", "one rack"),
    ],
    "selection without a claim": ["select_destinations"],
    "selection with a claim": ["select_destinations with a claim"],
    "``PUT`` of allocations": ["``PUT`` of allocations"],
}


def read_cells(page: str, row: str) -> list[str]:
    """Return what stands beside the name of a row, in the table of 1 000 000 hosts."""
    (line,) = re.findall(rf"^{re.escape(row)}  +(.*)$", page, re.MULTILINE)
    return line.split()


def largest_cpu_figure(row: str) -> float:
    """Return the larger of a row's figures, or the only one: every other figure is of CPU."""
    (_, table) = LARGE.split("\n1 000 000 hosts\n====")
    return max(float(one) for one in read_cells(table, row)[1::2])


@pytest.mark.parametrize("row", ROWS)
def test_row_has_the_largest_figure_and_what_a_core_answers_by_it(row):
    largest = max(largest_cpu_figure(one) for one in ROWS[row])
    figure, unit, about, each_second = read_cells(SIZING, row)
    assert (float(figure), unit, about) == (largest, "ms", "about")
    assert int(each_second) == pytest.approx(1000 / largest, rel=0.05)


def test_memory_of_a_worker_is_that_of_the_other_page():
    small_and_large = read_cells(LARGE, "MB of a worker afterwards")
    for size, figures in (("10 000", small_and_large[::2]), ("100 000", small_and_large[1::2])):
        assert read_cells(SIZING, size) == [word for one in figures for word in (one, "MB")]
    million = re.search(r"1 000 000 providers in memory holds (\d+) MB", LARGE)[1]
    assert read_cells(SIZING, "1 000 000")[:2] == [million, "MB"]
