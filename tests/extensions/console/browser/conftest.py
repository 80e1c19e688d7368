# SPDX-License-Identifier: Apache-2.0
"""A real browser on a real server: Debian's chromium, and the sample cloud of ``demo``.

A test fails if a page has a script error, gets a response with an error status, or sends a request
to another origin. ``expected_errors`` names addresses whose errors are expected.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Response,
    Route,
    sync_playwright,
)

from placement_sched.extensions.fleet import demo as demos
from tests.support import program
from tests.support.servers import Server, build_environment, start_server

#: Set by CI: without a browser a test then fails and is not skipped.
BROWSER_IS_REQUIRED = bool(
    os.environ.get("PLACEMENT_SCHED_REQUIRE_BROWSER") or os.environ.get("CI")
)
DESKTOP_SIZE, PHONE_SIZE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium without a window."""
    found = shutil.which("chromium")
    if found is None:
        assert not BROWSER_IS_REQUIRED, "chromium is not installed: apt-get install chromium"
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def sample_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the sample cloud with the decisions of ``demo``."""
    folder = tmp_path_factory.mktemp("sample")
    result = program.run_program("demo", "--keep", "cloud", cwd=folder, env=build_environment())
    assert result.returncode == 0, result.stderr
    config = folder / "cloud" / demos.CONFIG_NAME
    with start_server("--config-file", config, folder=folder) as server:
        yield server


class PageWithErrorCheck:
    """A page and its errors."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.faults: list[str] = []
        #: Parts of addresses whose errors are expected.
        self.expected_errors: list[str] = []
        self._origin = origin
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", self._record_console_error)
        page.on("request", self._record_request_to_another_origin)
        page.on("response", self._record_error_response)

    def check(self) -> None:
        """Fail if an error was recorded."""
        assert self.faults == []

    def _is_expected_error_address(self, address: str) -> bool:
        return any(part in address for part in self.expected_errors)

    def _record_console_error(self, message: ConsoleMessage) -> None:
        about = str(message.location.get("url", ""))
        if message.type == "error" and not self._is_expected_error_address(about):
            self.faults.append(f"console: {message.text} ({about})")

    def _record_request_to_another_origin(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if (
            parts.scheme not in {"data", "blob"}
            and f"{parts.scheme}://{parts.netloc}" != self._origin
        ):
            self.faults.append(f"another origin: {request.url}")

    def _record_error_response(self, response: Response) -> None:
        if response.status >= 400 and not self._is_expected_error_address(response.url):
            self.faults.append(f"{response.status}: {response.url}")


PageOpener = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, sample_server: Server) -> Iterator[PageOpener]:
    """Give a function that opens a path of the console and returns the page.

    ``size`` is WIDE or PHONE, ``dark`` prefers dark colours, ``expected_errors`` is as above, and
    ``server`` can be a server other than the sample cloud's.
    """
    opened: list[PageWithErrorCheck] = []

    def open_page(
        path: str,
        *,
        size: dict[str, int] = DESKTOP_SIZE,
        dark: bool = False,
        expected_errors: tuple[str, ...] = (),
        server: Server = sample_server,
        scripts: bool = True,
    ) -> Page:
        context = browser.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            base_url=server.url,
            java_script_enabled=scripts,
        )
        watched = PageWithErrorCheck(context.new_page(), server.url)
        watched.expected_errors += expected_errors
        opened.append(watched)
        watched.page.goto(path)
        return watched.page

    yield open_page
    for watched in opened:
        watched.page.context.close()
    for watched in opened:
        watched.check()


def move_pointer_to_a_host(page: Page) -> str:
    """Move the pointer to a cell of the map and return the name of its host."""
    box = page.get_by_label("Map of hosts").bounding_box()
    tip = page.locator(".tip")
    for step in range(20, 200, 5):
        page.mouse.move(box["x"] + step, box["y"] + step)
        if tip.is_visible():
            break
    return tip.locator("b").inner_text()


def continue_held_requests(routes: list[Route]) -> None:
    """Continue the held requests, unless the page has cancelled them."""
    for route in routes:
        with suppress(Error):
            route.continue_()


def find_accessibility_violations(page: Page) -> list[str]:
    """Return the violations of WCAG 2.2 A and AA that axe-core finds on a page."""
    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    # The rule about the size of targets is off by default.
    options = {"runOnly": levels, "rules": {"target-size": {"enabled": True}}}
    found = Axe().run(page, options=options)
    return [
        f"{fault['id']} ({fault['impact']}): {fault['help']}: {node['html'][:200]}"
        for fault in found.response["violations"]
        for node in fault["nodes"]
    ]
