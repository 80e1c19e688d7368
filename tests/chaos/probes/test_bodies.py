# SPDX-License-Identifier: Apache-2.0
"""Invalid and hostile JSON bodies for every route with a body."""

import json

import pytest

from placement_sched.api.routing import PARAMETER
from placement_sched.app import create_app
from tests.chaos.endpoints import list_endpoints
from tests.chaos.grammar import UNKNOWN_UUIDS
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.conftest import AdminClient

NESTING_DEPTH = 100_000
HOSTILE_JSON_BODIES = {
    "nothing": b"",
    "deep lists": b"[" * NESTING_DEPTH + b"]" * NESTING_DEPTH,
    "deep objects": b'{"a":' * NESTING_DEPTH + b"1" + b"}" * NESTING_DEPTH,
    "lists without an end": b"[" * NESTING_DEPTH,
    "NaN": b'{"name": NaN}',
    "infinity": b'{"name": -Infinity}',
    "a float beyond all floats": b'{"name": 1e400}',
    "a number of 5000 digits": b'{"name": ' + b"9" * 5000 + b"}",
    "an exponent of 5000 digits": b'{"name": 1e' + b"9" * 5000 + b"}",
    "minus zero": b'{"name": -0}',
    "a key twice": b'{"name": "a", "name": ["b"]}',
    "half a surrogate pair": b'{"name": "\\ud800"}',
    "half a surrogate pair as a key": b'{"\\udfff": 1}',
    "NUL": b'{"name": "a\\u0000b"}',
    "NUL as a key": b'{"\\u0000": 1}',
    "a byte order mark": b'\xef\xbb\xbf{"name": "a"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "UTF-32": '{"name": "a"}'.encode("utf-32"),
    "bytes that are no UTF-8": b'{"name": "\xff\xfe"}',
    "surrogates in UTF-8": b'{"name": "\xed\xa0\x80"}',
    "overlong UTF-8": b'{"name": "\xc0\xaf"}',
    "a comment": b'{"name": "a"} // b',
    "a trailing comma": b'{"name": "a",}',
    "two documents": b"{}{}",
    "single quotes": b"{'name': 'a'}",
    "control characters": b'{"name": "\x01\n"}',
    "ten thousand keys": json.dumps({f"k{n}": n for n in range(10_000)}).encode(),
    "__proto__": b'{"__proto__": {"admin": true}, "__class__": "x"}',
    "only white space": b" \n\t ",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}


@pytest.fixture
def cached_app(sqlite_settings):
    application = create_app(sqlite_settings)
    yield AdminClient(application)
    application.close()


def test_hostile_body_is_answered_without_a_server_error(cached_app, caplog, record_property):
    endpoints = [
        endpoint
        for endpoint in list_endpoints(cached_app.app)
        if endpoint.route is not None and endpoint.route.body is not None
    ]
    chosen = endpoints[:: choose_count(6, 1)]
    assert len(chosen) >= choose_count(5, 40)
    for endpoint in chosen:
        path = PARAMETER.sub(UNKNOWN_UUIDS[0], endpoint.rule)
        headers = {
            "OpenStack-API-Version": f"{endpoint.api} {endpoint.newest_version}",
            "Content-Type": endpoint.route.content_types[0],
        }
        for name, body in HOSTILE_JSON_BODIES.items():
            request = cached_app.RequestClass.blank(path, method=endpoint.method, headers=headers)
            request.body = body
            response = cached_app.do_request(request, expect_errors=True)
            details = (endpoint.name, name, response.text[:500])
            assert response.status_int < 500, details
            assert "Traceback" not in response.text, details
            failures = [record for record in caplog.records if record.exc_info]
            assert not failures, (details, failures)
    assert cached_app.get(f"/placement/resource_providers/{UNKNOWN_UUIDS[0]}", status=404)
    record_property(TRIED_KEY, f"{len(chosen)} routes x {len(HOSTILE_JSON_BODIES)} bodies")
