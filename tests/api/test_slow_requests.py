# SPDX-License-Identifier: Apache-2.0
"""The log line of a slow request, with the time of each stage."""

import json
import logging
import re

import pytest
from webtest import TestApp

from placement_sched.api import middleware
from placement_sched.api.middleware import log_requests
from tests.support.scheduling import make_flavor, make_report, make_spec

SLOW_REQUEST_CONFIG = "[api]\nauth_strategy = noauth2\nslow_request_seconds = 0.000001\n"
ADMIN_TOKEN = {"X-Auth-Token": "admin"}


@pytest.fixture
def slow_app_and_records(make_configured_app, caplog):
    """An application that logs every request as slow, and a function for its records."""
    app = make_configured_app(SLOW_REQUEST_CONFIG)
    hosts = [make_report(f"cn{number}", memory_mb=8192 * (number + 1)) for number in range(3)]
    app.post_json("/scheduler/v1/compute_nodes", hosts, headers=ADMIN_TOKEN)

    def list_slow_request_records():
        return [record for record in caplog.records if record.name == middleware.__name__]

    caplog.clear()
    return app, list_slow_request_records


def test_slow_selection_is_logged_with_stages_and_funnel(slow_app_and_records):
    app, list_slow_request_records = slow_app_and_records
    body = {"request_spec": make_spec(flavor=make_flavor(memory_mb=12000))}
    response = app.post_json("/scheduler/v1/select_destinations", body, headers=ADMIN_TOKEN).json
    (record,) = list_slow_request_records()
    line = record.getMessage()
    assert record.levelno == logging.WARNING
    assert line.startswith("slow: POST /scheduler/v1/select_destinations took ")
    assert re.search(r"\d+ SQL statements; 2 candidates; .*search \d+ ms", line)
    assert "hosts 2;" in line  # the number of candidates
    assert line.endswith(f"selected, decision {response['decision']}")
    assert record.context.request_id.startswith("req-")
    assert record.extra["status"] == 200
    assert record.extra["funnel"] == "2"
    assert {"search", "filters", "claim"} <= set(record.extra["stages_ms"])


def test_slow_no_valid_host_error_and_explanation_are_logged_with_funnel(slow_app_and_records):
    app, list_slow_request_records = slow_app_and_records
    body = {"request_spec": make_spec(flavor=make_flavor(memory_mb=10**6))}
    app.post_json("/scheduler/v1/select_destinations", body, headers=ADMIN_TOKEN, status=409)
    app.post_json("/scheduler/v1/explain", body, headers=ADMIN_TOKEN)
    failed, explained = list_slow_request_records()
    assert "hosts 3 > resources 0; no_valid_host" in failed.getMessage()
    assert "(status 409)" in failed.getMessage()
    assert explained.getMessage().endswith("; hosts 3 > resources 0")


def test_slow_request_line_has_no_details_of_a_previous_request(slow_app_and_records):
    app, list_slow_request_records = slow_app_and_records
    body = {"request_spec": make_spec(flavor=make_flavor())}
    app.post_json("/scheduler/v1/select_destinations", body, headers=ADMIN_TOKEN)
    app.get("/placement/resource_providers", headers=ADMIN_TOKEN)
    _, last = list_slow_request_records()
    assert "hosts" not in last.getMessage()
    assert last.extra["decision"] is None
    assert last.extra["route"] == "/resource_providers"
    app.get("/healthz/live")
    assert "a request outside of the APIs took" in list_slow_request_records()[-1].getMessage()


def test_fast_requests_are_not_logged_as_slow(make_configured_app, caplog):
    for seconds in ["0", "1000"]:
        app = make_configured_app(f"[api]\nslow_request_seconds = {seconds}\n")
        app.get("/placement/resource_providers", headers=ADMIN_TOKEN)
    assert not [record for record in caplog.records if record.name == middleware.__name__]


def test_access_log_in_json_has_route_status_and_duration_as_fields(make_configured_app, caplog):
    from oslo_log.formatters import JSONFormatter

    caplog.set_level(logging.INFO)
    app = make_configured_app("[api]\nauth_strategy = noauth2\n")
    sent = "req-11111111-1111-4111-8111-111111111111"
    TestApp(log_requests(app.app)).get(
        "/placement/resource_providers/X?a=b",
        headers={**ADMIN_TOKEN, "X-Openstack-Request-Id": sent},
        status=404,
    )
    (record,) = [one for one in caplog.records if one.name == log_requests.__module__]
    line = json.loads(JSONFormatter().format(record))
    extra = line["extra"]
    assert extra.pop("duration_ms") >= 0
    assert extra == {
        "method": "GET",
        "path": "/placement/resource_providers/X?a=b",
        "api": "placement",
        "route": "/resource_providers/<uuid>",
        "status": 404,
        "client": None,
    }
    assert line["context"]["global_request_id"] == sent
    assert line["context"]["request_id"] in line["message"]
    assert {"user", "project_id"} <= set(line["context"])
