# SPDX-License-Identifier: Apache-2.0
"""The page Decisions in a real browser: filters, live rows, a decision, and its replay."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, find_accessibility_faults
from tests.support.scheduling import spec

pytestmark = pytest.mark.exhaustive

PAGE = "/console/decisions"
ROWS = ".decisions tbody tr"
#: More than any host of the sample cloud has.
TOO_LARGE = {"name": "huge", "vcpus": 9000, "memory_mb": 1024, "root_gb": 1}
SMALL = {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1}


def record_decision(server, flavor, project="live") -> str:
    """Have a request decided, unclaimed, and return the uuid of the decision."""
    body = {"request_spec": spec(flavor=flavor, project_id=project), "claim": False}
    _, answer = server.post("/scheduler/v1/select_destinations", body)
    return answer.get("decision") or answer["errors"][0]["decision"]


def test_filter_is_applied_without_a_page_load_and_undone_by_back(visit):
    page = visit(PAGE)
    before = page.locator(ROWS).count()
    page.get_by_label("Outcome").select_option("no valid host")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/decisions?outcome=no_valid_host")
    assert 0 < page.locator(ROWS).count() < before
    assert page.get_by_label("Outcome").input_value() == "no_valid_host"
    page.go_back()
    page.wait_for_url("**/decisions")
    expect(page.locator(ROWS)).to_have_count(before)


def test_invalid_filter_is_announced_and_can_be_fixed(visit):
    page = visit(PAGE, expected_errors=("since=long",))
    page.get_by_label("Since").fill("long ago")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_focused()
    assert page.get_by_label("Since").input_value() == "long ago"
    page.get_by_label("Since").fill("1d")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_new_decision_appears_at_the_top(visit, sample_server):
    page = visit(f"{PAGE}?project_id=live")
    before = page.locator(ROWS).count()
    uuid = record_decision(sample_server, TOO_LARGE)
    expect(page.locator(ROWS).first).to_have_attribute("id", f"d-{uuid}", timeout=20_000)
    expect(page.locator(ROWS)).to_have_count(before + 1)
    expect(page.locator("#news")).to_contain_text("new decision")
    assert "No valid host" in page.locator(ROWS).first.inner_text()


def test_first_decision_replaces_the_empty_state(visit, sample_server):
    page = visit(f"{PAGE}?project_id=first")
    assert page.locator(".empty").is_visible()
    record_decision(sample_server, SMALL, "first")
    expect(page.locator(ROWS)).to_have_count(1, timeout=20_000)
    expect(page.locator(".empty")).to_have_count(0)


def test_paused_page_does_not_update(visit, sample_server):
    page = visit(f"{PAGE}?project_id=paused")
    page.get_by_role("button", name="Pause").click()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    record_decision(sample_server, SMALL, "paused")
    page.wait_for_timeout(4_000)  # longer than it waits between two questions
    assert requests == []
    assert page.locator(ROWS).count() == 0
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(ROWS)).to_have_count(1, timeout=20_000)


def test_filtered_list_is_updated(visit, sample_server):
    page = visit(PAGE)
    page.get_by_text("More filters").click()
    page.get_by_label("Project").fill("filtered")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**project_id=filtered")
    record_decision(sample_server, SMALL, "filtered")
    expect(page.locator(ROWS)).to_have_count(1, timeout=20_000)


def test_new_malicious_name_is_shown_as_text(visit, sample_server):
    page = visit(f"{PAGE}?project_id=attack")
    name = "<img src=x onerror=document.title=1>"
    record_decision(sample_server, {**SMALL, "name": name}, "attack")
    expect(page.locator(f"{ROWS} td").nth(2)).to_have_text(name, timeout=20_000)
    assert page.locator("main img").count() == 0


def test_list_is_filtered_and_reloaded_without_scripts(visit, sample_server):
    page = visit(f"{PAGE}?project_id=plain", scripts=False)
    assert not page.locator("#pause").is_visible()
    record_decision(sample_server, SMALL, "plain")
    page.locator("noscript a").click()
    assert page.locator(ROWS).count() == 1
    page.get_by_label("Outcome").select_option("no valid host")
    page.get_by_role("button", name="Search").click()
    assert "No recorded decision" in page.locator(".empty").inner_text()


def test_failed_decision_is_opened_and_replayed_by_keyboard(visit, sample_server):
    record_decision(sample_server, TOO_LARGE, "keys")
    page = visit(f"{PAGE}?project_id=keys")
    link = page.locator(f"{ROWS} a").first
    for _ in range(40):
        page.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/decisions/*-*")
    assert "No valid host" in page.locator(".conclusion").inner_text()
    again = page.get_by_role("link", name="Ask again today")
    for _ in range(40):
        page.keyboard.press("Tab")
        if again.evaluate("link => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/replay")
    expect(page.locator("#differences")).to_be_visible()


def test_a_report_is_downloaded(visit, sample_server):
    uuid = record_decision(sample_server, TOO_LARGE, "report")
    page = visit(f"{PAGE}/{uuid}")
    page.get_by_text("Share", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Report (HTML)").click()
    assert download.value.suggested_filename == f"decision-{uuid}.html"
    assert "No valid host" in download.value.path().read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("below", ["", "/replay"])
def test_a_decision_is_accessible(visit, sample_server, below, dark):
    page = visit(f"{PAGE}/{record_decision(sample_server, SMALL, 'seen')}{below}", dark=dark)
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize("below", ["", "/replay"])
def test_decision_fits_a_phone_screen(visit, sample_server, below):
    page = visit(f"{PAGE}/{record_decision(sample_server, SMALL, 'phone')}{below}", size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert find_accessibility_faults(page) == []


def test_drag_over_the_timeline_selects_a_time_range(visit, sample_server):
    record_decision(sample_server, SMALL, "drag")
    page = visit(PAGE)
    box = page.locator("svg[data-timeline]").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 25)
    page.mouse.up()
    page.wait_for_url("**since=*until=*")
    assert page.get_by_label("Since").input_value()


def test_facet_filters_the_list_and_is_removed_again(visit, sample_server):
    record_decision(sample_server, TOO_LARGE, "facet")
    page = visit(f"{PAGE}?project_id=facet")
    page.locator(".facets").get_by_role("link", name="not enough VCPU").click()
    page.wait_for_url("**stage=*")
    assert page.locator(ROWS).count() == 1
    page.locator(".facets").get_by_role("link", name="not enough VCPU").click()
    expect(page.locator(".facets [aria-current]")).to_have_count(1)
