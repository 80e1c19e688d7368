# SPDX-License-Identifier: Apache-2.0
"""Accessibility and layout of every view, in a real browser."""

import pytest

from placement_sched.console.page import NAVIGATION
from tests.console.browser.conftest import PHONE, WIDE, find_accessibility_faults
from tests.console.browser.test_ask import ASK, IN_ZONE, RAM, REFUSED

pytestmark = pytest.mark.exhaustive

PATHS = [f"/console/{path}" for _, path, _ in NAVIGATION]
CAPACITY = "/console/capacity"
SIZES = "vcpus=8&ram=16384&disk=100"
HOST = "/console/hosts/az1-r03-ssd07"
FLAVOR = f"{ASK}?flavor=g.large"
PLAN = f"{CAPACITY}/plan?drain=az1-r07-gpu01"
#: ``DECISION`` is the address of a decision.
VIEWS = [
    *PATHS,
    "/console/policies?policy=default&beside=default",
    "/console/cloud?open=az2-r03-ssd07",
    HOST,
    FLAVOR,
    IN_ZONE,
    REFUSED,
    f"{IN_ZONE}&stage=ComputeFilter",
    f"{IN_ZONE}&host=az2-r01-hdd01",
    f"{IN_ZONE}&{RAM}=-3&beside=default&beside_as_configured=1",
    f"{CAPACITY}?{SIZES}&per=zone",
    f"{CAPACITY}?{SIZES}&per=zone&drain=az1-r01-hdd01&drain=az1-r01-hdd02",
    PLAN,
    f"{CAPACITY}/moves?goal=spread",
    f"{CAPACITY}/failover?host_failures=1",
    "DECISION",
    "DECISION/replay",
]
#: Returns the lowest contrast of the placeholders of the page with the background.
PLACEHOLDER_CONTRAST = """() => {
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
CUT_PLACEHOLDERS = """() => [...document.querySelectorAll("input[placeholder]")]
  .filter((field) => field.offsetParent)
  .filter((field) => {
    const pen = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return pen.measureText(field.placeholder).width > room;
  })
  .map((field) => field.placeholder)"""
CUT_TABLES = """() => [...document.querySelectorAll("main .wide")]
  .filter((part) => part.scrollWidth > part.clientWidth
    || part.scrollHeight > part.clientHeight + 1)
  .map((part) => part.getAttribute("aria-labelledby"))"""
#: Views whose tables fit a phone.
NARROW = {"/console/", HOST, FLAVOR, PLAN}


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_accessible_readable_and_fits_the_screen(visit, sample_server, view, size):
    path = view
    if view.startswith("DECISION"):
        selected = sample_server.request_json("GET", "/scheduler/v1/decisions?outcome=selected")
        path = view.replace("DECISION", f"/console/decisions/{selected['decisions'][0]['uuid']}")
    page = visit(path, size=size, dark=size == PHONE)
    page.wait_for_load_state("networkidle")
    if not view.startswith(f"{ASK}?"):
        assert page.evaluate(CUT_PLACEHOLDERS) == []
        assert page.evaluate(PLACEHOLDER_CONTRAST) >= 4.5
    if size == PHONE and view in NARROW:
        assert page.evaluate(CUT_TABLES) == []
    if view.startswith(ASK):
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert find_accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_read_without_scripts(visit, path):
    page = visit(path, scripts=False, size=WIDE)
    assert page.locator("h1").count() == 1
