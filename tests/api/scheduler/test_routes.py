# SPDX-License-Identifier: Apache-2.0
"""Errors of the scheduler API have its own codes, at every stage.

The OpenAPI document of the scheduler API, and a client that uses only the document.
"""

import re

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from webtest import TestApp

from placement_sched.api import openapi
from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import ErrorContext
from placement_sched.api.scheduler.routes import API, SchedulerConventions, describe_openapi
from placement_sched.api.versions import Version
from placement_sched.errors import ConcurrentUpdate, Error, NoValidHost, TooComplex, Unavailable
from placement_sched.model.context import RequestIds
from placement_sched.model.extension import find_extensions
from tests.api.openapi_documents import index_operations_by_path
from tests.api.scheduler.openapi_client import OpenApiClient
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid

SELECT_PATH = "/scheduler/v1/select_destinations"


def read_error_code(response):
    (error,) = response.json["errors"]
    return error["code"]


def test_error_code_corresponds_to_the_status(sqlite_app):
    nodes = "/scheduler/v1/compute_nodes"
    for method, path, headers, body, status, code in (
        ("GET", "/scheduler/v1/nothing", {}, b"", 404, "not_found"),
        ("PUT", SELECT_PATH, {}, b"", 405, "method_not_allowed"),
        ("POST", SELECT_PATH, {"Content-Type": "text/plain"}, b"{}", 415, "unsupported_media_type"),
        ("POST", SELECT_PATH, {"Content-Type": "application/json"}, b"{", 400, "bad_value"),
        ("GET", "/scheduler/v1", {"X-Auth-Token": ""}, b"", 401, "unauthorized"),
        ("GET", nodes, {"X-Auth-Token": "joe:p"}, b"", 403, "forbidden"),
        ("GET", nodes, {"Accept": "text/html"}, b"", 406, "not_acceptable"),
    ):
        response = sqlite_app.request(
            path, method=method, headers=headers, body=body, status=status
        )
        assert read_error_code(response) == f"scheduler.{code}", path


def test_invalid_request_has_a_scheduler_error_code(sqlite_app):
    for request_spec, status, code in (
        ({}, 400, "scheduler.bad_value"),
        (make_spec(flavor="m1"), 404, "scheduler.not_found"),
        (make_spec(requested_destination={"aggregates": ["x"]}), 400, "scheduler.bad_value"),
    ):
        response = sqlite_app.post_json(SELECT_PATH, {"request_spec": request_spec}, status=status)
        assert read_error_code(response) == code


def test_errors_raised_by_the_model_have_their_status_and_scheduler_code():
    for error, status, code in [
        (ConcurrentUpdate("x"), 409, "scheduler.concurrent_update"),
        (TooComplex("x"), 400, "scheduler.too_complex"),
        (NoValidHost("x"), 409, "scheduler.no_valid_host"),
        (Unavailable("x"), 503, "scheduler.unavailable"),
        (Error("x"), 500, "scheduler.failed"),
    ]:
        response = SchedulerConventions().render_error(
            error, status, "title", ErrorContext(RequestIds("req-1"))
        )
        assert response.body["errors"][0]["code"] == code, code


OPENAPI_PATH = "/scheduler/v1/openapi.json"
OPENAPI_DOCUMENT = openapi.build_document(describe_openapi(API.routes), Version(1, 0), "/scheduler")
OPERATIONS_BY_PATH = index_operations_by_path(OPENAPI_DOCUMENT)
NODE_UUID = make_report("cn1")["uuid"]


def convert_to_openapi_path(route):
    """Return the path of a route in OpenAPI's syntax, without a final slash."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route.path).rstrip("/") or "/"


@pytest.mark.slow
def test_openapi_document_is_valid(sqlite_app):
    document = sqlite_app.get(OPENAPI_PATH).json
    OpenAPIV31SpecValidator(document).validate()
    assert document["servers"] == [{"url": "/scheduler"}]


def test_openapi_document_has_exactly_the_routes_of_the_api():
    assert set(OPERATIONS_BY_PATH) == {
        (route.method, convert_to_openapi_path(route)) for route in API.routes
    }


def test_operation_ids_of_the_openapi_document_are_unique():
    names = [operation["operationId"] for operation in OPERATIONS_BY_PATH.values()]
    assert len(names) == len(set(names))


def test_openapi_document_needs_no_token(sqlite_app):
    response = TestApp(sqlite_app.app).get(OPENAPI_PATH)
    assert response.json == sqlite_app.get(OPENAPI_PATH).json
    assert OPERATIONS_BY_PATH["GET", "/v1/openapi.json"]["security"] == []


def test_openapi_operation_has_the_policy_statuses_and_schemas_of_its_route():
    for route in API.routes:
        operation = OPERATIONS_BY_PATH[route.method, convert_to_openapi_path(route)]
        assert operation.get("x-policy") == route.policy, route
        assert route.policy is None or route.policy in {rule.name for rule in RULES}, route
        responses = operation["responses"]
        assert set(responses) == {str(status) for status in route.statuses}, route
        for status, response in responses.items():
            has_body = status != "204"
            assert ("content" in response) == has_body, status
        assert ("requestBody" in operation) == (route.body is not None), route


def test_error_statuses_and_code_pattern_of_select_destinations_are_documented():
    responses = OPERATIONS_BY_PATH["POST", "/v1/select_destinations"]["responses"]
    assert set(responses) == set(map(str, (200, 400, 401, 403, 404, 406, 409, 413, 415, 500, 503)))
    (kind,) = responses["409"]["content"]
    assert kind == "application/json"
    error = OPENAPI_DOCUMENT["components"]["schemas"]["Errors"]["properties"]["errors"]["items"]
    assert error["properties"]["code"]["pattern"] == r"^scheduler\."
    assert "Retry-After" in responses["503"]["headers"]


def test_request_spec_schema_is_a_referenced_component_of_the_openapi_document():
    schema = OPERATIONS_BY_PATH["POST", "/v1/explain"]["requestBody"]["content"][
        "application/json"
    ]["schema"]
    reference = {"$ref": "#/components/schemas/RequestSpec"}
    assert schema["properties"]["request_spec"] == reference
    assert "flavor" in OPENAPI_DOCUMENT["components"]["schemas"]["RequestSpec"]["properties"]


def test_accepted_report_formats_are_documented(sqlite_app):
    for changes in [
        {},
        {"metrics": '[{"name": "cpu.idle.percent", "value": 0.5}]'},
        {"numa_topology": '{"cells": []}', "stats": {"num_instances": "3"}},
        {"numa_topology": {"nova_object.data": {"cells": []}}, "cpu_info": "{}"},
    ]:
        schema = {
            "$ref": "#/components/schemas/NodeReport",
            "components": OPENAPI_DOCUMENT["components"],
        }
        assert jsonschema_rs.is_valid(schema, make_report("cn1", **changes)), changes
        sqlite_app.put_json(
            f"/scheduler/v1/compute_nodes/{NODE_UUID}", make_report("cn1", **changes)
        )


@pytest.fixture
def core_app(sqlite_settings, make_app):
    """An application without extensions."""
    names = list(find_extensions())
    return make_app(sqlite_settings.with_overrides({"DEFAULT.disabled_extensions": names}))


@pytest.fixture
def client(core_app):
    return OpenApiClient(core_app, OPENAPI_PATH, token="admin")


def test_client_made_from_the_openapi_document_calls_every_operation(client):
    """The client compares bodies and responses with the schemas of the document."""
    counts = client.compute_nodes_report_many([make_report(f"cn{number}") for number in (1, 2, 3)])
    assert counts == {"created": 3, "changed": 0, "unchanged": 0}
    node = client.compute_nodes_report(make_report("cn1"), uuid=NODE_UUID)
    assert client.compute_nodes_show(uuid=NODE_UUID)["vcpus"] == node["vcpus"] == 16
    assert len(client.compute_nodes_index(limit="2")["compute_nodes"]) == 2
    request = {"request_spec": make_spec(make_uuid(1)), "return_alternates": True}
    selected = client.select_destinations_select(request)
    (host, *_), *_ = selected["selections"]
    assert client.hosts_index(host=host["service_host"])["hosts"][0]["instances"] == 1
    assert client.hosts_show(host=host["service_host"])["instances"][0]["uuid"] == make_uuid(1)
    explained = client.select_destinations_explain(
        {"request_spec": make_spec(make_uuid(2)), "hosts": ["cn1", "cn9"], "keep": True}
    )
    assert explained["outcome"] == "selected"
    recorded = [each["uuid"] for each in client.decisions_index()["decisions"]]
    assert set(recorded) == {explained["decision"], selected["decision"]}
    assert client.decisions_count()["total"] == 2
    assert client.hosts_overview()["hosts"]["up"] == 3
    assert client.decisions_show(uuid=selected["decision"])["kind"] == "select"
    assert client.decisions_replay({}, uuid=selected["decision"])["then"]["outcome"] == "selected"
    body = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    assert client.instances_record(body, uuid=make_uuid(3))["host"] == "cn1"
    assert client.instances_show(uuid=make_uuid(3))["flavor"]["vcpus"] == 1
    assert len(client.instances_index(host="cn1")["instances"]) >= 1
    (policy,) = client.select_destinations_list_policies()["policies"]
    assert client.select_destinations_show_policy(name="default")["name"] == policy["name"]
    assert client.hosts_check()["findings"] == []
    assert client.root_index() == client.root_show()
    assert client.openapi_show_document()["info"]["title"] == "Scheduler API"
    assert client.instances_remove(uuid=make_uuid(3)) is None
    assert client.instances_remove(uuid=make_uuid(1)) is None
    assert client.compute_nodes_remove(uuid=NODE_UUID) is None
    assert client.calls == client.names


def test_client_made_from_the_openapi_document_receives_documented_errors(client, core_app):
    for status, code, call in (
        (404, "not_found", lambda at: at.compute_nodes_show(uuid=NODE_UUID)),
        (400, "bad_value", lambda at: at.hosts_index(state="up", marker="x")),
        (
            409,
            "no_valid_host",
            lambda at: at.select_destinations_select({"request_spec": make_spec()}),
        ),
    ):
        errors = call(client.expect_status(status))["errors"]
        assert errors[0]["code"] == f"scheduler.{code}"
    for token, status in (("", 401), ("someone:project", 403)):
        other = OpenApiClient(core_app, OPENAPI_PATH, token=token)
        assert other.expect_status(status).hosts_index()["errors"][0]["status"] == status


def test_client_made_from_the_openapi_document_rejects_an_undocumented_body(client):
    with pytest.raises(jsonschema_rs.ValidationError, match="request_spec"):
        client.select_destinations_select({"claim": True})
