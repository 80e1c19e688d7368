# SPDX-License-Identifier: Apache-2.0
"""Content types of errors, compared with OpenStack's placement for each Accept header."""

from dataclasses import replace

import pytest

from tests.differential.exchange import Request
from tests.differential.state import clear_state
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

MISSING = "deaddead-0000-4000-8000-000000000001"
PROVIDERS = "/resource_providers"

#: Accept headers with equal content types on both sides: nothing, JSON, or no JSON.
EQUAL = [
    None,
    "",
    "*/*",
    "application/json",
    "APPLICATION/JSON",
    "application/*",
    "application/json;q=0.1",
    "application/json, text/html;q=0.9",
    "application/json;q=0.9, */*;q=0.8",
    "text/html",
    "TEXT/HTML",
    "text/html;q=0.5",
    "text/html, text/plain",
    "text/plain, text/html",
    "text/plain;q=0.9, text/html;q=0.5",
    "text/*",
    "text/plain",
    "text/plain;q=0.5",
    "text/html;q=0",
    "text/html;q=0, text/*",
    "text/html;level=1",
    "text/html;charset=utf-8",
    "application/json;charset=utf-8",
    "application/json;q=0",
    "application/json;q=0, */*",
    "*/*;q=0",
    "application/xml",
    "image/png",
    ",",
]
#: Accept headers with JSON and HTML. Our errors are JSON, as responses without an error.
JSON_ONLY_IN_OURS = [
    "text/html, application/json",
    "text/html;q=0.5, application/json;q=0.1",
    "application/json, text/plain, */*",
    "text/html, */*;q=0.1",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "*/*;q=0.5",
    "garbage",
]

ERRORS = {
    "version that is not served": Request("GET", "/", "0.5"),
    "malformed version": Request("GET", "/", "x"),
    "no token": Request("GET", PROVIDERS, PEER_LATEST, headers={"X-Auth-Token": None}),
    "forbidden": Request(
        "PUT", "/traits/CUSTOM_A", PEER_LATEST, headers={"X-Auth-Token": "joe", "X-Roles": None}
    ),
    "unknown path": Request("GET", "/nope", PEER_LATEST),
    "path of a later version": Request("GET", "/allocation_candidates", "1.0"),
    "unknown method": Request("DELETE", PROVIDERS, PEER_LATEST),
    "missing provider": Request("DELETE", f"{PROVIDERS}/{MISSING}", PEER_LATEST),
    "missing provider in a GET": Request("GET", f"{PROVIDERS}/{MISSING}", PEER_LATEST),
    "malformed query": Request("GET", "/allocation_candidates?zork=1", PEER_LATEST),
    "malformed JSON": Request("POST", PROVIDERS, PEER_LATEST, text="{"),
    "body against the schema": Request("POST", PROVIDERS, PEER_LATEST, {}),
    "body without a content type": Request(
        "POST", PROVIDERS, PEER_LATEST, text="{}", headers={"Content-Type": None}
    ),
    "body of another type": Request(
        "POST", PROVIDERS, PEER_LATEST, text="{}", headers={"Content-Type": "text/plain"}
    ),
    "duplicate": Request("POST", "/resource_classes", PEER_LATEST, {"name": "CUSTOM_A"}),
}


@pytest.fixture(scope="module")
def cleared_sides(sides):
    for side in sides:
        clear_state(side)
        assert (
            side.get_answer(Request("PUT", "/resource_classes/CUSTOM_A", PEER_LATEST)).status == 201
        )
    yield sides
    for side in sides:
        clear_state(side)


def request_error(sides, error, accept):
    request = ERRORS[error]
    request = replace(request, headers={**request.headers, "Accept": accept})
    ours, theirs = (side.get_answer(request) for side in sides)
    assert ours.status == theirs.status >= 400, error
    return ours, theirs


@pytest.mark.parametrize("error", ERRORS)
def test_error_type_matches_the_peer_for_each_accept_header(cleared_sides, error):
    kinds = {}
    for accept in EQUAL:
        ours, theirs = request_error(cleared_sides, error, accept)
        kinds[accept] = ours.headers["content-type"], theirs.headers["content-type"]
        names = {"x-openstack-request-id", "allow", "openstack-api-version"}
        assert names & ours.headers.keys() == names & theirs.headers.keys()
    assert {accept: kind for accept, kind in kinds.items() if kind[0] != kind[1]} == {}
    assert len({kind for kind, _ in kinds.values()}) == 3


@pytest.mark.parametrize("error", ERRORS)
def test_client_that_accepts_json_gets_json_errors(cleared_sides, error):
    for accept in JSON_ONLY_IN_OURS:
        ours, theirs = request_error(cleared_sides, error, accept)
        assert ours.headers["content-type"] == "application/json"
        assert theirs.headers["content-type"] == "text/html; charset=UTF-8"
