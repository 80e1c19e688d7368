# SPDX-License-Identifier: Apache-2.0
"""The page Decisions in a real browser: filters, live rows, a decision, and its replay."""

import pytest
from playwright.sync_api import expect

from tests.support.scheduling import make_spec

pytestmark = pytest.mark.exhaustive

DECISIONS_PATH = "/console/decisions"
ROW_SELECTOR = ".decisions tbody tr"
HTML_IMAGE_TAG = "<img src=x onerror=document.title=1>"
#: More than any host of the sample cloud has.
TOO_LARGE_FLAVOR = {"name": HTML_IMAGE_TAG, "vcpus": 9000, "memory_mb": 1024, "root_gb": 1}
SMALL_FLAVOR = {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1}


def record_decision(server, flavor, project="live") -> str:
    """Have a request decided, unclaimed, and return the uuid of the decision."""
    body = {"request_spec": make_spec(flavor=flavor, project_id=project), "claim": False}
    _, response = server.post("/scheduler/v1/select_destinations", body)
    return response.get("decision") or response["errors"][0]["decision"]


def test_decision_filter_is_applied_without_a_page_load_and_undone_by_the_back_button(open_page):
    page = open_page(DECISIONS_PATH)
    before = page.locator(ROW_SELECTOR).count()
    page.get_by_label("Outcome").select_option("no valid host")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/decisions?outcome=no_valid_host")
    assert 0 < page.locator(ROW_SELECTOR).count() < before
    assert page.get_by_label("Outcome").input_value() == "no_valid_host"
    page.go_back()
    page.wait_for_url("**/decisions")
    expect(page.locator(ROW_SELECTOR)).to_have_count(before)


def test_new_decision_appears_at_the_top_of_the_list(open_page, sample_server):
    page = open_page(f"{DECISIONS_PATH}?project_id=live")
    before = page.locator(ROW_SELECTOR).count()
    uuid = record_decision(sample_server, TOO_LARGE_FLAVOR)
    expect(page.locator(ROW_SELECTOR).first).to_have_attribute("id", f"d-{uuid}", timeout=20_000)
    expect(page.locator(ROW_SELECTOR)).to_have_count(before + 1)
    expect(page.locator("#news")).to_contain_text("new decision")
    expect(page.locator("#list")).to_have_text(f"{before + 1} decision: 0 placed, 1 failed")
    expect(page.locator(".facets")).to_contain_text("no valid host")
    expect(page.locator("svg[data-timeline] a title").last).to_contain_text("1 failed")
    assert "No valid host" in page.locator(ROW_SELECTOR).first.inner_text()
    expect(page.locator(f"{ROW_SELECTOR} td").nth(2)).to_have_text(HTML_IMAGE_TAG)
    assert page.locator("main img").count() == 0


def test_first_decision_replaces_the_notice_that_no_decision_matches(open_page, sample_server):
    page = open_page(f"{DECISIONS_PATH}?project_id=first")
    assert page.locator(".empty").is_visible()
    record_decision(sample_server, SMALL_FLAVOR, "first")
    expect(page.locator(ROW_SELECTOR)).to_have_count(1, timeout=20_000)
    expect(page.locator(".empty")).to_have_count(0)


def test_paused_list_of_decisions_does_not_update(open_page, sample_server):
    page = open_page(f"{DECISIONS_PATH}?project_id=paused")
    page.get_by_role("button", name="Pause").click()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    record_decision(sample_server, SMALL_FLAVOR, "paused")
    page.wait_for_timeout(4_000)  # longer than it waits between two requests
    assert requests == []
    assert page.locator(ROW_SELECTOR).count() == 0
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(ROW_SELECTOR)).to_have_count(1, timeout=20_000)


def test_drag_over_the_timeline_selects_a_time_range(open_page, sample_server):
    record_decision(sample_server, SMALL_FLAVOR, "drag")
    page = open_page(DECISIONS_PATH)
    box = page.locator("svg[data-timeline]").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 25)
    page.mouse.up()
    page.wait_for_url("**since=*until=*")
    assert page.get_by_label("Since").input_value()
