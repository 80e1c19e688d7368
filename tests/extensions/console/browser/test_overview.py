# SPDX-License-Identifier: Apache-2.0
"""The page Overview and the search box in a real browser."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.exhaustive

OVERVIEW_PATH = "/console/"


def test_all_sections_of_the_overview_are_visible_without_scrolling(open_page):
    page = open_page(OVERVIEW_PATH, size={"width": 1280, "height": 720})
    expect(page.locator(".fits tbody tr").first).to_be_visible(timeout=20_000)
    for heading in ("hosts", "attention", "requests", "rules", "full", "fits"):
        box = page.locator(f"section[aria-labelledby={heading}]").bounding_box()
        assert box["y"] < 500
    assert page.locator(".uses tbody tr").last.bounding_box()["y"] < 720


def test_slash_key_focuses_the_search_box_which_opens_a_host(open_page):
    page = open_page("/console/policies")
    page.keyboard.press("/")
    page.keyboard.type("az1-r03-ssd07")
    page.keyboard.press("Enter")
    page.wait_for_url("**/hosts/az1-r03-ssd07")


def test_link_of_the_share_menu_can_be_copied_without_a_clipboard(open_page):
    """Over plain HTTP the text to copy was once invisible."""
    page = open_page("/console/policies")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.locator(".share summary").click()
    page.get_by_role("button", name="Copy Link").click()
    expect(page.locator("#share-link")).to_be_visible()
    selected = page.evaluate(
        "document.activeElement.value.slice(0, document.activeElement.selectionEnd)"
    )
    assert selected.endswith("/console/policies")
