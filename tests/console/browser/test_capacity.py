# SPDX-License-Identifier: Apache-2.0
"""The page Capacity of the sample cloud in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, find_accessibility_faults

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
    expect(page.locator("table.capacity tbody tr")).to_have_count(4)
    page.reload()
    assert page.locator("table.capacity tbody tr").count() == 4


def test_drained_hosts_of_a_link_are_editable(visit):
    page = visit(DRAINED)
    lines = page.locator("textarea[name=change]")
    assert lines.input_value().strip() == "drain=az1-r01-hdd01,az1-r01-hdd02"
    moved = page.locator("section[aria-labelledby=moves] tbody tr")
    before = moved.count()
    assert before > 1
    lines.fill("drain=az1-r01-hdd01")
    page.get_by_role("button", name="Count").press("Enter")
    page.wait_for_url("**change=**")
    assert 0 < moved.count() < before


def test_invalid_change_is_reported_and_kept(visit):
    page = visit(f"{ASKED}&change=lift=cn1", expected_errors=("change=lift",))
    assert "expected drain=" in page.get_by_role("alert").inner_text()
    assert page.locator("textarea[name=change]").input_value().strip() == "lift=cn1"


def test_form_works_without_scripts(visit):
    page = visit(ASKED, scripts=False)
    page.get_by_role("button", name="Count").click()
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
