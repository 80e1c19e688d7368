# SPDX-License-Identifier: Apache-2.0
"""The page Capacity of the sample cloud in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, WIDE, find_accessibility_faults

pytestmark = pytest.mark.exhaustive

PAGE = "/console/capacity"
ASKED = f"{PAGE}?vcpus=8&ram=16384&disk=100&per=zone"
DRAINED = f"{ASKED}&drain=az1-r01-hdd01&drain=az1-r01-hdd02"


def test_flavor_by_sizes_is_counted_without_a_page_load(visit):
    page = visit(PAGE)
    for label, size in (("VCPUs", "8"), ("Memory, MiB", "16384"), ("Disk, GiB", "100")):
        page.get_by_role("spinbutton", name=label).fill(size)
    page.get_by_label("Count per").select_option("zone")
    page.get_by_role("button", name="Count").click()
    page.wait_for_url("**per=zone**")
    expect(page.locator("table.capacity tbody tr")).to_have_count(1)
    assert "az1" in page.locator("table.capacity thead").inner_text()
    page.reload()
    assert page.locator("table.capacity tbody tr").count() == 1


def test_drained_hosts_of_a_link_are_editable(visit):
    page = visit(DRAINED)
    lines = page.locator("textarea[name=change]")
    assert lines.input_value().strip() == "drain=az1-r01-hdd01,az1-r01-hdd02"
    moved = page.locator("section[aria-labelledby=moves-title] tbody tr")
    expect(moved.nth(1)).to_be_attached()
    before = moved.count()
    page.get_by_text("Change the question").click()
    lines.fill("drain=az1-r01-hdd01")
    page.get_by_role("button", name="Count").press("Enter")
    page.wait_for_url("**change=**")
    expect(moved.first).to_be_attached()
    assert 0 < moved.count() < before


def test_invalid_change_is_reported_and_kept(visit):
    page = visit(f"{ASKED}&change=lift=cn1", expected_errors=("change=lift",))
    assert "expected drain=" in page.get_by_role("alert").inner_text()
    assert page.locator("textarea[name=change]").input_value().strip() == "lift=cn1"


def test_form_works_without_scripts(visit):
    page = visit(ASKED, scripts=False)
    page.get_by_text("Change the question").click()
    page.get_by_role("button", name="Count", exact=True).click()
    assert page.locator("table.capacity").count() == 1


def test_advice_on_moves_is_requested(visit):
    page = visit(f"{PAGE}/moves")
    page.get_by_label("Goal").select_option("spread")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**goal=spread**")
    expect(page.locator(".conclusion")).to_be_visible()
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", [ASKED, DRAINED], ids=["counted", "drained"])
def test_an_answer_is_accessible(visit, path, dark):
    page = visit(path, dark=dark)
    assert find_accessibility_faults(page) == []


def test_an_answer_fits_a_phone(visit):
    page = visit(DRAINED, size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert find_accessibility_faults(page) == []


def test_flavors_appear_as_they_are_counted_and_can_be_cancelled(visit):
    page = visit(PAGE)
    answered = []

    def answer(route):
        answered.append(route.request.url)
        if len(answered) < 3:
            route.continue_()

    page.route("**/capacity/row?**", answer)
    page.get_by_role("link", name="Count all flavors").click()
    expect(page.locator("table.capacity tbody tr[data-part]")).to_have_count(2)
    expect(page.locator("table.capacity")).to_contain_text("Counting")
    page.locator("table.capacity").get_by_role("button", name="Cancel").click()
    expect(page.locator("table.capacity tbody tr").last).to_contain_text("Not counted: cancelled")


def test_drained_aggregate_begins_with_a_verdict(visit):
    page = visit(f"{PAGE}?flavor=g.large&drain=aggregate:gpu")
    verdict = page.locator("section[aria-labelledby=moves-title] .conclusion")
    expect(verdict).to_contain_text("64 of 64 instances fit nowhere else", timeout=20_000)
    expect(page.locator("table.capacity tbody tr")).to_contain_text("→ 0")


def test_table_is_sorted_by_a_click_on_a_title(visit):
    page = visit(f"{PAGE}?all=1")
    rows = page.locator("table.capacity tbody tr")
    expect(page.locator("table.capacity tbody tr[data-part]")).to_have_count(5, timeout=20_000)
    page.get_by_role("button", name="All hosts").click()
    counts = [int(row.get_attribute("data-sort")) for row in rows.locator("td:nth-child(2)").all()]
    assert counts == sorted(counts, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("All hosts")


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_plan_of_a_drain_is_loaded_when_it_is_opened(visit, size):
    page = visit("/console/hosts/az1-r01-hdd01", size=size)
    page.wait_for_load_state("networkidle")
    expect(page.locator("[data-part]")).to_have_count(0)
    page.get_by_text("Plan: the moves").click()
    expect(page.locator("[data-part] .conclusion")).to_contain_text("fit on other hosts")
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_failover_capacity_is_shown_without_a_page_load(visit, size):
    page = visit("/console/capacity", size=size)
    page.get_by_text("If hosts fail").click()
    page.get_by_role("button", name="Examine").click()
    page.wait_for_selector("[data-answer]", timeout=60_000)
    expect(page.locator(".conclusion")).to_contain_text("All instances find places")
    assert page.url.endswith("/console/capacity/failover?host_failures=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert find_accessibility_faults(page) == []
