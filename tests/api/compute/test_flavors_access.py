# SPDX-License-Identifier: Apache-2.0
"""Access of projects to private flavors."""

import pytest

from tests.api.compute.client import get_error_message

SHOP_MEMBER = {"token": "bob:shop", "roles": "member,reader"}


@pytest.fixture
def api_with_private_flavor(flavor_api):
    flavor_api.create_flavor("p", is_public=False)
    flavor_api.create_flavor("f")
    return flavor_api


def list_project_ids_with_access(response):
    return [each["tenant_id"] for each in response.json["flavor_access"]]


@pytest.mark.all_databases
def test_project_access_to_a_flavor_is_added_and_removed(api_with_private_flavor):
    assert api_with_private_flavor.request("GET", "/p/os-flavor-access").json == {
        "flavor_access": []
    }
    assert list_project_ids_with_access(
        api_with_private_flavor.add_project_access("p", "shop")
    ) == ["shop"]
    assert list_project_ids_with_access(
        api_with_private_flavor.add_project_access("p", "bank")
    ) == ["bank", "shop"]
    response = api_with_private_flavor.request("GET", "/p/os-flavor-access", version="2.1")
    assert response.json["flavor_access"][0] == {"flavor_id": "p", "tenant_id": "bank"}
    assert list_project_ids_with_access(
        api_with_private_flavor.remove_project_access("p", "bank")
    ) == ["shop"]


def test_repeated_addition_or_removal_of_project_access_is_409_or_404(api_with_private_flavor):
    api_with_private_flavor.add_project_access("p", "shop")
    response = get_error_message(
        api_with_private_flavor.add_project_access("p", "shop", status=409)
    )
    assert response == "Flavor access already exists for flavor p and project shop combination."
    api_with_private_flavor.remove_project_access("p", "shop")
    response = get_error_message(
        api_with_private_flavor.remove_project_access("p", "shop", status=404)
    )
    assert response == "Flavor access not found for p / shop combination."


def test_public_flavor_rejects_project_access_from_2_7(api_with_private_flavor):
    assert list_project_ids_with_access(
        api_with_private_flavor.add_project_access("f", "shop", version="2.6")
    ) == ["shop"]
    response = api_with_private_flavor.add_project_access("f", "bank", version="2.7", status=409)
    assert get_error_message(response) == "Can not add access to a public flavor."
    assert (
        list_project_ids_with_access(api_with_private_flavor.remove_project_access("f", "shop"))
        == []
    )
    response = api_with_private_flavor.request("GET", "/f/os-flavor-access", status=404)
    assert get_error_message(response) == "Access list not available for public flavors."


def test_private_flavor_is_visible_to_projects_with_access(api_with_private_flavor):
    api_with_private_flavor.add_extra_specs("p", {"k": "v"})
    api_with_private_flavor.request("GET", "/p", status=404, **SHOP_MEMBER)
    api_with_private_flavor.request("GET", "/p/os-extra_specs", status=404, **SHOP_MEMBER)
    api_with_private_flavor.request("GET", "/p/os-extra_specs/k", status=404, **SHOP_MEMBER)
    api_with_private_flavor.request("GET", "?marker=p", status=400, **SHOP_MEMBER)
    assert api_with_private_flavor.list_flavor_ids(**SHOP_MEMBER) == ["f"]
    api_with_private_flavor.add_project_access("p", "shop")
    assert api_with_private_flavor.show_flavor("p", **SHOP_MEMBER)["extra_specs"] == {"k": "v"}
    assert api_with_private_flavor.request("GET", "/p/os-extra_specs/k", **SHOP_MEMBER).json == {
        "k": "v"
    }
    assert api_with_private_flavor.list_flavor_ids(**SHOP_MEMBER) == ["f", "p"]
    assert api_with_private_flavor.list_flavor_ids("?marker=f", **SHOP_MEMBER) == ["p"]
    api_with_private_flavor.request("GET", "/p", status=404, **{**SHOP_MEMBER, "token": "bob:SHOP"})
    assert api_with_private_flavor.list_flavor_ids("?is_public=none") == ["f", "p"]


def test_only_administrators_can_list_private_flavors(api_with_private_flavor):
    for query in ("?is_public=false", "?is_public=none", "?is_public=abc"):
        assert api_with_private_flavor.list_flavor_ids(query, **SHOP_MEMBER) == ["f"], query


def test_administrators_list_private_flavors_of_their_project(api_with_private_flavor):
    assert api_with_private_flavor.list_flavor_ids(token="admin:shop") == ["f"]
    api_with_private_flavor.add_project_access("p", "shop")
    assert api_with_private_flavor.list_flavor_ids(token="admin:shop") == ["f", "p"]


def test_malformed_project_access_action_is_400_and_changes_nothing(api_with_private_flavor):
    api_with_private_flavor.add_project_access("p", "shop")
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
        response = api_with_private_flavor.request("POST", "/p/action", body, status=400)
        assert place in get_error_message(response), body
    assert list_project_ids_with_access(
        api_with_private_flavor.request("GET", "/p/os-flavor-access")
    ) == ["shop"]
