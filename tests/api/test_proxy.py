# SPDX-License-Identifier: Apache-2.0
"""``enable_proxy_headers_parsing``: addresses of requests through a proxy."""

import logging

from webtest import TestApp

from placement_sched.api.middleware import log_requests

PROXY_HEADERS_CONFIG = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
FORWARDED_HEADERS = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "cloud.example.com",
    "X-Forwarded-For": "192.0.2.7",
}


def list_version_document_links(app, path, headers):
    """Return every link of a version document."""
    links = []

    def collect_links(value):
        if isinstance(value, dict):
            links.extend(str(value[key]) for key in value if key == "href")
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                collect_links(one)

    collect_links(app.get(path, headers=headers).json)
    return links


VERSION_DOCUMENT_PATHS = ("/compute", "/image/versions", "/identity/v3")


def test_links_of_version_documents_use_address_and_prefix_of_the_proxy(make_configured_app):
    app = make_configured_app(PROXY_HEADERS_CONFIG)
    forwarded = {"Forwarded": "for=192.0.2.7;proto=https;host=cloud.example.com"}
    for path in VERSION_DOCUMENT_PATHS:
        for headers, prefix in (
            *((FORWARDED_HEADERS, ""), (forwarded, "")),
            ({**FORWARDED_HEADERS, "X-Forwarded-Prefix": "/cloud"}, "/cloud"),
        ):
            links = list_version_document_links(app, path, headers)
            assert links
            address = f"https://cloud.example.com{prefix}/"
            assert all(link.startswith(address) for link in links), links


def test_proxy_headers_are_ignored_by_default(sqlite_app):
    for path in VERSION_DOCUMENT_PATHS:
        links = list_version_document_links(sqlite_app, path, FORWARDED_HEADERS)
        assert not any("cloud.example.com" in link for link in links)


def test_access_log_has_the_client_address_of_the_forwarded_header(make_configured_app, caplog):
    caplog.set_level(logging.INFO)
    app = TestApp(log_requests(make_configured_app(PROXY_HEADERS_CONFIG).app))
    app.get("/healthz", headers=FORWARDED_HEADERS)
    (line,) = [r.getMessage() for r in caplog.records if r.name == log_requests.__module__]
    assert line.startswith("192.0.2.7 ")
