# SPDX-License-Identifier: Apache-2.0
"""Links start with the address that the client used, even if its host name is not valid."""

import pytest

from placement_sched.api.request import origin_of
from tests.support.versions import LATEST_HEADERS

ADMIN = {**LATEST_HEADERS, "X-Auth-Token": "admin"}
SERVER = {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8778"}


@pytest.mark.parametrize(
    ("scheme", "host", "origin"),
    [
        ("http", "placement_backend", "http://placement_backend"),
        ("http", "Here:8778", "http://Here:8778"),
        ("http", "here:80", "http://here"),
        ("https", "here:443", "https://here"),
        ("https", "here:80", "https://here:80"),
        ("http", "[fe80::1%25eth0]:8778", "http://[fe80::1%25eth0]:8778"),
        ("http", "[::1]", "http://[::1]"),
        ("http", "a..b", "http://a..b"),
        ("http", "", "http://127.0.0.1:8778"),
        ("http", None, "http://127.0.0.1:8778"),
    ],
)
def test_origin_uses_the_requested_host(scheme, host, origin):
    named = {} if host is None else {"HTTP_HOST": host}
    assert origin_of({"wsgi.url_scheme": scheme, **SERVER, **named}) == origin


@pytest.mark.parametrize("host", ["a..b", "placement_backend", f"{'x' * 64}.example.com", "h,h2"])
def test_write_is_answered_for_any_host_name(sqlite_app, host):
    headers = {**ADMIN, "Host": host}
    answer = sqlite_app.put("/placement/traits/CUSTOM_X", headers=headers, status=201)
    assert answer.headers["Location"] == f"http://{host}/placement/traits/CUSTOM_X"
    body = {"name": "x"}
    provider = sqlite_app.post_json("/placement/resource_providers", body, headers=headers)
    assert provider.headers["Location"] == (
        f"http://{host}/placement/resource_providers/{provider.json['uuid']}"
    )


def test_version_document_links_include_the_prefix(sqlite_app):
    (version,) = sqlite_app.get("/placement/").json["versions"]
    assert version["links"] == [{"rel": "self", "href": ""}]
