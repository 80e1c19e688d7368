# SPDX-License-Identifier: Apache-2.0
"""Errors have the ids of the request, of this service and of the caller."""

import json
from io import BytesIO

from oslo_context import context
from werkzeug.test import run_wsgi_app

from placement_sched.api.middleware import set_request_context
from placement_sched.api.serving import BodyReader

NOVAS = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
PATHS = [
    "/placement/traits/CUSTOM_NOT_THERE",
    "/scheduler/v1/instances/deaddead-0000-4000-8000-000000000001",
    "/nothing",
]


def test_error_has_its_request_id_and_the_global_id_that_the_client_sent(sqlite_app):
    for path in PATHS:
        answer = sqlite_app.get(path, headers={"X-Openstack-Request-Id": NOVAS}, status=404)
        (error,) = answer.json["errors"]
        assert error["global_request_id"] == NOVAS, path
        assert error["request_id"] == answer.headers["X-Openstack-Request-Id"] != NOVAS, path
        for headers in ({}, {"X-Openstack-Request-Id": "nonsense"}):
            (error,) = sqlite_app.get(path, headers=headers, status=404).json["errors"]
            assert "global_request_id" not in error, path


def test_request_id_is_cleared_after_the_request(sqlite_app):
    sqlite_app.get("/nothing", status=404)
    assert not context.get_current()


def test_error_of_an_unread_body_has_both_request_ids():
    environ = {
        "wsgi.input": BytesIO(b"short"),
        "REQUEST_METHOD": "PUT",
        "CONTENT_LENGTH": "100",
        "HTTP_X_OPENSTACK_REQUEST_ID": NOVAS,
    }
    application = set_request_context(BodyReader(lambda *_: [], 1000))
    content, status, headers = run_wsgi_app(application, environ)
    (error,) = json.loads(b"".join(content))["errors"]
    assert status.startswith("400")
    assert error["request_id"] == headers["X-Openstack-Request-Id"]
    assert error["global_request_id"] == NOVAS
