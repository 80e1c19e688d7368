# SPDX-License-Identifier: Apache-2.0
"""Compression of the console's responses with gzip."""

import re
from datetime import datetime
from gzip import decompress

import pytest
from bs4 import BeautifulSoup
from werkzeug.test import Client

from placement_sched.extensions.console import page
from placement_sched.extensions.console.page import NAVIGATION

GZIP_HEADERS = {"Accept": "text/html", "Accept-Encoding": "gzip, deflate, br"}
SAME_ORIGIN_HEADERS = {**GZIP_HEADERS, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
STYLESHEET_PATH = "/console/static/report.css"
POLICIES_API_PATH = "/console/api/scheduler/v1/policies"
#: Maximum number of bytes of the first page with all its files.
MAX_COMPRESSED_BYTES = 300_000


class ClientWithoutDecompression(Client):
    """A client that does not decompress responses."""

    def open(self, *request, **options):
        # Buffering closes the files.
        return super().open(*request, **options, buffered=True)


@pytest.fixture
def browser(app_without_hosts) -> Client:
    return ClientWithoutDecompression(app_without_hosts)


def is_compressed(response) -> bool:
    return response.headers.get("Content-Encoding") == "gzip"


def list_loaded_files(browser, html: str) -> set[str]:
    """Return the addresses of all files that a page loads, including imports of its scripts."""
    tags = (("script", "src"), ("link", "href"), ("img", "src"))
    page = BeautifulSoup(html, "html.parser")
    paths = {each[name] for tag, name in tags for each in page.find_all(tag)}
    new_paths = paths
    while new_paths:
        texts = {path: browser.get(path).text for path in new_paths if path.endswith(".js")}
        new_paths = {
            f"{path.rpartition('/')[0]}/{name}"
            for path, text in texts.items()
            for name in re.findall(r'^import .* from "\./(.+)";', text, re.MULTILINE)
        } - paths
        paths |= new_paths
    return paths


def test_first_console_page_and_its_files_are_below_300_kb_when_compressed(browser):
    first = list_loaded_files(browser, browser.get("/", headers={"Accept": "text/html"}).text)
    cloud = list_loaded_files(browser, browser.get("/console/cloud").text)
    assert "/console/static/map.js" in cloud, "an imported module"
    files = sorted({*first, *cloud})
    responses = [
        browser.get(path, headers=GZIP_HEADERS) for path in ("/", "/console/cloud", *files)
    ]
    assert sum(len(response.data) for response in responses) < MAX_COMPRESSED_BYTES
    assert all(is_compressed(response) for response in responses if len(response.data) >= 500)


@pytest.mark.parametrize(
    "path", ["/", POLICIES_API_PATH, STYLESHEET_PATH, *(f"/console/{p}" for _, p, _ in NAVIGATION)]
)
def test_decompressed_text_equals_the_uncompressed_text(browser, path, monkeypatch):
    monkeypatch.setattr(page, "utcnow", lambda: datetime(2026, 12, 1))  # pages show the time
    plain = browser.get(path, headers={"Accept": "text/html"})
    packed = browser.get(path, headers=GZIP_HEADERS)
    assert decompress(packed.data) == plain.data
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data)
    for response in (plain, packed):
        assert "Accept-Encoding" in response.headers["Vary"]


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip;q=0, *"])
@pytest.mark.parametrize("path", ["/console/", STYLESHEET_PATH])
def test_client_without_gzip_gets_uncompressed_text(browser, path, accepted):
    response = browser.get(path, headers={"Accept-Encoding": accepted})
    assert not is_compressed(response)
    assert "Accept-Encoding" in response.headers["Vary"]


@pytest.mark.parametrize("path", ["/console/", POLICIES_API_PATH, STYLESHEET_PATH])
def test_head_response_has_the_headers_of_the_compressed_response(browser, path):
    shown, head = browser.get(path, headers=GZIP_HEADERS), browser.head(path, headers=GZIP_HEADERS)
    assert head.data == b""
    for name in ("Content-Length", "Content-Encoding", "Content-Type", "Vary"):
        assert head.headers[name] == shown.headers[name]


def test_request_with_the_etag_of_a_compressed_file_is_304(browser):
    packed = browser.get(STYLESHEET_PATH, headers=GZIP_HEADERS)
    tag = packed.headers["ETag"]
    assert tag.startswith("W/"), "the plain text has the same tag, but other bytes"
    again = browser.get(STYLESHEET_PATH, headers={**GZIP_HEADERS, "If-None-Match": tag})
    assert (again.status_code, again.headers["ETag"]) == (304, tag)
    assert "Accept-Encoding" in again.headers["Vary"]
    plain = browser.get(STYLESHEET_PATH).headers["ETag"]
    assert plain == tag.removeprefix("W/")
    assert browser.get(STYLESHEET_PATH, headers={"If-None-Match": plain}).status_code == 304


def test_range_request_returns_uncompressed_text(browser):
    part = browser.get(STYLESHEET_PATH, headers={**GZIP_HEADERS, "Range": "bytes=0-9"})
    assert part.status_code == 206
    assert not is_compressed(part)
    assert part.data == browser.get(STYLESHEET_PATH).data[:10]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/", "/console/", "/console/ask?flavor=guessed"])
def test_page_opened_from_another_site_is_not_compressed(browser, path, site):
    headers = {**GZIP_HEADERS, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert not is_compressed(browser.get(path, headers=headers))
    assert is_compressed(browser.get(path, headers={**headers, "Sec-Fetch-Site": "none"}))


def test_api_responses_to_scripts_are_compressed(browser):
    assert is_compressed(browser.get(POLICIES_API_PATH, headers=SAME_ORIGIN_HEADERS))
    body = {"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {}}}}
    response = browser.post(
        "/console/api/scheduler/v1/explain", json=body, headers=SAME_ORIGIN_HEADERS
    )
    assert response.status_code == 200
    assert is_compressed(response)
