# SPDX-License-Identifier: Apache-2.0
"""The application without the console, and the console without what_if."""

import pytest
from webtest import TestApp

from placement_sched.extensions.console.page import NAVIGATION
from tests.extensions.console.pages import read_text
from tests.support.scheduling import make_report

BROWSER_HEADERS = {"Accept": "text/html"}
#: Paths below ``/console/`` of pages about capacities, plans and moves.
CAPACITY_PATHS = [
    "capacity",
    "capacity?flavor=m1",
    "capacity.csv?vcpus=1",
    "capacity/failover",
    "capacity/moves",
    "capacity/plan?drain=cn1",
    "overview/fits",
    "plan_runs",
]
#: Paths below ``/console/`` of pages that link to them.
LINKING_PATHS = [
    "",
    "ask?vcpus=1&ram=64&disk=1",
    "cloud",
    "decisions?kind=move",
    "hosts/cn1",
    *[path for name, path, _ in NAVIGATION if name != "Capacity"],
]


@pytest.fixture
def make_browser(sqlite_settings, make_app):
    """Return a function that creates a browser without some extensions."""

    def make(*disabled: str) -> TestApp:
        options = {"DEFAULT.disabled_extensions": list(disabled)}
        application = make_app(sqlite_settings.with_overrides(options))
        application.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
        return TestApp(application.app)

    return make


def test_disabled_console_has_no_pages(make_browser):
    browser = make_browser("console")
    response = browser.get("/", headers=BROWSER_HEADERS)
    assert response.json["apis"]
    for path in ("/console/", "/console/ask", "/console/static/report.css", "/console/sign-in"):
        missing = browser.get(path, headers=BROWSER_HEADERS, status=404)
        assert "Content-Security-Policy" not in missing.headers
        assert missing.content_type == "application/json"


def test_console_without_what_if_has_no_pages_of_capacities_and_plans(make_browser):
    browser = make_browser("what_if")
    for path in CAPACITY_PATHS:
        page = browser.get(f"/console/{path}", headers=BROWSER_HEADERS, status=404)
        assert read_text(page.html.h1) == "404 Not Found"
        assert "The console has no page" in page


def test_console_without_what_if_has_no_links_to_its_pages(make_browser):
    browser = make_browser("what_if")
    complete_browser = make_browser()
    for path in LINKING_PATHS:
        page = browser.get(f"/console/{path}").text
        assert "/console/capacity" not in page
        assert "/console/plan_runs" not in page
        assert "/overview/fits" not in page
        assert "/console/capacity" in complete_browser.get(f"/console/{path}")
