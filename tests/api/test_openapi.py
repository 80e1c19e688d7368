# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is valid, complete and agrees with the service."""

from dataclasses import replace

import orjson
import pytest

from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import API
from placement_sched.api.versions import Version
from tests.api.openapi_documents import (
    MICROVERSIONS,
    build_openapi_document,
    index_operations_by_path,
)
from tests.support.conformance import HttpExchange, OpenApiDocument, check_exchange
from tests.support.versions import LATEST


def read_parameters_by_name(document: dict, method: str, path: str) -> dict[str, dict]:
    return {each["name"]: each for each in document["paths"][path][method]["parameters"]}


def test_operation_ids_of_the_openapi_document_are_unique():
    for version in MICROVERSIONS:
        names = [
            each["operationId"]
            for each in index_operations_by_path(build_openapi_document(version)).values()
        ]
        assert len(names) == len(set(names))


def test_every_success_response_of_the_openapi_document_describes_its_body():
    """Only the status 200, and 201 of an inventory, have a body."""
    for route in API.routes:
        with_body = 200 in route.success or route.response is not None
        assert with_body == (route.response is not None), route
        if route.response is not None:
            first = max(route.since, VERSIONING.oldest)
            assert route.response.find_schema(first) is not None, route


def test_documented_error_statuses_depend_on_policy_and_body_of_the_route():
    for route in API.routes:
        statuses = route.statuses
        assert {400, 406, 503} <= statuses, route
        assert ({401, 403} <= statuses) == (not route.public), route
        assert ({413, 415} <= statuses) == (route.body is not None), route
        assert not {status for status in statuses if status >= 500} - {503}, route


def test_repeatable_query_parameters_are_documented_as_arrays():
    def read_parameter_type(version, path, name):
        return read_parameters_by_name(build_openapi_document(version), "get", path)[name][
            "schema"
        ]["type"]

    assert read_parameter_type(Version(1, 23), "/allocation_candidates", "member_of") == "string"
    assert read_parameter_type(Version(1, 24), "/allocation_candidates", "member_of") == "array"
    assert read_parameter_type(Version(1, 38), "/resource_providers", "required") == "string"
    assert read_parameter_type(Version(1, 39), "/resource_providers", "required") == "array"


def test_granular_parameters_with_suffixes_are_documented_as_one_object():
    before = read_parameters_by_name(
        build_openapi_document(Version(1, 24)), "get", "/allocation_candidates"
    )
    since = read_parameters_by_name(
        build_openapi_document(Version(1, 25)), "get", "/allocation_candidates"
    )
    assert "suffixed" not in before
    patterns = since["suffixed"]["schema"]["patternProperties"]
    assert set(patterns) == {
        "^resources([1-9][0-9]*)$",
        "^required([1-9][0-9]*)$",
        "^member_of([1-9][0-9]*)$",
    }


def test_parameter_that_a_microversion_requires_is_documented_as_required():
    parameters = {
        version: read_parameters_by_name(
            build_openapi_document(version), "get", "/allocation_candidates"
        )["resources"]
        for version in (Version(1, 24), Version(1, 25))
    }
    assert [each["required"] for each in parameters.values()] == [True, False]


DOCUMENTED_EXCHANGE = HttpExchange(
    method="GET",
    path="/traits",
    status="200",
    headers={
        "openstack-api-version": f"placement {LATEST}",
        "x-openstack-request-id": "req-1",
        "vary": "openstack-api-version",
        "last-modified": "Fri, 20 Nov 2026 12:00:00 GMT",
        "cache-control": "no-cache",
        "content-type": "application/json",
        "content-length": "31",
    },
    body=b'{"traits": ["HW_CPU_X86_AVX2"]}',
)


def copy_documented_headers_without(*names: str) -> dict[str, str]:
    return {name: value for name, value in DOCUMENTED_EXCHANGE.headers.items() if name not in names}


def test_openapi_check_accepts_a_documented_response():
    check_exchange(DOCUMENTED_EXCHANGE)


def test_openapi_check_reports_an_undocumented_status_or_header():
    """The check of all Placement responses of the suite does report deviations."""
    for faults in [
        {"status": "409", "body": b""},
        {"status": "500"},
        {"path": "/llamas"},
        {"method": "POST"},
        {"body": b'{"traits": ["lower_case"]}'},
        {"body": b'{"traits": [], "more": 1}'},
        {"body": b"{}"},
        {"headers": {**DOCUMENTED_EXCHANGE.headers, "content-type": "text/plain"}},
        {"headers": {"openstack-api-version": f"placement {LATEST}"}},
        {"headers": {**DOCUMENTED_EXCHANGE.headers, "location": "/traits/HW_CPU_X86_AVX2"}},
        {"headers": {**DOCUMENTED_EXCHANGE.headers, "x-surprise": "1"}},
        {"headers": copy_documented_headers_without("cache-control")},
        {"headers": {}},
    ]:
        with pytest.raises(AssertionError):
            check_exchange(replace(DOCUMENTED_EXCHANGE, **faults))


def test_openapi_check_reports_an_undocumented_body():
    headers = copy_documented_headers_without("last-modified", "cache-control")
    gone = replace(
        DOCUMENTED_EXCHANGE, method="DELETE", path="/traits/CUSTOM_A", status="204", headers=headers
    )
    with pytest.raises(AssertionError, match="undocumented body"):
        check_exchange(gone)
    check_exchange(replace(gone, body=b""))


def test_operation_of_the_openapi_document_is_found_by_method_and_expanded_path():
    document = OpenApiDocument(Version(1, 39))
    operation = document.operation("PUT", "/resource_providers/abc/inventories/VCPU")
    assert operation is not None
    assert operation["operationId"] == "inventories.update"
    assert document.operation("PUT", "/resource_providers/a/b/inventories/VCPU") is None


PROVIDER_UUID = "0a0b0c0d-0000-4000-8000-00000000000f"
RESOURCE_CLASS_BODY = {"name": "CUSTOM_A"}
PROVIDER_BODY = {"name": "host", "uuid": PROVIDER_UUID}
INVENTORY_BODY = {"resource_class": "VCPU", "total": 4, "resource_provider_generation": 0}


@pytest.mark.parametrize(
    ("minor", "method", "path", "body", "statuses", "below"),
    [
        (19, "POST", "/resource_providers", PROVIDER_BODY, [201], f"/{PROVIDER_UUID}"),
        (20, "POST", "/resource_providers", PROVIDER_BODY, [200], f"/{PROVIDER_UUID}"),
        (2, "POST", "/resource_classes", RESOURCE_CLASS_BODY, [201], "/CUSTOM_A"),
        (7, "PUT", "/resource_classes/CUSTOM_A", None, [201, 204], ""),
        (6, "PUT", "/traits/CUSTOM_A", None, [201, 204], ""),
        (
            0,
            "POST",
            f"/resource_providers/{PROVIDER_UUID}/inventories",
            INVENTORY_BODY,
            [201],
            "/VCPU",
        ),
    ],
)
def test_location_header_of_created_responses_is_documented(
    sqlite_app, minor, method, path, body, statuses, below
):
    headers = {"OpenStack-API-Version": f"placement 1.{minor}", "Content-Type": "application/json"}
    if PROVIDER_UUID in path:
        sqlite_app.post_json("/placement/resource_providers", PROVIDER_BODY, headers=headers)
    responses = OpenApiDocument(Version(1, minor)).operation(method, path)["responses"]
    for status in statuses:
        sent = b"" if body is None else orjson.dumps(body)
        response = sqlite_app.request(
            f"/placement{path}", method=method, headers=headers, body=sent, status=status
        )
        assert response.headers["Location"] == f"http://localhost/placement{path}{below}"
    located = {int(status) for status, each in responses.items() if "Location" in each["headers"]}
    assert located == set(statuses)


def test_retry_after_header_of_responses_is_documented():
    for operation in index_operations_by_path(build_openapi_document(VERSIONING.newest)).values():
        for status, response in operation["responses"].items():
            assert ("Retry-After" in response["headers"]) == (status == "503")
