# SPDX-License-Identifier: Apache-2.0
"""Private flavors: who sees them, and who is let in."""

import pytest
from sqlalchemy import insert, select

from placement_sched.db.tables import flavor_projects, flavors
from placement_sched.limits import MAX_FLAVOR_PROJECTS
from tests.api.compute.flavors import message
from tests.support.reports import NOW

READER = {"token": "bob:shop", "roles": "member,reader"}


@pytest.fixture
def private(flavors):
    flavors.create("p", is_public=False)
    flavors.create("f")
    return flavors


def projects(answer):
    return [each["tenant_id"] for each in answer.json["flavor_access"]]


def test_new_private_flavor_has_no_projects(private):
    assert private.ask("GET", "/p/os-flavor-access").json == {"flavor_access": []}


def test_projects_are_let_in_and_shut_out(private):
    assert projects(private.let_in("p", "shop")) == ["shop"]
    assert projects(private.let_in("p", "bank")) == ["bank", "shop"]
    answer = private.ask("GET", "/p/os-flavor-access", version="2.1")
    assert answer.json["flavor_access"][0] == {"flavor_id": "p", "tenant_id": "bank"}
    assert projects(private.shut_out("p", "bank")) == ["shop"]


@pytest.mark.parametrize("version", ["2.1", "2.7", "2.96"])
def test_project_that_has_or_lacks_access_already_is_reported(private, version):
    private.let_in("p", "shop", version=version)
    refused = message(private.let_in("p", "shop", version=version, status=409))
    assert refused == "Flavor access already exists for flavor p and project shop combination."
    private.shut_out("p", "shop", version=version)
    refused = message(private.shut_out("p", "shop", version=version, status=404))
    assert refused == "Flavor access not found for p / shop combination."


def test_public_flavor_takes_no_project_from_2_7(private):
    assert projects(private.let_in("f", "shop", version="2.6")) == ["shop"]
    refused = private.let_in("f", "bank", version="2.7", status=409)
    assert message(refused) == "Can not add access to a public flavor."
    assert projects(private.shut_out("f", "shop")) == []
    refused = private.ask("GET", "/f/os-flavor-access", status=404)
    assert message(refused) == "Access list not available for public flavors."


def test_private_flavor_is_seen_by_those_who_are_let_in(private):
    private.tag("p", {"k": "v"})
    private.ask("GET", "/p", status=404, **READER)
    private.ask("GET", "/p/os-extra_specs", status=404, **READER)
    private.ask("GET", "/p/os-extra_specs/k", status=404, **READER)
    private.ask("GET", "?marker=p", status=400, **READER)
    assert private.ids(**READER) == ["f"]
    private.let_in("p", "shop")
    assert private.show("p", **READER)["extra_specs"] == {"k": "v"}
    assert private.ask("GET", "/p/os-extra_specs/k", **READER).json == {"k": "v"}
    assert private.ids(**READER) == ["f", "p"]
    assert private.ids("?marker=f", **READER) == ["p"]


@pytest.mark.parametrize("query", ["?is_public=false", "?is_public=none", "?is_public=abc"])
def test_who_is_no_administrator_cannot_ask_for_private_ones(private, query):
    assert private.ids(query, **READER) == ["f"]


def test_administrators_list_private_ones_of_their_own_project_too(private):
    assert private.ids(token="admin:shop") == ["f"]
    private.let_in("p", "shop")
    assert private.ids(token="admin:shop") == ["f", "p"]


@pytest.mark.parametrize("action", ["addTenantAccess", "removeTenantAccess"])
def test_a_project_with_a_trailing_blank_does_not_exist(private, action):
    private.let_in("p", "shop")
    answer = private.ask("POST", "/p/action", {action: {"tenant": "shop "}}, status=400)
    assert f"$.{action}.tenant" in message(answer)
    assert projects(private.ask("GET", "/p/os-flavor-access")) == ["shop"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"addTenantAccess": {}}, "$.addTenantAccess"),
        ({"addTenantAccess": None}, "$.addTenantAccess"),
        ({"addTenantAccess": {"tenant": ""}}, "$.addTenantAccess.tenant"),
        ({"addTenantAccess": {"tenant": 5}}, "$.addTenantAccess.tenant"),
        ({"addTenantAccess": {"tenant": "x" * 256}}, "$.addTenantAccess.tenant"),
        ({"addTenantAccess": {"tenant": "a", "x": 1}}, "$.addTenantAccess"),
        ({"addTenantAccess": {"tenant": " p"}}, "$.addTenantAccess.tenant"),
        ({"removeTenantAccess": {"tenant": None}}, "$.removeTenantAccess.tenant"),
        ({}, "the action"),
        ({"addTenantAccess": {"tenant": "a"}, "x": {}}, "the action"),
        ({"frob": {}}, "There is no such action: frob"),
    ],
)
def test_malformed_action_is_400_and_does_nothing(sqlite_flavors, body, place):
    sqlite_flavors.create("p", is_public=False)
    answer = sqlite_flavors.ask("POST", "/p/action", body, status=400)
    assert place in message(answer)
    assert projects(sqlite_flavors.ask("GET", "/p/os-flavor-access")) == []


def test_a_flavor_is_for_ten_thousand_projects_at_most(sqlite_flavors, sqlite_database):
    sqlite_flavors.create("p", is_public=False)

    def add(connection):
        row = {"flavor_id": connection.scalar(select(flavors.c.id)), "created_at": NOW}
        many = [{**row, "project_id": f"p{number}"} for number in range(MAX_FLAVOR_PROJECTS - 1)]
        connection.execute(insert(flavor_projects), many)

    sqlite_database.write(add)
    assert "last" in projects(sqlite_flavors.let_in("p", "last"))
    refused = message(sqlite_flavors.let_in("p", "more", status=400))
    assert refused == "Flavor p would have 10001 projects, at most 10000 allowed."
    assert len(projects(sqlite_flavors.ask("GET", "/p/os-flavor-access"))) == MAX_FLAVOR_PROJECTS
    sqlite_flavors.shut_out("p", "last")
    assert "more" in projects(sqlite_flavors.let_in("p", "more"))
