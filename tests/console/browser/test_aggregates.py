# SPDX-License-Identifier: Apache-2.0
"""The page Aggregates of the sample cloud in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, find_accessibility_faults

pytestmark = pytest.mark.exhaustive

PAGE = "/console/aggregates"


def test_the_hosts_of_an_aggregate_open_by_keyboard(visit):
    page = visit(PAGE)
    row = page.locator("tr#a-gpu")
    assert not row.locator(".hosts li").first.is_visible()
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(row.locator(".hosts li").first).to_be_visible()
    assert find_accessibility_faults(page) == []


def test_reserved_aggregates_are_read_on_a_phone(visit):
    page = visit(PAGE, size=PHONE, dark=True)
    assert "gpu" in page.locator("section[aria-labelledby=reserved]").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert find_accessibility_faults(page) == []
