# SPDX-License-Identifier: Apache-2.0
"""Access to the console, its responses, and its proxy to the APIs."""

import pytest
from webtest import TestApp

from tests.extensions.console.pages import NAVIGATION_PATHS, SAME_ORIGIN_HEADERS
from tests.extensions.console.pages import browser as browser  # noqa: PLC0414 - a fixture

BROWSER_HEADERS = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
REMOTE_HOST_HEADERS = {**BROWSER_HEADERS, "Host": "scheduler.example.com"}
EXPLAIN_API_PATH = "/console/api/scheduler/v1/explain"


@pytest.fixture
def browser_of_enabled_console(sqlite_settings, make_app) -> TestApp:
    return TestApp(make_app(sqlite_settings.with_overrides({"console.enabled": True})).app)


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/html;q=0.5, */*"])
def test_root_is_the_json_list_of_apis_unless_the_client_prefers_html(browser, accept):
    response = browser.get("/", headers={"Accept": accept} if accept else {})
    assert response.json["apis"]


def test_root_response_has_vary_header_accept(browser):
    assert browser.get("/").headers["Vary"] == "Accept"
    page = browser.get("/", headers=BROWSER_HEADERS).headers["Vary"]
    assert set(page.split(", ")) == {"Accept", "Accept-Encoding"}
    assert "<h1>Overview</h1>" in browser.get("/", headers=BROWSER_HEADERS)


@pytest.mark.parametrize("path", ["/", *NAVIGATION_PATHS])
def test_page_has_neither_inline_scripts_nor_inline_styles(browser, path):
    page = browser.get(path, headers=BROWSER_HEADERS)
    assert all(script.get("src") for script in page.html.find_all("script"))
    assert page.html.find_all("style") == []
    for tag in page.html.find_all(True):
        assert not [name for name in tag.attrs if name == "style" or name.startswith("on")]


def test_console_is_404_for_clients_on_other_machines_by_default(browser):
    assert browser.get("/", headers=REMOTE_HOST_HEADERS).json["apis"]
    rejection = browser.get("/console/", headers=REMOTE_HOST_HEADERS, status=404)
    assert "[console] enabled" in rejection


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"],
)
def test_console_is_404_for_a_request_with_proxy_headers(browser, header):
    browser.get("/console/", headers={header: "192.0.2.1"}, status=404)


def test_console_is_404_for_a_client_with_another_ip_address(browser):
    browser.get("/console/", extra_environ={"REMOTE_ADDR": "192.0.2.1"}, status=404)
    browser.get("/console/", extra_environ={"REMOTE_ADDR": "127.0.0.1"})


def test_enabled_console_is_served_to_other_machines(browser_of_enabled_console):
    assert "<h1>Overview</h1>" in browser_of_enabled_console.get("/", headers=REMOTE_HOST_HEADERS)


def test_every_page_of_a_disabled_console_is_404(sqlite_settings, make_app):
    client = TestApp(make_app(sqlite_settings.with_overrides({"console.enabled": False})).app)
    assert client.get("/", headers=BROWSER_HEADERS).json["apis"]
    client.get("/console/", status=404)


def test_api_proxy_uses_the_token_of_the_user(browser):
    assert browser.get("/console/api/scheduler/v1/policies").json["policies"]
    rejection = browser.post(EXPLAIN_API_PATH, "{}", headers=SAME_ORIGIN_HEADERS, status=400)
    assert "request_spec" in rejection.json["errors"][0]["detail"]


@pytest.mark.parametrize("path", ["/", *NAVIGATION_PATHS, "/console/api/scheduler/v1/policies"])
def test_head_of_a_page_has_the_headers_of_get_and_no_body(browser, path):
    shown = browser.get(path, headers=BROWSER_HEADERS)
    head = browser.head(path, headers=BROWSER_HEADERS)
    assert head.body == b""
    names = ("Content-Type", "Content-Length", "Content-Security-Policy", "Cache-Control")
    assert [head.headers[name] for name in names] == [shown.headers[name] for name in names]


def test_api_proxy_of_the_console_rejects_write_requests(browser):
    body = '{"request_spec": {}}'
    path = "/console/api/scheduler/v1/select_destinations"
    rejection = browser.post(path, body, headers=SAME_ORIGIN_HEADERS, status=403)
    assert "is read-only" in rejection.json["errors"][0]["detail"]
    browser.put(path, body, headers=SAME_ORIGIN_HEADERS, status=405)
    browser.delete("/console/api/scheduler/v1/instances/x", headers=SAME_ORIGIN_HEADERS, status=405)


@pytest.mark.parametrize(
    "path",
    ["console/api/scheduler/v1", "console/", "metrics", "healthz", "/scheduler/v1", "../scheduler"],
)
def test_api_proxy_serves_api_paths_only(browser, path):
    browser.get(f"/console/api/{path}", headers=SAME_ORIGIN_HEADERS, status=404)


def test_pages_can_be_opened_by_links_from_other_sites(browser):
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    browser.get("/console/ask", headers=opened)
    fetched = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    browser.get("/console/ask", headers=fetched, status=403)
