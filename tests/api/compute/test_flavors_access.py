# SPDX-License-Identifier: Apache-2.0
"""Access of projects to private flavors."""

import pytest

from tests.api.compute.client import error_message

READER = {"token": "bob:shop", "roles": "member,reader"}


@pytest.fixture
def private_api(flavor_api):
    flavor_api.create("p", is_public=False)
    flavor_api.create("f")
    return flavor_api


def list_projects(answer):
    return [each["tenant_id"] for each in answer.json["flavor_access"]]


@pytest.mark.all_databases
def test_project_access_is_added_and_removed(private_api):
    assert private_api.request("GET", "/p/os-flavor-access").json == {"flavor_access": []}
    assert list_projects(private_api.add_access("p", "shop")) == ["shop"]
    assert list_projects(private_api.add_access("p", "bank")) == ["bank", "shop"]
    answer = private_api.request("GET", "/p/os-flavor-access", version="2.1")
    assert answer.json["flavor_access"][0] == {"flavor_id": "p", "tenant_id": "bank"}
    assert list_projects(private_api.remove_access("p", "bank")) == ["shop"]


def test_repeated_access_change_is_409_or_404(private_api):
    private_api.add_access("p", "shop")
    answer = error_message(private_api.add_access("p", "shop", status=409))
    assert answer == "Flavor access already exists for flavor p and project shop combination."
    private_api.remove_access("p", "shop")
    answer = error_message(private_api.remove_access("p", "shop", status=404))
    assert answer == "Flavor access not found for p / shop combination."


def test_public_flavor_rejects_project_access_from_2_7(private_api):
    assert list_projects(private_api.add_access("f", "shop", version="2.6")) == ["shop"]
    answer = private_api.add_access("f", "bank", version="2.7", status=409)
    assert error_message(answer) == "Can not add access to a public flavor."
    assert list_projects(private_api.remove_access("f", "shop")) == []
    answer = private_api.request("GET", "/f/os-flavor-access", status=404)
    assert error_message(answer) == "Access list not available for public flavors."


def test_private_flavor_is_visible_to_projects_with_access(private_api):
    private_api.add_extra_specs("p", {"k": "v"})
    private_api.request("GET", "/p", status=404, **READER)
    private_api.request("GET", "/p/os-extra_specs", status=404, **READER)
    private_api.request("GET", "/p/os-extra_specs/k", status=404, **READER)
    private_api.request("GET", "?marker=p", status=400, **READER)
    assert private_api.list_ids(**READER) == ["f"]
    private_api.add_access("p", "shop")
    assert private_api.show("p", **READER)["extra_specs"] == {"k": "v"}
    assert private_api.request("GET", "/p/os-extra_specs/k", **READER).json == {"k": "v"}
    assert private_api.list_ids(**READER) == ["f", "p"]
    assert private_api.list_ids("?marker=f", **READER) == ["p"]
    private_api.request("GET", "/p", status=404, **{**READER, "token": "bob:SHOP"})
    assert private_api.list_ids("?is_public=none") == ["f", "p"]


def test_only_administrators_can_list_private_flavors(private_api):
    for query in ("?is_public=false", "?is_public=none", "?is_public=abc"):
        assert private_api.list_ids(query, **READER) == ["f"], query


def test_administrators_list_private_flavors_of_their_project(private_api):
    assert private_api.list_ids(token="admin:shop") == ["f"]
    private_api.add_access("p", "shop")
    assert private_api.list_ids(token="admin:shop") == ["f", "p"]


def test_malformed_access_action_is_400_and_changes_nothing(private_api):
    private_api.add_access("p", "shop")
    for body, place in (
        ({"addTenantAccess": None}, "$.addTenantAccess"),
        ({"addTenantAccess": {"tenant": "x" * 256}}, "$.addTenantAccess.tenant"),
        ({"addTenantAccess": {"tenant": "a", "x": 1}}, "$.addTenantAccess"),
        ({"addTenantAccess": {"tenant": "shop "}}, "$.addTenantAccess.tenant"),
        ({"removeTenantAccess": {"tenant": "shop "}}, "$.removeTenantAccess.tenant"),
        ({}, "the action"),
        ({"addTenantAccess": {"tenant": "a"}, "x": {}}, "the action"),
        ({"frob": {}}, "There is no such action: frob"),
    ):
        answer = private_api.request("POST", "/p/action", body, status=400)
        assert place in error_message(answer), body
    assert list_projects(private_api.request("GET", "/p/os-flavor-access")) == ["shop"]
