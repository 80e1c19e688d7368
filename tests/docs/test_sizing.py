# SPDX-License-Identifier: Apache-2.0
"""The figures of the section "Sizing" equal the figures of the page on the cache."""

import re

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

SIZING_SECTION = (ROOT / "doc/source/deploy.rst").read_text().partition("\nSizing\n")[2]
PROVIDER_CACHE_PAGE = (ROOT / "doc/source/how_current.rst").read_text()
#: Rows of "Sizing", and the rows of the page on the cache that they are calculated from.
CACHE_PAGE_ROWS_BY_SIZING_ROW = {
    "candidates, ``limit=10``": ["candidates, limit=10"],
    "candidates, ``limit=1000``": ["candidates, limit=1000"],
    "the same, by traits or aggregates": ["2 required (1 rare), 1 forbidden", "a rack"],
    "selection without a claim": ["select_destinations"],
    "selection with a claim": ["select_destinations with a claim"],
    "``PUT`` of allocations": ["``PUT`` of allocations"],
}


def read_cells_of_row(page: str, row: str) -> list[str]:
    """Return the cells of a row without its name."""
    (line,) = re.findall(rf"^{re.escape(row)}  +(.*)$", page, re.MULTILINE)
    return line.split()


def find_largest_cpu_milliseconds(row: str) -> float:
    """Return the largest figure of CPU in a row. Every other figure is of CPU."""
    (_, table) = PROVIDER_CACHE_PAGE.split("\n1 000 000 hosts\n====")
    return max(float(figure) for figure in read_cells_of_row(table, row)[1::2])


@pytest.mark.parametrize("row", CACHE_PAGE_ROWS_BY_SIZING_ROW)
def test_sizing_row_has_the_largest_measured_cpu_time_and_its_request_rate(row):
    largest = max(
        find_largest_cpu_milliseconds(name) for name in CACHE_PAGE_ROWS_BY_SIZING_ROW[row]
    )
    figure, unit, about, rate = read_cells_of_row(SIZING_SECTION, row)
    assert (float(figure), unit, about) == (largest, "ms", "about")
    assert int(rate) == pytest.approx(1000 / largest, rel=0.05)


def test_worker_memory_in_sizing_equals_that_of_the_provider_cache_page():
    million = re.search(r"caches 1 000 000 providers\s+holds (\d+) MB", PROVIDER_CACHE_PAGE)[1]
    assert read_cells_of_row(SIZING_SECTION, "1 000 000")[:2] == [million, "MB"]
