# SPDX-License-Identifier: Apache-2.0
"""Phrases of error messages that clients and their tests compare."""

import json
from typing import Any

import pytest
from webtest import TestApp

from placement_sched.api.placement.microversions import ANY_TRAITS
from tests.support.allocation_bodies import build_body
from tests.support.versions import LATEST

PROVIDER_UUID = "5cbe600a-0000-4000-8000-000000000001"
UNKNOWN_UUID = "deaddead-0000-4000-8000-000000000001"
CONSUMER_UUID = "c0ffee00-0000-4000-8000-000000000001"
AGGREGATE_UUID = "a66e6a7e-0000-4000-8000-000000000001"

PROVIDERS_PATH = "/resource_providers"
PROVIDER_PATH = f"{PROVIDERS_PATH}/{PROVIDER_UUID}"
CANDIDATES_PATH = "/allocation_candidates"
ALLOCATIONS_PATH = f"/allocations/{CONSUMER_UUID}"
TOO_LONG_NAME = "CUSTOM_" + "S" * 250
RESERVED_INVENTORY = {"total": 10, "reserved": 10}
REQUIRED_VALUE_ERROR = (
    "Invalid query string parameters: Expected 'required' parameter value of the form: "
    "HW_CPU_X86_VMX,"
)
IN_PREFIX_ERROR = "Invalid query string parameters: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"
RESOURCES_VALUE_ERROR = (
    "Badly formed resources parameter. Expected resources query string parameter in form"
)
INVENTORY_UPDATE_ERROR = f"Unable to update inventory for resource provider {PROVIDER_UUID}"
INVALID_TRAIT_ERROR = (
    "The trait is invalid. A valid trait must be no longer than 255 characters, start with the "
    'prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
)
UNSUPPORTED_VERSION_ERROR = "are not supported in the specified microversion"


@pytest.fixture
def sqlite_app_with_inventories(sqlite_app):
    """An application with a provider of two inventories."""
    return create_provider_with_inventories(sqlite_app)


@pytest.fixture
def app_with_inventories(app):
    """The same on each database, for errors that come from the database."""
    return create_provider_with_inventories(app)


def create_provider_with_inventories(app):
    send_request(app, "POST", PROVIDERS_PATH, 39, {"name": "host", "uuid": PROVIDER_UUID})
    send_request(app, "POST", "/resource_classes", 39, {"name": "CUSTOM_GOLD"})
    for name in ("VCPU", "CUSTOM_GOLD"):
        send_request(
            app, "POST", f"{PROVIDER_PATH}/inventories", 39, {"resource_class": name, "total": 4}
        )
    return app


def send_request(app, method: str, path: str, minor: int, body: Any = None, status: Any = "2*"):
    """Send a request at 1.``minor``: bytes without a content type, other bodies as JSON."""
    headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
    if body is not None and not isinstance(body, bytes):
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    options = {} if body is None else {"body": body}
    return app.request(
        f"/placement{path}", method=method, headers=headers, status=status, **options
    )


def read_error_detail(app, method: str, path: str, minor: int, body: Any, status: int) -> str:
    (error,) = send_request(app, method, path, minor, body, status).json["errors"]
    return error["detail"]


def build_inventory(**fields: Any) -> dict[str, Any]:
    return {"resource_class": "DISK_GB", "total": 10, **fields}


def build_claim(amount: int, **fields: Any) -> dict[str, Any]:
    return {**build_body(LATEST, {PROVIDER_UUID: {"VCPU": amount}}), **fields}


REJECTED_REQUESTS = [
    ("DELETE", "/", None, 405, "The method DELETE is not allowed for this resource."),
    ("OPTIONS", PROVIDERS_PATH, None, 405, "The method OPTIONS is not allowed for this resource."),
    ("POST", PROVIDERS_PATH, b"{}", 400, "content-type header required"),
    ("PUT", PROVIDER_PATH, None, 415, "The media type None is not supported, use application/json"),
    ("DELETE", f"{PROVIDERS_PATH}/{UNKNOWN_UUID}", None, 404, f"{UNKNOWN_UUID} found for delete"),
]

REQUESTS_WITH_STALE_GENERATION = [
    ("traits", 39, {"traits": []}),
    ("aggregates", 19, {"aggregates": [AGGREGATE_UUID]}),
    ("aggregates", 39, {"aggregates": []}),
    ("inventories", 39, {"inventories": {}}),
    ("inventories/VCPU", 39, {"total": 1}),
]

INVALID_INVENTORY_REQUESTS = [
    ("POST", "", 39, build_inventory(reserved=11), "Unable to create inventory for resource prov"),
    ("POST", "", 39, build_inventory(reserved=11), "greater than total"),
    ("POST", "", 25, build_inventory(reserved=10), "greater than or equal to total"),
    ("PUT", "/VCPU", 25, RESERVED_INVENTORY, INVENTORY_UPDATE_ERROR),
    ("PUT", "/VCPU", 25, RESERVED_INVENTORY, "greater than or equal to total"),
    ("PUT", "", 25, {"inventories": {"VCPU": RESERVED_INVENTORY}}, INVENTORY_UPDATE_ERROR),
    ("PUT", "", 39, {"inventories": {"VCPU": {"total": 1, "reserved": 2}}}, INVENTORY_UPDATE_ERROR),
]

MALFORMED_QUERIES = {
    PROVIDERS_PATH: [
        ("resources=VCPU", 39, RESOURCES_VALUE_ERROR),
        ("resources=VCPU:1,", 39, "Got: . This is a part of VCPU:1,"),
        ("resources=", 39, "Got: empty string."),
        ("resources=VCPU", 39, "Got: VCPU."),
        ("required=A,,B", 39, f"{REQUIRED_VALUE_ERROR}!CUSTOM_MAGIC. Got an empty trait in:"),
        (
            "required=in:A,!B",
            39,
            f"{IN_PREFIX_ERROR} does not support forbidden traits. Got: in:A,!B",
        ),
        ("required=!A", 21, f"{REQUIRED_VALUE_ERROR}CUSTOM_MAGIC. Got: !A"),
        (
            "required=in:A,B",
            38,
            f"{IN_PREFIX_ERROR} only supported since microversion {ANY_TRAITS}.",
        ),
        (
            f"member_of=!{AGGREGATE_UUID}",
            31,
            f"Forbidden member_of parameters {UNSUPPORTED_VERSION_ERROR}",
        ),
        (
            f"member_of={AGGREGATE_UUID},{AGGREGATE_UUID}",
            39,
            "with the 'in:' or '!in:' keyword using",
        ),
    ],
    CANDIDATES_PATH: [
        ("resources=", 39, RESOURCES_VALUE_ERROR),
        ("group_policy=isolate", 25, "At least one request group (`resources` or `res"),
        ("group_policy=none", 36, "There must be at least one resources or resources[$S]"),
        (f"resources=VCPU:1&in_tree1={PROVIDER_UUID}", 31, "All request groups must specify"),
        ("required=A&required1=B", 25, "orphaned traits keys: required, required1"),
        ("resources=VCPU:1&required=", 21, f"{REQUIRED_VALUE_ERROR}CUSTOM_MAGIC."),
        ("resources=VCPU:1&required=,,", 22, f"{REQUIRED_VALUE_ERROR}!CUSTOM_MAGIC."),
        ("resourcesX=VCPU:1&requiredX=in:A,B", 38, "'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only"),
    ],
    "/traits": [("name=in_abc", 39, '?name=[in|startswith]:[name1,name2|prefix]. Got: "in_')],
}

#: Method, path, body, keyword and property of a fault.
REQUESTS_WITH_SCHEMA_ERRORS = [
    ("POST", PROVIDERS_PATH, {"name": "x", "uuid": "y"}, "format", "uuid"),
    ("POST", PROVIDERS_PATH, {"name": "x" * 201}, "maxLength", "name"),
    ("POST", PROVIDERS_PATH, {}, "required", ""),
    ("POST", PROVIDERS_PATH, {"name": "x", "y": 1}, "additionalProperties", ""),
    ("POST", f"{PROVIDER_PATH}/inventories", build_inventory(total=0), "minimum", "total"),
    ("POST", f"{PROVIDER_PATH}/inventories", build_inventory(total=2**31), "maximum", "total"),
    ("POST", "/resource_classes", {"name": "COW"}, "pattern", "name"),
    ("POST", "/resource_classes", {"name": "CUSTOM_A\n"}, "pattern", "name"),
    ("POST", "/resource_classes", {"name": TOO_LONG_NAME}, "maxLength", "name"),
    ("PUT", ALLOCATIONS_PATH, build_claim(1, project_id=""), "minLength", "project_id"),
    ("PUT", ALLOCATIONS_PATH, build_claim(0), "minimum", "allocations"),
    ("GET", "/usages?project_id=", None, "minLength", "project_id"),
    ("GET", f"{CANDIDATES_PATH}?resources=A:1&limit=0", None, "pattern", "limit"),
]


def test_error_of_a_rejected_method_or_body_has_the_wording_of_placement(
    sqlite_app_with_inventories,
):
    for method, path, body, status, phrase in REJECTED_REQUESTS:
        assert phrase in read_error_detail(
            sqlite_app_with_inventories, method, path, 39, body, status
        ), path


@pytest.mark.all_databases
def test_error_of_a_stale_generation_has_the_wording_of_placement(app_with_inventories):
    for noun, minor, body in REQUESTS_WITH_STALE_GENERATION:
        stale = {**body, "resource_provider_generation": 9}
        text = read_error_detail(
            app_with_inventories, "PUT", f"{PROVIDER_PATH}/{noun}", minor, stale, 409
        )
        assert "resource provider generation conflict" in text, noun
        assert "Resource provider's generation already changed." in text, noun
        assert "Please update the generation and try again." in text, noun
        assert text.startswith(
            "resource provider gen" if "inv" in noun else "Resource provider's gen"
        ), noun


def test_error_of_an_invalid_inventory_has_the_wording_of_placement(sqlite_app_with_inventories):
    for method, path, minor, body, phrase in INVALID_INVENTORY_REQUESTS:
        generation = {"resource_provider_generation": 2} if method == "PUT" else {}
        inventories = f"{PROVIDER_PATH}/inventories{path}"
        detail = read_error_detail(
            sqlite_app_with_inventories, method, inventories, minor, {**body, **generation}, 400
        )
        assert phrase in detail


def test_error_of_a_malformed_query_has_the_wording_of_placement(sqlite_app_with_inventories):
    rows = [(path, *row) for path, queries in MALFORMED_QUERIES.items() for row in queries]
    for path, query, minor, phrase in rows:
        assert phrase in read_error_detail(
            sqlite_app_with_inventories, "GET", f"{path}?{query}", minor, None, 400
        ), query


def test_schema_error_names_keyword_and_path(sqlite_app_with_inventories):
    for method, path, body, keyword, name in REQUESTS_WITH_SCHEMA_ERRORS:
        detail = read_error_detail(sqlite_app_with_inventories, method, path, 39, body, 400)
        within = f"['properties']['{name}']" if name else ""
        assert "(at $" in detail, body
        assert f"Failed validating '{keyword}' in schema{within}" in detail, body


def test_error_of_an_invalid_trait_name_has_the_wording_of_placement(sqlite_app_with_inventories):
    for name in ["TRAIT_X", "CUSTOM_abc", TOO_LONG_NAME]:
        assert INVALID_TRAIT_ERROR in read_error_detail(
            sqlite_app_with_inventories, "PUT", f"/traits/{name}", 39, None, 400
        ), name


@pytest.mark.all_databases
def test_error_of_exceeded_capacity_has_the_wording_of_placement(app_with_inventories):
    for minor in [28, 39]:
        body = build_claim(9)
        if minor == 28:
            del body["consumer_type"]
        for method, path, sent in (
            ("PUT", ALLOCATIONS_PATH, body),
            ("POST", "/allocations", {CONSUMER_UUID: body}),
        ):
            detail = read_error_detail(app_with_inventories, method, path, minor, sent, 409)
            assert "Unable to allocate inventory" in detail, minor
            assert "The requested amount would exceed the capacity of 4" in detail, minor


@pytest.mark.all_databases
def test_error_of_an_inventory_in_use_has_the_wording_that_nova_expects(app_with_inventories):
    send_request(app_with_inventories, "PUT", ALLOCATIONS_PATH, 39, build_claim(1))
    nothing = {"resource_provider_generation": 3, "inventories": {}}
    assert read_error_detail(
        app_with_inventories, "PUT", f"{PROVIDER_PATH}/inventories", 39, nothing, 409
    ) == (
        "There was a conflict when trying to complete your request.\n\n update conflict: "
        f"Inventory for 'VCPU' on resource provider '{PROVIDER_UUID}' in use."
    )


def test_error_of_an_invalid_content_length_has_the_wording_of_placement(
    sqlite_app_with_inventories,
):
    unchecked = TestApp(
        sqlite_app_with_inventories.app, lint=False
    )  # WebTest rejects the length itself
    headers = {
        "Content-Length": "hi mom",
        "Content-Type": "application/json",
        "X-Auth-Token": "admin",
    }
    response = unchecked.request(
        f"/placement{PROVIDERS_PATH}", method="POST", headers=headers, body=b"{}", status=400
    )
    assert "content-length header must be an integer" in response.json["errors"][0]["detail"]
