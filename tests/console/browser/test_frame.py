# SPDX-License-Identifier: Apache-2.0
"""What all pages share, in a real browser."""

import pytest

from placement_sched.console.page import NAVIGATION
from tests.console.browser.conftest import PHONE, WIDE, find_accessibility_faults

pytestmark = pytest.mark.exhaustive

PATHS = [f"/console/{path}" for _, path, _ in NAVIGATION]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible(visit, path, dark):
    page = visit(path, dark=dark)
    page.wait_for_load_state("networkidle")
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_phone(visit, path):
    page = visit(path, size=PHONE)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_read_without_scripts(visit, path):
    page = visit(path, scripts=False, size=WIDE)
    assert page.locator("h1").count() == 1


def test_unknown_page_shows_an_error(visit):
    page = visit("/console/nowhere", expected_errors=("/console/nowhere",))
    assert "no page nowhere" in page.get_by_role("alert").inner_text()


def test_the_first_page_is_sent_in_less_than_300_kb(visit):
    page = visit("/healthz", expected_errors=("/favicon.ico",))
    answers = []
    page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - playwright marks it
    page.goto("/")
    page.wait_for_load_state("networkidle")
    assert any("/console/overview/fits" in answer.url for answer in answers), (
        "also what scripts ask for"
    )
    assert sum(answer.request.sizes()["responseBodySize"] for answer in answers) < 300_000
    plain = [one.url for one in answers if "gzip" not in one.headers.get("content-encoding", "")]
    assert [url for url in plain if not url.endswith("icon.svg")] == [], "that is tiny"
