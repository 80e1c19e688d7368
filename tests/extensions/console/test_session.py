# SPDX-License-Identifier: Apache-2.0
"""Sessions of the console with keystone."""

import logging
import shutil
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from webtest import TestApp

from placement_sched.api.middleware import log_requests
from placement_sched.app import create_app
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.support import identity
from tests.support.identity import PASSWORD, USER

KEYSTONE_CONFIG = """
[api]
auth_strategy = keystone
[console]
enabled = true
[keystone_authtoken]
auth_type = password
auth_url = {keystone}/v3
username = placement
password = open sesame
user_domain_name = Default
project_domain_name = Default
project_name = service
http_request_max_retries = 0
token_cache_time = -1
[placement_database]
connection = {database}
"""
SIGN_IN_FORM = {"user": USER, "password": PASSWORD, "project": "service"}
SAME_ORIGIN_HEADERS = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
#: The name of the token's cookie with TLS and without.
COOKIE_NAME, HTTP_COOKIE_NAME = "__Host-placement_sched_token", "placement_sched_token"
HTTPS_ENVIRON = {"wsgi.url_scheme": "https", "HTTP_HOST": "scheduler.example.com"}


@contextmanager
def make_console_app_with_keystone(keystone_url, folder, template, options=""):
    shutil.copy(template, folder / "console.db")
    file = folder / "console.conf"
    database = f"sqlite:///{folder}/console.db"
    file.write_text(KEYSTONE_CONFIG.format(keystone=keystone_url, database=database) + options)
    application = create_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
    yield application
    application.close()


@pytest.fixture(scope="module")
def keystone():
    with identity.run_keystone() as service:
        yield service


@pytest.fixture(scope="module")
def console_app(keystone, tmp_path_factory, sqlite_template):
    with make_console_app_with_keystone(
        keystone.url, tmp_path_factory.mktemp("session"), sqlite_template
    ) as made:
        yield made


@pytest.fixture
def browser(console_app):
    return TestApp(log_requests(console_app), extra_environ=HTTPS_ENVIRON)


@pytest.fixture
def browser_without_keystone(tmp_path, sqlite_template):
    with make_console_app_with_keystone(
        "http://127.0.0.1:9", tmp_path, sqlite_template
    ) as application:
        yield TestApp(log_requests(application), extra_environ=HTTPS_ENVIRON)


def read_redirect_path(response):
    """Return the path on this service that a response redirects to."""
    parts = urlsplit(response.headers["Location"])
    assert parts.netloc in {"", HTTPS_ENVIRON["HTTP_HOST"], "localhost"}
    return parts.path


def post_sign_in_form(browser, **filled):
    form = {**SIGN_IN_FORM, **filled}
    return browser.post("/console/sign-in", form, headers=SAME_ORIGIN_HEADERS, status="*")


def test_page_without_a_token_redirects_to_sign_in(browser):
    response = browser.get("/console/policies?name=default", status=303)
    assert read_redirect_path(response) == "/console/sign-in"
    query = urlsplit(response.headers["Location"]).query
    assert parse_qs(query) == {"next": ["/console/policies?name=default"]}


def test_sign_in_redirects_to_the_requested_page(browser):
    response = post_sign_in_form(browser, next="/console/policies")
    assert (response.status_int, read_redirect_path(response)) == (303, "/console/policies")
    page = response.follow()
    assert f"{USER}, service" in page.html.find(class_="person").text


CONSOLE_URLS = ["/?open=cn1", "/console/hosts/cn1", "/console/ask?flavor=x"]
OTHER_SITE_URLS = ["https://other.example.com/", "//other.example.com", "/\\other", "javascript:1"]
OTHER_SITE_URLS += ["//[", "/console/\r\nX: 1"]


@pytest.mark.parametrize(
    ("address", "target"),
    [
        *zip(CONSOLE_URLS, CONSOLE_URLS, strict=True),
        *((site, "/console/") for site in OTHER_SITE_URLS),
    ],
)
def test_sign_in_redirects_to_addresses_of_the_console_only(browser, address, target):
    assert post_sign_in_form(browser, next=address).headers["Location"].endswith(target)


def test_sign_in_cookies_have_the_host_prefix_and_are_for_this_site_only(browser):
    cookies = post_sign_in_form(browser).headers.getall("Set-Cookie")
    assert len(cookies) == 2
    for cookie in cookies:
        parts = {part.strip() for part in cookie.split(";")}
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= parts
        assert cookie.startswith("__Host-placement_sched_")
        assert not [part for part in parts if part.startswith("Domain")]


def test_token_of_a_signed_in_user_is_not_in_logs_or_urls(browser, caplog):
    caplog.set_level(logging.DEBUG)
    response = post_sign_in_form(browser)
    token = browser.cookies[COOKIE_NAME]
    assert token
    page = browser.get("/console/policies")
    assert token not in caplog.text
    assert PASSWORD not in caplog.text
    assert token not in response.headers["Location"]
    assert token not in page.text


def test_wrong_password_is_rejected_and_other_sign_in_fields_are_kept(browser):
    response = post_sign_in_form(browser, password="wrong")
    assert response.status_int == 401
    assert "rejected this user" in response.html.find(role="alert").text
    assert response.form["user"].value == USER
    assert response.form["password"].value == ""
    assert browser.cookies == {}


def test_unavailable_keystone_is_reported_on_the_sign_in_page(browser_without_keystone):
    response = post_sign_in_form(browser_without_keystone)
    assert response.status_int == 503
    assert "Keystone failed" in response.html.find(role="alert").text


def test_password_is_not_sent_without_tls(browser):
    response = browser.post(
        "/console/sign-in",
        SIGN_IN_FORM,
        headers=SAME_ORIGIN_HEADERS,
        extra_environ={"wsgi.url_scheme": "http"},
        status=403,
    )
    assert "https" in response.html.find(role="alert").text


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/sign-out"])
def test_other_sites_cannot_sign_users_in_or_out(browser, path):
    other = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    browser.post(path, SIGN_IN_FORM, headers=other, status=403)
    browser.post(path, SIGN_IN_FORM, headers={"Origin": "https://other.example.com"}, status=403)
    browser.post(path, SIGN_IN_FORM, status=403)


def test_cookie_path_is_the_mount_path_of_the_console(browser):
    mounted = {"SCRIPT_NAME": "/scheduling"}
    response = browser.post(
        "/console/sign-in", SIGN_IN_FORM, headers=SAME_ORIGIN_HEADERS, extra_environ=mounted
    )
    for cookie in response.headers.getall("Set-Cookie"):
        assert cookie.startswith("__Secure-placement_sched_")
        assert "Path=/scheduling" in cookie


def test_cookies_over_http_on_this_machine_are_not_secure(browser):
    browser.extra_environ = {}
    response = post_sign_in_form(browser)
    assert response.status_int == 303
    for cookie in response.headers.getall("Set-Cookie"):
        assert cookie.startswith("placement_sched_")
        assert "Secure" not in cookie
        assert "SameSite=Strict" in cookie
    browser.get("/console/policies")


def test_sign_out_deletes_the_cookie(browser):
    post_sign_in_form(browser)
    browser.get("/console/policies")
    browser.post("/console/sign-out", headers=SAME_ORIGIN_HEADERS, status=303)
    assert browser.cookies == {}
    response = browser.get("/console/policies", status=303)
    assert "Sign in again" not in response.follow()


def test_sign_out_revokes_the_token(browser, keystone):
    post_sign_in_form(browser)
    token = browser.cookies[COOKIE_NAME]
    browser.get("/console/sign-out", headers=SAME_ORIGIN_HEADERS, status=303)
    assert keystone.is_valid(token), "a link does not sign out"
    browser.post("/console/sign-out", headers=SAME_ORIGIN_HEADERS, status=303)
    assert not keystone.is_valid(token)


@pytest.mark.parametrize("token", ["unknown", '"a\\012b"', ""])
def test_sign_out_removes_an_invalid_token_cookie(browser, token):
    response = browser.post(
        "/console/sign-out", headers={**SAME_ORIGIN_HEADERS, **build_cookie(token)}, status=303
    )
    assert_cookie_deleted(response)


def test_sign_out_does_not_wait_for_keystone(browser_without_keystone, caplog):
    headers = {**SAME_ORIGIN_HEADERS, **build_cookie("x" * 9)}
    response = browser_without_keystone.post("/console/sign-out", headers=headers, status=303)
    assert_cookie_deleted(response)
    assert "did not revoke a token" in caplog.text
    assert "x" * 9 not in caplog.text


def build_cookie(token):
    return {"Cookie": f"{COOKIE_NAME}={token}; {COOKIE_NAME.replace('token', 'person')}=ann"}


def assert_cookie_deleted(response):
    cookies = response.headers.getall("Set-Cookie")
    assert len(cookies) == 2
    for cookie in cookies:
        assert "Max-Age=0" in cookie
        assert {"Secure", "Path=/"} <= {part.strip() for part in cookie.split(";")}


INVALID_TOKENS = ["", "gAAAAABmb2xk" * 30, "a b", '"a\\012X-Roles: admin"', '"\\303\\251"']
INVALID_TOKENS += ["\xe9", "\xe6\x97\xa5", "../../../etc/passwd", "x" * 8000]


@pytest.mark.parametrize("path", ["/", "/console/ask?flavor=x"])
@pytest.mark.parametrize("token", INVALID_TOKENS, ids=lambda token: token[:20])
def test_invalid_token_cookie_is_removed_and_reported(browser, path, token):
    headers = {"Accept": "text/html", **build_cookie(token)}
    response = browser.get(path, headers=headers, status=303)
    assert read_redirect_path(response) == "/console/sign-in"
    assert_cookie_deleted(response)
    form = browser.get(response.headers["Location"])
    assert "Sign in again" in form.html.find(role="alert").text
    assert form.form["next"].value.startswith(path)
    browser.get("/console/sign-in", headers=headers, status=200)


def test_expired_token_redirects_to_sign_in_with_a_message(browser, keystone):
    headers = build_cookie(keystone.issue_token("ann", "demo", "admin", seconds=-60))
    response = browser.get("/console/policies", headers=headers, status=303)
    assert_cookie_deleted(response)
    assert "has expired" in response.follow().html.find(role="alert").text


def test_expired_token_cookie_is_reported_on_the_sign_in_page(browser):
    post_sign_in_form(browser)
    ages = {}
    for cookie in post_sign_in_form(browser).headers.getall("Set-Cookie"):
        parts = dict(part.strip().partition("=")[::2] for part in cookie.split(";"))
        ages[cookie.partition("=")[0]] = int(parts["Max-Age"])
    token, name = ages[COOKIE_NAME], ages[COOKIE_NAME.replace("token", "person")]
    assert token <= 3600 < name
    browser.cookiejar.clear("scheduler.example.com", "/", COOKIE_NAME)
    response = browser.get("/console/policies", status=303)
    assert "has expired" in response.follow().html.find(role="alert").text


def test_sign_in_page_without_a_previous_session_has_no_message(browser):
    form = browser.get("/console/policies", status=303).follow()
    assert form.html.find(role="alert") is None


def test_revoked_token_redirects_to_sign_in(browser, keystone):
    post_sign_in_form(browser)
    keystone.revoke_token(browser.cookies[COOKIE_NAME])
    response = browser.get("/console/policies", status=303)
    assert read_redirect_path(response) == "/console/sign-in"
    assert browser.cookies == {}
    post_sign_in_form(browser)
    browser.get("/console/policies")


def test_api_request_of_a_script_without_a_token_is_401_as_json(browser):
    response = browser.get("/console/api/scheduler/v1/policies", status=401)
    assert response.json["errors"][0]["code"] == "scheduler.unauthorized"


def test_page_is_403_with_the_reason_for_a_role_without_permission(browser, keystone):
    token = keystone.issue_token("reader", "demo", "reader")
    browser.set_cookie(COOKIE_NAME, token)
    page = browser.get("/console/decisions", status=403)
    assert "policy" in page.html.find(role="alert").text.lower()
    text = " ".join(page.html.main.get_text(" ").split())
    assert "scheduler:decisions:list" in text
    assert "By default this rule allows the role admin." in text


def test_navigation_has_the_pages_that_the_roles_of_a_member_allow(
    keystone, tmp_path, sqlite_template
):
    """A member had seven tabs, and each answered 403."""
    rules = tmp_path / "policy.yaml"
    rules.write_text('"scheduler:decisions:list": "role:reader"\n"scheduler:explain": "@"\n')
    options = f"[oslo_policy]\npolicy_file = {rules}\n"
    with make_console_app_with_keystone(
        keystone.url, tmp_path, sqlite_template, options
    ) as application:
        browser = TestApp(log_requests(application), extra_environ=HTTPS_ENVIRON)
        browser.set_cookie(COOKIE_NAME, keystone.issue_token("reader", "demo", "reader"))
        page = browser.get("/console/cloud", status=403)
        tabs = [link.text for link in page.html.select("nav[aria-label=Pages] a")]
        assert tabs == ["Ask", "Decisions", "Capacity"]
        links = [link.text for link in page.html.select("main p a")]
        assert links == tabs
        for tab in tabs:
            browser.get(f"/console/{tab.lower()}")
        page = browser.get("/console/search?q=az1")
        assert "Your roles do not allow a search of hosts." in page


def test_console_has_no_sign_in_page_with_noauth2(sqlite_app):
    browser = TestApp(sqlite_app.app)
    assert read_redirect_path(browser.get("/console/sign-in", status=303)) == "/console/"
