# SPDX-License-Identifier: Apache-2.0
"""Accessibility and layout of every view, in a real browser."""

import pytest

from placement_sched.extensions.console.page import NAVIGATION
from tests.extensions.console.ask_page import ASK_PATH, RAM_WEIGHT
from tests.extensions.console.browser.ask_page import ASK_URL, ASK_URL_WITHOUT_VALID_HOST
from tests.extensions.console.browser.conftest import (
    DESKTOP_SIZE,
    PHONE_SIZE,
    find_accessibility_violations,
)

pytestmark = pytest.mark.exhaustive

NAVIGATION_PATHS = [f"/console/{path}" for _, path, _ in NAVIGATION]
CAPACITY_PATH = "/console/capacity"
FLAVOR_SIZE_QUERY = "vcpus=8&ram=16384&disk=100"
HOST_PATH = "/console/hosts/az1-r03-ssd07"
ASK_URL_WITH_FLAVOR = f"{ASK_PATH}?flavor=g.large"
DRAIN_PLAN_URL = f"{CAPACITY_PATH}/plan?drain=az1-r07-gpu01"
#: ``DECISION`` is the address of a decision.
CONSOLE_VIEW_URLS = [
    *NAVIGATION_PATHS,
    "/console/policies?policy=default&beside=default",
    "/console/cloud?open=az2-r03-ssd07",
    HOST_PATH,
    ASK_URL_WITH_FLAVOR,
    ASK_URL,
    ASK_URL_WITHOUT_VALID_HOST,
    f"{ASK_URL}&stage=ComputeFilter",
    f"{ASK_URL}&host=az2-r01-hdd01",
    f"{ASK_URL}&{RAM_WEIGHT}=-3&beside=default&beside_as_configured=1",
    f"{CAPACITY_PATH}?{FLAVOR_SIZE_QUERY}&per=zone",
    f"{CAPACITY_PATH}?{FLAVOR_SIZE_QUERY}&per=zone&drain=az1-r01-hdd01&drain=az1-r01-hdd02",
    DRAIN_PLAN_URL,
    f"{CAPACITY_PATH}/moves?goal=spread",
    f"{CAPACITY_PATH}/failover?host_failures=1",
    "DECISION",
    "DECISION/replay",
]
#: Returns the lowest contrast of the placeholders of the page with the background.
PLACEHOLDER_CONTRAST_SCRIPT = """() => {
  const luminance = (colour) => {
    const part = (value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = colour.match(/[0-9]+/g).map(Number).map(part);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const fields = [...document.querySelectorAll("main [placeholder]")]
    .filter((field) => field.offsetParent);
  return Math.min(99, ...fields.map((field) => {
    const ink = luminance(getComputedStyle(field, "::placeholder").color);
    const back = luminance(getComputedStyle(field).backgroundColor);
    return (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
  }));
}"""
TRUNCATED_PLACEHOLDERS_SCRIPT = """() => [...document.querySelectorAll("input[placeholder]")]
  .filter((field) => field.offsetParent)
  .filter((field) => {
    const pen = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return pen.measureText(field.placeholder).width > room;
  })
  .map((field) => field.placeholder)"""
OVERFLOWING_TABLES_SCRIPT = """() => [...document.querySelectorAll("main .wide")]
  .filter((part) => part.scrollWidth > part.clientWidth
    || part.scrollHeight > part.clientHeight + 1)
  .map((part) => part.getAttribute("aria-labelledby"))"""
#: Views whose tables fit a phone.
URLS_WITH_NARROW_TABLES = {"/console/", HOST_PATH, ASK_URL_WITH_FLAVOR, DRAIN_PLAN_URL}


@pytest.mark.parametrize("size", [DESKTOP_SIZE, PHONE_SIZE], ids=["light", "dark"])
@pytest.mark.parametrize("view", CONSOLE_VIEW_URLS)
def test_each_view_is_accessible_readable_and_fits_the_screen(open_page, sample_server, view, size):
    path = view
    if view.startswith("DECISION"):
        selected = sample_server.request_json("GET", "/scheduler/v1/decisions?outcome=selected")
        path = view.replace("DECISION", f"/console/decisions/{selected['decisions'][0]['uuid']}")
    page = open_page(path, size=size, dark=size == PHONE_SIZE)
    page.wait_for_load_state("networkidle")
    if not view.startswith(f"{ASK_PATH}?"):
        assert page.evaluate(TRUNCATED_PLACEHOLDERS_SCRIPT) == []
        assert page.evaluate(PLACEHOLDER_CONTRAST_SCRIPT) >= 4.5
    if size == PHONE_SIZE and view in URLS_WITH_NARROW_TABLES:
        assert page.evaluate(OVERFLOWING_TABLES_SCRIPT) == []
    if view.startswith(ASK_PATH):
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert find_accessibility_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("path", NAVIGATION_PATHS)
def test_page_can_be_read_without_scripts(open_page, path):
    page = open_page(path, scripts=False, size=DESKTOP_SIZE)
    assert page.locator("h1").count() == 1
