# SPDX-License-Identifier: Apache-2.0
"""The page Overview and the search box in a real browser."""

import re

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


def test_overview_shows_changes_of_the_cloud_without_a_reload(open_page, sample_server):
    page = open_page(OVERVIEW_PATH)
    page.clock.install()
    page.reload()
    attention = page.locator("section[aria-labelledby=attention]")
    expect(attention).to_contain_text("2 not up")
    expect(page.locator("#as-of")).to_have_text(re.compile(r"as of \d\d:\d\d UTC, next in \d+ s"))
    service = {"host": "az1-r01-hdd05", "binary": "nova-compute"}
    sample_server.request_json("PUT", "/compute/v2.1/os-services/disable", service)
    try:
        page.clock.run_for(60_000)
        expect(attention).to_contain_text("3 not up")
        expect(attention).to_contain_text("az1-r01-hdd05")
    finally:
        sample_server.request_json("PUT", "/compute/v2.1/os-services/enable", service)


def test_page_that_cannot_be_read_again_is_grey_and_says_why(open_page):
    page = open_page(OVERVIEW_PATH, expected_errors=(OVERVIEW_PATH,))
    page.clock.install()
    page.reload()
    expect(page.locator("#as-of")).to_contain_text("next in")
    page.route("**/console/", lambda route: route.abort())
    page.clock.run_for(60_000)
    bar = page.locator("#stale")
    expect(bar).to_contain_text("The service does not answer")
    expect(bar.get_by_role("link", name="Load the page again")).to_be_visible()
    expect(page.locator("main")).to_have_class("is-stale")
    page.unroute("**/console/")
    page.clock.run_for(60_000)
    expect(bar).to_have_count(0)


def test_paused_or_hidden_page_is_not_read_again(open_page):
    page = open_page(OVERVIEW_PATH)
    page.clock.install()
    page.reload()
    expect(page.locator(".fits tbody tr").first).to_be_visible(timeout=20_000)
    expect(page.locator("#as-of")).to_contain_text("next in")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    hidden = "{ value: 'hidden', configurable: true }"
    page.evaluate(f"Object.defineProperty(document, 'visibilityState', {hidden})")
    page.clock.run_for(120_000)
    assert requests == []
    page.evaluate("delete document.visibilityState")
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(120_000)
    assert requests == []
    expect(page.locator("#as-of")).to_contain_text("paused")
    with page.expect_request("**/console/"):
        page.get_by_role("button", name="Pause").click()
        page.clock.run_for(2_000)


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
