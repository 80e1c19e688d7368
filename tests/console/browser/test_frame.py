# SPDX-License-Identifier: Apache-2.0
"""Parts that all pages share, in a real browser."""

import pytest
from playwright.sync_api import expect

from placement_sched.console.page import NAVIGATION
from tests.console.browser.conftest import PHONE, WIDE, find_accessibility_faults
from tests.support.servers import serve_database

pytestmark = pytest.mark.exhaustive

PATHS = [f"/console/{path}" for _, path, _ in NAVIGATION]
PATHS.append("/console/policies?policy=default&beside=default")
#: Returns the lowest contrast of the placeholders of the page with the background.
PLACEHOLDER_CONTRAST = """() => {
  const luminance = (colour) => {
    const part = (value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = colour.match(/[0-9]+/g).map(Number).map(part);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const fields = [...document.querySelectorAll("main [placeholder]")];
  return Math.min(...fields.map((field) => {
    const ink = luminance(getComputedStyle(field, "::placeholder").color);
    const back = luminance(getComputedStyle(field).backgroundColor);
    return (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
  }));
}"""


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_and_fits_the_screen(visit, path, size):
    page = visit(path, size=size, dark=size == PHONE)
    page.wait_for_load_state("networkidle")
    assert find_accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_read_without_scripts(visit, path):
    page = visit(path, scripts=False, size=WIDE)
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("path", ["/console/decisions", "/console/capacity"])
def test_placeholders_are_readable_in_dark_colours(visit, path):
    """Fault F18: a contrast of 3.9."""
    page = visit(path, dark=True)
    assert page.evaluate(PLACEHOLDER_CONTRAST) >= 4.5


def test_empty_cloud_names_the_command_that_fills_it(visit, tmp_path):
    """Fault F19: the command was on the page Ask alone."""
    with serve_database(tmp_path) as server:
        for path in ("", "ask", "cloud"):
            page = visit(f"/console/{path}", server=server)
            expect(page.locator("main")).to_contain_text("placement-sched fleet load FILE.yaml")


CUT = """() => [...document.querySelectorAll("input[placeholder]")]
  .filter((field) => field.offsetParent)
  .filter((field) => {
    const pen = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return pen.measureText(field.placeholder).width > room;
  })
  .map((field) => field.placeholder)"""


@pytest.mark.parametrize("path", ["capacity", "capacity/moves", "decisions", "ask", "cloud"])
@pytest.mark.parametrize("size", [{"width": 1440, "height": 900}, PHONE], ids=["wide", "phone"])
def test_no_placeholder_is_cut(visit, path, size):
    page = visit(f"/console/{path}", size=size)
    assert page.evaluate(CUT) == []


SCROLLED = """() => [...document.querySelectorAll("main .wide")]
  .filter((part) => part.scrollWidth > part.clientWidth
    || part.scrollHeight > part.clientHeight + 1)
  .map((part) => part.getAttribute("aria-labelledby"))"""


@pytest.mark.parametrize(
    "path", ["", "hosts/az1-r03-ssd07", "ask?flavor=g.large", "capacity/plan?drain=az1-r07-gpu01"]
)
def test_no_table_is_cut_on_a_phone(visit, path):
    page = visit(f"/console/{path}", size=PHONE)
    page.wait_for_load_state("networkidle")
    assert page.evaluate(SCROLLED) == []
