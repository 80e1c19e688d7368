# SPDX-License-Identifier: Apache-2.0
"""Errors, security headers and rejected requests of the console's pages."""

from datetime import UTC, timedelta

import pytest
from webtest import TestApp

from placement_sched.extensions.console.page import describe_address
from placement_sched.model.clock import utcnow
from tests.conftest import make_settings
from tests.extensions.console.pages import NAVIGATION_PATHS, SAME_ORIGIN_HEADERS, read_text
from tests.extensions.console.pages import browser as browser  # noqa: PLC0414 - a fixture
from tests.support.scheduling import make_report

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STYLESHEET_PATH = "/console/static/report.css"
SERVER_URL = "http://192.0.2.1:8778"
LONG_TEXT = "a" * 9000
#: Paths without a page.
UNKNOWN_PATHS = [
    "/console//",
    "/console/../../etc/passwd",
    "/console/..%2f..%2fetc/passwd",
    "/console/%00",
    "/console/%ff%fe",
    "/console/<script>alert(1)</script>",
    "/console/hosts/../../../etc/passwd",
    "/console/decisions/%00",
    "/console/static/%00",
    "/console/static/%2e%2e/page.py",
    "/console/static/..%5cpage.py",
    "/console/api/",
    "/console/api/scheduler/v1/%00",
    f"/console/{LONG_TEXT}",
    f"/console/api/{LONG_TEXT}",
    f"/console/{'x/' * 3000}",
    f"/console/?q={LONG_TEXT * 8}",
    f"/console/api/scheduler/v1/decisions?project_id={LONG_TEXT * 8}",
    "/console/ask?flavor=%00",
    "/console/policies?policy=%00",
]


def check_security_headers(response, cache_control: str = "no-store") -> None:
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert {name: response.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert response.headers["Cache-Control"] == cache_control
    for name in (*SECURITY_HEADERS, "Content-Security-Policy", "Cache-Control"):
        assert len(response.headers.getall(name)) == 1


@pytest.mark.parametrize("path", UNKNOWN_PATHS, ids=lambda path: path[:50])
def test_unknown_or_malformed_url_shows_a_short_error_page_with_security_headers(
    browser, path, caplog
):
    response = browser.get(path, headers={"Accept": "text/html"}, status="4*")
    check_security_headers(response)
    assert "Traceback" not in response.text
    assert len(response.body) < 20_000
    assert "failed" not in caplog.text
    if response.content_type == "text/html":
        assert response.html.find(role="alert").get_text().strip()
        assert all(not script.text for script in response.html.find_all("script"))
    else:
        assert response.json["errors"][0]["detail"]


@pytest.mark.parametrize(
    "path",
    [*NAVIGATION_PATHS, "/console", "/console/sign-in", "/console/api/scheduler/v1/policies"],
)
def test_pages_and_api_responses_are_not_cached(browser, path):
    check_security_headers(browser.get(path, status="*"))


@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip"}, {"Range": "bytes=0-9"}])
def test_static_files_have_security_headers_and_are_revalidated(browser, headers):
    first = browser.get(STYLESHEET_PATH, headers=headers, status="*")
    check_security_headers(first, cache_control="no-cache")
    again = {"If-None-Match": first.headers["ETag"]}
    check_security_headers(
        browser.get(STYLESHEET_PATH, headers=again, status=304), cache_control="no-cache"
    )


@pytest.mark.parametrize(
    "path", ["/console/", "/console/ask", "/console/decisions/x", STYLESHEET_PATH]
)
def test_page_rejects_methods_other_than_get(app_without_hosts, path):
    client = TestApp(app_without_hosts, lint=False)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        response = client.request(path, method=method, headers=SAME_ORIGIN_HEADERS, status=405)
        check_security_headers(response)
        assert f"does not support {method}" in response.html.find(role="alert").text
        assert response.headers["Allow"] == "GET, HEAD"
    check_security_headers(
        client.request(path, method="STEAL", headers=SAME_ORIGIN_HEADERS, status=405)
    )


def test_incomplete_request_body_is_rejected_with_security_headers(browser):
    environ = {"CONTENT_LENGTH": "100"}
    response = browser.request(
        "/console/sign-in", method="POST", environ=environ, headers=SAME_ORIGIN_HEADERS, status=400
    )
    check_security_headers(response)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://other.example.com"},
        {"Origin": "http://["},
        {"Origin": "null"},
        *(
            {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            for site in ("cross-site", "same-site")
            for mode in ("navigate", "cors")
        ),
    ],
)
def test_cross_origin_requests_are_rejected(browser, headers):
    for path in ("/console/ask", "/console/api/scheduler/v1/explain", STYLESHEET_PATH):
        response = browser.post(path, "a=b", headers=headers, status=403)
        check_security_headers(response)
        assert "another origin" in response.text


def test_paths_outside_the_console_have_no_content_security_policy(browser):
    for path in ("/healthz", "/consoles", "/scheduler/v1/policies"):
        response = browser.get(path, headers={"X-Auth-Token": "admin"}, status="*")
        assert "Content-Security-Policy" not in response.headers


@pytest.mark.parametrize(
    ("host", "is_enabled", "is_shown"),
    [
        ("127.0.0.1", None, True),
        ("192.0.2.1", None, False),
        ("192.0.2.1", True, True),
        ("127.0.0.1", False, False),
    ],
)
def test_serve_shows_the_address_of_the_console_if_the_host_serves_it(
    sqlite_settings, host, is_enabled, is_shown
):
    settings = sqlite_settings.with_overrides({"console.enabled": is_enabled})
    line = describe_address(settings, host, SERVER_URL)
    assert line == (f"the console is at {SERVER_URL}/" if is_shown else "")


def test_every_page_of_a_fleet_file_has_a_notice_with_its_time(sqlite_url, make_app):
    make_app(make_settings(sqlite_url)).post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1")]
    )
    moment = utcnow() + timedelta(days=3)
    seconds = int(moment.replace(tzinfo=UTC).timestamp())
    settings = make_settings(sqlite_url, placement_database__shown_at=seconds)
    browser = TestApp(make_app(settings).app)
    for path in (*NAVIGATION_PATHS, "/console/hosts/cn1"):
        page = browser.get(path)
        notice = " ".join(page.html.select_one(".notice").get_text().split())
        assert notice.startswith(f"This server shows a file, as of {moment:%d %b %Y %H:%M} UTC.")
        assert page.html.select_one("#as-of") is None
    attention = browser.get("/console/").html.select_one("section[aria-labelledby=attention]")
    assert "cn1 ✗ down , seen 3 days ago" in read_text(attention)


def test_page_of_a_current_cloud_has_no_notice_of_a_file(browser):
    assert "shows a file" not in browser.get("/console/")
