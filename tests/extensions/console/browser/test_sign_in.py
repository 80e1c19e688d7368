# SPDX-License-Identifier: Apache-2.0
"""Signing in with keystone and out again, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.extensions.console.browser.conftest import PHONE_SIZE, find_accessibility_violations
from tests.support import identity
from tests.support.identity import PASSWORD, USER
from tests.support.servers import build_environment, start_server

pytestmark = pytest.mark.exhaustive

KEYSTONE_CONFIG = """
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {keystone}/v3
username = placement
password = open sesame
user_domain_name = Default
project_domain_name = Default
project_name = service
"""


@pytest.fixture(scope="module")
def server_with_keystone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    with identity.run_keystone() as keystone:
        (folder / "keystone.conf").write_text(KEYSTONE_CONFIG.format(keystone=keystone.url))
        up = build_environment(OS_DEFAULT__SERVICE_DOWN_TIME="86400")
        arguments = ("--config-file", folder / "keystone.conf")
        with start_server(*arguments, folder=folder, variables=up) as server:
            yield server


def fill_sign_in_form(page, password):
    page.get_by_label("User", exact=True).fill(USER)
    page.get_by_label("Password").fill(password)
    page.get_by_label("Project", exact=True).fill("service")
    page.get_by_role("button", name="Sign in").click()


def test_user_signs_in_to_the_requested_page_and_signs_out(open_page, server_with_keystone):
    form = open_page("/console/sign-in", server=server_with_keystone, size=PHONE_SIZE)
    assert find_accessibility_violations(form) == []
    assert form.evaluate("document.documentElement.scrollWidth") <= PHONE_SIZE["width"]
    page = open_page("/console/sign-in?next=/console/ask", server=server_with_keystone)
    fill_sign_in_form(page, PASSWORD)
    page.wait_for_url("**/console/ask")
    expect(page.locator(".person")).to_contain_text(f"{USER}, service")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/sign-in")
    page.goto("/console/ask")
    page.wait_for_url("**/console/sign-in?next=*")


def test_expired_sign_in_leads_to_the_form_and_back_to_the_page(open_page, server_with_keystone):
    """The page kept its colours, with a message in small text and no link."""
    page = open_page("/console/sign-in?next=/console/", server=server_with_keystone)
    fill_sign_in_form(page, PASSWORD)
    page.wait_for_url("**/console/")
    page.clock.install()
    page.reload()
    expect(page.locator("#as-of")).to_contain_text("next in")
    page.context.clear_cookies()
    page.clock.run_for(60_000)
    expect(page.get_by_role("alert")).to_contain_text("Your sign-in has expired.")
    expect(page.locator("main")).to_have_class("is-stale")
    page.get_by_role("link", name="Sign in again").click()
    page.wait_for_url("**/console/sign-in?next=*")
    fill_sign_in_form(page, PASSWORD)
    page.wait_for_url("**/console/")
