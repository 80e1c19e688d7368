# SPDX-License-Identifier: Apache-2.0
"""Content types of errors, compared with OpenStack's placement for each Accept header."""

from dataclasses import replace

import pytest

from tests.differential.exchange import Request
from tests.differential.state import clear_service_state
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

MISSING_PROVIDER_UUID = "deaddead-0000-4000-8000-000000000001"
PROVIDERS_PATH = "/resource_providers"

#: Accept headers with equal content types on both sides: nothing, JSON, or no JSON.
ACCEPT_HEADERS_WITH_EQUAL_TYPES = [
    None, "", "*/*", "application/json", "APPLICATION/JSON", "application/*",
    "application/json;q=0.1", "application/json, text/html;q=0.9",
    "application/json;q=0.9, */*;q=0.8", "text/html", "TEXT/HTML", "text/html;q=0.5",
    "text/html, text/plain", "text/plain, text/html", "text/plain;q=0.9, text/html;q=0.5",
    "text/*", "text/plain", "text/plain;q=0.5", "text/html;q=0", "text/html;q=0, text/*",
    "text/html;level=1", "text/html;charset=utf-8", "application/json;charset=utf-8",
    "application/json;q=0", "application/json;q=0, */*", "*/*;q=0", "application/xml",
    "image/png", ",",
]  # fmt: skip
#: Accept headers with JSON and HTML. Our errors are JSON, as responses without an error.
ACCEPT_HEADERS_WITH_JSON_FROM_US = [
    "text/html, application/json", "text/html;q=0.5, application/json;q=0.1",
    "application/json, text/plain, */*", "text/html, */*;q=0.1",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "*/*;q=0.5", "garbage",
]  # fmt: skip

REQUESTS_BY_ERROR = {
    "version that is not served": Request("GET", "/", "0.5"),
    "malformed version": Request("GET", "/", "x"),
    "no token": Request("GET", PROVIDERS_PATH, PEER_LATEST, headers={"X-Auth-Token": None}),
    "forbidden": Request(
        "PUT", "/traits/CUSTOM_A", PEER_LATEST, headers={"X-Auth-Token": "joe", "X-Roles": None}
    ),
    "unknown path": Request("GET", "/nope", PEER_LATEST),
    "path of a later version": Request("GET", "/allocation_candidates", "1.0"),
    "unknown method": Request("DELETE", PROVIDERS_PATH, PEER_LATEST),
    "missing provider": Request("DELETE", f"{PROVIDERS_PATH}/{MISSING_PROVIDER_UUID}", PEER_LATEST),
    "missing provider in a GET": Request(
        "GET", f"{PROVIDERS_PATH}/{MISSING_PROVIDER_UUID}", PEER_LATEST
    ),
    "malformed query": Request("GET", "/allocation_candidates?zork=1", PEER_LATEST),
    "malformed JSON": Request("POST", PROVIDERS_PATH, PEER_LATEST, text="{"),
    "body against the schema": Request("POST", PROVIDERS_PATH, PEER_LATEST, {}),
    "body without a content type": Request(
        "POST", PROVIDERS_PATH, PEER_LATEST, text="{}", headers={"Content-Type": None}
    ),
    "body of another type": Request(
        "POST", PROVIDERS_PATH, PEER_LATEST, text="{}", headers={"Content-Type": "text/plain"}
    ),
    "duplicate": Request("POST", "/resource_classes", PEER_LATEST, {"name": "CUSTOM_A"}),
}


@pytest.fixture(scope="module")
def cleared_placement_sides(placement_sides):
    for side in placement_sides:
        clear_service_state(side)
        created = side.send_request(Request("PUT", "/resource_classes/CUSTOM_A", PEER_LATEST))
        assert created.status == 201
    yield placement_sides
    for side in placement_sides:
        clear_service_state(side)


@pytest.mark.parametrize("error", REQUESTS_BY_ERROR)
def test_error_type_matches_the_peer_for_each_accept_header(cleared_placement_sides, error):
    kinds = set()
    for accept in (*ACCEPT_HEADERS_WITH_EQUAL_TYPES, *ACCEPT_HEADERS_WITH_JSON_FROM_US):
        headers = {**REQUESTS_BY_ERROR[error].headers, "Accept": accept}
        replies = [
            side.send_request(replace(REQUESTS_BY_ERROR[error], headers=headers))
            for side in cleared_placement_sides
        ]
        ours, theirs = replies
        assert ours.status == theirs.status >= 400, accept
        kind = tuple(reply.headers["content-type"] for reply in replies)
        if accept in ACCEPT_HEADERS_WITH_JSON_FROM_US:
            assert kind == ("application/json", "text/html; charset=UTF-8"), accept
            continue
        assert kind[0] == kind[1], accept
        kinds.add(kind)
        names = {"x-openstack-request-id", "allow", "openstack-api-version"}
        assert names & ours.headers.keys() == names & theirs.headers.keys(), accept
    assert len(kinds) == 3
