# SPDX-License-Identifier: Apache-2.0
"""Helpers for the form and the map of the Ask page."""

from playwright.sync_api import expect

from tests.extensions.console.ask_page import ASK_PATH

ASK_URL = f"{ASK_PATH}?vcpus=32&ram=16384&disk=100&zone=az1"
ASK_URL_WITHOUT_VALID_HOST = f"{ASK_URL}&property=trait:HW_CPU_X86_AMD_SEV_ES%3Drequired"


def fill_ask_form(page, **fields: str) -> None:
    """Fill fields of the form. The sizes are folded while flavors are stored."""
    if "vcpus" in fields:
        page.locator("#more-fields > summary").click()
    for name, value in fields.items():
        page.locator(f"#request-form [name={name}]").fill(value)


def wait_for_map(page):
    """Wait until the map has been drawn, and return the page."""
    expect(page.locator(".map .pointed")).not_to_have_text("Reading hosts")
    assert page.locator(".map canvas").is_visible()
    return page
