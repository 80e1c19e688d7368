# SPDX-License-Identifier: Apache-2.0
"""Paths, headers and contents of pages."""

import pytest
from webtest import TestApp

from placement_sched.extensions.console.page import NAVIGATION

NAVIGATION_PATHS = [f"/console/{path}" for _, path, _ in NAVIGATION]
SAME_ORIGIN_HEADERS = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}


def read_text(part) -> str:
    return " ".join(part.get_text(" ").split())


def find_link_address(page, words: str) -> str:
    (found,) = {each["href"] for each in page.html.find_all("a") if read_text(each) == words}
    return found


def read_rows_of_section(page, of: str) -> list[str]:
    found = page.html.select(f"[aria-labelledby={of}] tbody tr")
    return [row.get_text(" ", strip=True) for row in found]


@pytest.fixture
def browser(app_without_hosts) -> TestApp:
    return TestApp(app_without_hosts)
