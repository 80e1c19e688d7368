# SPDX-License-Identifier: Apache-2.0
"""The page Capacity of the sample cloud in a real browser."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.exhaustive

CAPACITY_PATH = "/console/capacity"


def test_capacity_for_typed_sizes_is_counted_without_a_page_load(open_page):
    page = open_page(CAPACITY_PATH)
    for label, size in (("VCPUs", "8"), ("Memory, MiB", "16384"), ("Disk, GiB", "100")):
        page.get_by_role("spinbutton", name=label).fill(size)
    page.get_by_label("Count per").select_option("zone")
    page.get_by_role("button", name="Count").click()
    page.wait_for_url("**per=zone**")
    expect(page.locator("table.capacity tbody tr")).to_have_count(1)
    assert "az1" in page.locator("table.capacity thead").inner_text()
    page.reload()
    assert page.locator("table.capacity tbody tr").count() == 1


def test_row_of_each_flavor_appears_when_it_is_counted_and_counting_can_be_cancelled(open_page):
    page = open_page(CAPACITY_PATH)
    answered = []

    def hold_later_requests(route):
        answered.append(route.request.url)
        if len(answered) < 3:
            route.continue_()

    page.route("**/capacity/row?**", hold_later_requests)
    page.get_by_role("link", name="Count all flavors").click()
    expect(page.locator("table.capacity tbody tr[data-part]")).to_have_count(2)
    expect(page.locator("table.capacity")).to_contain_text("Counting")
    page.locator("table.capacity").get_by_role("button", name="Cancel").click()
    expect(page.locator("table.capacity tbody tr").last).to_contain_text("Not counted")


def test_failed_simulation_of_changes_is_reported_once(open_page):
    """A wrong host was reported once for each flavor."""
    page = open_page(
        f"{CAPACITY_PATH}?all=1&change=drain=lost&change=add=az1-r01-hdd01*2",
        expected_errors=("/console/capacity/plan",),
    )
    expect(page.locator("[data-first]")).to_contain_text("Not counted: ")
    expect(page.locator("[data-first]")).to_contain_text("lost")
    states = page.locator("table.capacity [data-state]")
    expect(states.last).to_have_text("Not counted")
    assert set(states.all_inner_texts()) == {"Not counted"}


def test_capacity_table_is_sorted_by_a_click_on_a_column_title(open_page):
    page = open_page(f"{CAPACITY_PATH}?all=1")
    rows = page.locator("table.capacity tbody tr")
    expect(page.locator("table.capacity tbody tr[data-part]")).to_have_count(5, timeout=20_000)
    page.get_by_role("button", name="All hosts").click()
    counts = [int(row.get_attribute("data-sort")) for row in rows.locator("td:nth-child(2)").all()]
    assert counts == sorted(counts, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("All hosts")


def test_plan_of_a_drain_is_loaded_when_its_section_is_opened(open_page):
    page = open_page("/console/hosts/az1-r01-hdd01")
    page.wait_for_load_state("networkidle")
    expect(page.locator("[data-part]")).to_have_count(0)
    page.get_by_text("Plan: the moves").click()
    expect(page.locator("[data-part] .conclusion")).to_contain_text("fit on other hosts")
