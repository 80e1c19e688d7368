# SPDX-License-Identifier: Apache-2.0
"""The reported error of several errors is the same as in OpenStack placement."""

from uuid import uuid4

import pytest

from tests.support.versions import LATEST_HEADERS

CANDIDATES_PATH = "/placement/allocation_candidates"
PROVIDERS_PATH = "/placement/resource_providers"


@pytest.fixture
def provider_path(sqlite_app):
    body = {"name": "cn1", "uuid": str(uuid4())}
    sqlite_app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    return f"{PROVIDERS_PATH}/{body['uuid']}"


def send_get_request_and_read_error(app, query, status=400):
    return app.get(query, headers=LATEST_HEADERS, status=status).json["errors"][0]


def test_candidates_query_with_several_errors_is_400_with_the_first_of_placement(sqlite_app):
    for query, code in [
        ("resources_A=VCPU:1&in_tree_A=x&same_subtree=", "query.bad_value"),
        ("resources_A=VCPU&same_subtree=", "query.bad_value"),
        ("required_A=HW_CPU_X86_AVX&same_subtree=", "query.bad_value"),
        ("resources_A=VCPU:1&in_tree_A=x&same_subtree=_Z", "undefined_code"),
        ("resources=VCPU&root_required=A&root_required=B", "query.duplicate_key"),
        ("same_subtree=&root_required=A&root_required=B", "query.duplicate_key"),
        ("resources=VCPU&root_required=A,!A", "query.bad_value"),
        ("resources=&root_required=in:A", "undefined_code"),
    ]:
        assert (
            send_get_request_and_read_error(sqlite_app, f"{CANDIDATES_PATH}?{query}")["code"]
            == f"placement.{code}"
        ), query


def test_error_code_of_a_candidates_query_without_resources_depends_on_the_version(sqlite_app):
    for query in ["limit=1", "required1=HW_CPU_X86_AVX"]:
        for minor, code in [
            *((25, "undefined_code"), (35, "undefined_code"), (36, "query.missing_value"))
        ]:
            headers = {"OpenStack-API-Version": f"placement 1.{minor}"}
            response = sqlite_app.get(f"{CANDIDATES_PATH}?{query}", headers=headers, status=400)
            assert response.json["errors"][0]["code"] == f"placement.{code}", (query, minor)


def test_provider_query_with_several_errors_is_400_with_the_first_of_placement(sqlite_app):
    for query, word in [
        ("resources=VCPU&required=,&member_of=x", "member_of"),
        ("resources=VCPU&required=,", "required"),
        ("resources=NOPE:1&required=CUSTOM_NOPE", "CUSTOM_NOPE"),
    ]:
        assert (
            word
            in send_get_request_and_read_error(sqlite_app, f"{PROVIDERS_PATH}?{query}")["detail"]
        ), query


def test_unknown_provider_is_reported_before_an_invalid_trait(sqlite_app, provider_path):
    body = {"traits": ["no trait"], "resource_provider_generation": 0}
    missing = sqlite_app.put_json(
        f"{PROVIDERS_PATH}/{uuid4()}/traits", body, headers=LATEST_HEADERS, status=404
    )
    assert "No resource provider" in missing.json["errors"][0]["detail"]
    response = sqlite_app.put_json(
        f"{provider_path}/traits", body, headers=LATEST_HEADERS, status=400
    )
    assert "No such trait no trait" in response.json["errors"][0]["detail"]


def test_invalid_inventory_is_reported_before_an_unknown_class(sqlite_app, provider_path):
    stock, generation = {"total": 1, "reserved": 5}, {"resource_provider_generation": 0}
    path = f"{provider_path}/inventories"
    for method, below, body in (
        ("PUT", "/CUSTOM_NOPE", stock | generation),
        ("PUT", "", {"inventories": {"CUSTOM_NOPE": stock}} | generation),
        ("POST", "", stock | {"resource_class": "CUSTOM_NOPE"}),
    ):
        send = sqlite_app.put_json if method == "PUT" else sqlite_app.post_json
        response = send(f"{path}{below}", body, headers=LATEST_HEADERS, status=400)
        assert "No such resource class" not in response.json["errors"][0]["detail"]
