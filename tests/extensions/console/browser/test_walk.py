# SPDX-License-Identifier: Apache-2.0
"""A walk through the console in a real browser, which every change must pass."""

import re

import pytest
from playwright.sync_api import expect

from placement_sched.extensions.console.page import NAVIGATION
from tests.extensions.console.ask_page import ASK_PATH
from tests.extensions.console.browser.ask_page import fill_ask_form, wait_for_map

pytestmark = pytest.mark.system


def test_each_console_page_is_reachable_by_its_link(open_page):
    page = open_page("/")
    for name, path, _ in NAVIGATION:
        page.get_by_role("link", name=name, exact=True).first.click()
        page.wait_for_url(f"**/console/{path}")
        assert page.locator("nav [aria-current=page]").inner_text() == name


def test_links_lead_from_a_request_to_a_stage_and_to_its_host_and_back(open_page):
    page = open_page(ASK_PATH)
    fill_ask_form(page, vcpus="32", ram="16384", disk="100", zone="az1")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")
    assert "zone=az1" in page.url
    wait_for_map(page)
    page.get_by_role("link", name="ComputeFilter", exact=True).click()
    expect(page.get_by_role("heading", name="ComputeFilter")).to_be_visible()
    page.get_by_role("link", name="az1-r03-ssd07").click()
    expect(page.locator("#why")).to_contain_text(re.compile("az1-r03-ssd07.*rejected", re.DOTALL))
    page.go_back()
    expect(page.get_by_role("heading", name="ComputeFilter")).to_be_visible()
    page.go_back()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")
