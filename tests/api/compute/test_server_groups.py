# SPDX-License-Identifier: Apache-2.0
"""Server groups of the compute API."""

from uuid import UUID

import pytest

from tests.api.compute.client import get_error_message
from tests.support.scheduling import make_uuid
from tests.support.statements import record_statements

SERVER_GROUP_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
SHOP_MEMBER = {"token": "bob:shop", "roles": "member,reader"}
BANK_MEMBER = {"token": "eve:bank", "roles": "member,reader"}


def post_group_of_version(server_group_api, version, **fields):
    body = {"server_group": {"name": "g", **fields}}
    return server_group_api.request("POST", "", body, version=version, status="*")


@pytest.mark.all_databases
def test_server_group_can_be_created_shown_and_deleted(server_group_api):
    group = server_group_api.create_group("web", "anti-affinity", {"max_server_per_host": 2})
    assert UUID(group["id"])
    assert group == {
        "id": group["id"],
        "name": "web",
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 2},
        "members": [],
        "project_id": "admin",
        "user_id": "admin",
    }
    assert server_group_api.show_group(group["id"]) == group
    assert server_group_api.show_group(group["id"].upper()) == group
    assert server_group_api.request("DELETE", f"/{group['id']}", status=204).body == b""
    for method in ("GET", "DELETE"):
        gone = server_group_api.request(method, f"/{group['id']}", status=404)
        assert gone.json["itemNotFound"]["message"] == (
            f"Instance group {group['id']} could not be found."
        )


def test_fields_of_a_server_group_depend_on_the_version(sqlite_server_group_api):
    group = sqlite_server_group_api.create_group("web", "anti-affinity", {"max_server_per_host": 3})
    for version, keys in {
        "2.1": {"policies", "metadata"},
        "2.12": {"policies", "metadata"},
        "2.13": {"policies", "metadata", "project_id", "user_id"},
        "2.63": {"policies", "metadata", "project_id", "user_id"},
        "2.64": {"policy", "rules", "project_id", "user_id"},
    }.items():
        shown = sqlite_server_group_api.show_group(group["id"], version=version)
        assert set(shown) == {"id", "name", "members"} | keys, version
        assert shown.get("policies", ["anti-affinity"]) == ["anti-affinity"]
        assert shown.get("metadata", {}) == {}
        assert sqlite_server_group_api.request("GET", version=version).json["server_groups"] == [
            shown
        ]


def test_soft_policies_of_server_groups_are_supported_from_2_15(sqlite_server_group_api):
    for policy in SERVER_GROUP_POLICIES:
        soft = policy.startswith("soft")
        old = post_group_of_version(sqlite_server_group_api, "2.14", policies=[policy])
        assert old.status_int == (400 if soft else 200)
        assert (
            post_group_of_version(sqlite_server_group_api, "2.15", policies=[policy]).status_int
            == 200
        )
        assert (
            post_group_of_version(sqlite_server_group_api, "2.64", policy=policy).status_int == 200
        )


def test_invalid_server_group_is_400_and_not_stored(sqlite_server_group_api):
    for version, fields, expected in [
        ("2.63", {"policy": "affinity"}, "$.server_group"),
        ("2.63", {"policies": ["affinity"], "rules": {}}, "$.server_group"),
        ("2.63", {"policies": []}, "$.server_group.policies"),
        ("2.63", {"policies": ["affinity", "anti-affinity"]}, "$.server_group.policies"),
        ("2.63", {"policies": ["near"]}, "$.server_group.policies[0]"),
        ("2.64", {"policies": ["affinity"]}, "$.server_group"),
        ("2.64", {"policy": "near"}, "$.server_group.policy"),
        ("2.64", {}, "$.server_group"),
        ("2.64", {"policy": "affinity", "name": ""}, "$.server_group.name"),
        ("2.64", {"policy": "affinity", "metadata": {}}, "$.server_group"),
        ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 2}}, "only"),
        ("2.64", {"policy": "soft-affinity", "rules": {"max_server_per_host": 2}}, "only"),
        ("2.64", {"policy": "anti-affinity", "rules": {"max": 2}}, "$.server_group.rules"),
        *(
            (
                "2.64",
                {"policy": "anti-affinity", "rules": {"max_server_per_host": most}},
                "$.server_group.rules.max_server_per_host",
            )
            for most in (0, -1, "0", "", "x", "1.5", 1.5, None, 2**31, "9" * 30)
        ),
    ]:
        response = post_group_of_version(sqlite_server_group_api, version, **fields)
        assert response.status_int == 400, fields
        assert response.json["badRequest"]["code"] == 400, fields
        assert expected.lower() in get_error_message(response).lower(), fields
        assert sqlite_server_group_api.list_group_names() == [], fields


def test_group_rules_can_be_empty_and_max_server_per_host_can_be_a_string(sqlite_server_group_api):
    assert sqlite_server_group_api.create_group("a", "affinity", {})["rules"] == {}
    group = sqlite_server_group_api.create_group(
        "b", "anti-affinity", {"max_server_per_host": "12"}
    )
    assert group["rules"] == {"max_server_per_host": 12}


@pytest.mark.all_databases
def test_group_members_are_the_instances_recorded_in_the_group(server_group_api):
    group = server_group_api.create_group("web", "soft-affinity")["id"]
    other = server_group_api.create_group("db")["id"]
    for number in (3, 1):
        server_group_api.record_group_member(make_uuid(number), group, host="cn1")
    server_group_api.record_group_member(make_uuid(2), other)
    assert server_group_api.show_group(group)["members"] == [make_uuid(3), make_uuid(1)]
    listed = server_group_api.request("GET").json["server_groups"]
    assert [each["members"] for each in listed] == [[make_uuid(3), make_uuid(1)], [make_uuid(2)]]
    server_group_api.app.delete(f"/scheduler/v1/instances/{make_uuid(3)}", status=204)
    server_group_api.record_group_member(make_uuid(1), other)
    assert server_group_api.show_group(group)["members"] == []
    assert server_group_api.show_group(other)["members"] == [make_uuid(1), make_uuid(2)]


def test_instance_record_has_no_server_group_after_its_group_is_deleted(server_group_api):
    group = server_group_api.create_group()["id"]
    server_group_api.record_group_member(make_uuid(1), group, host="cn1")
    server_group_api.request("DELETE", f"/{group}", status=204)
    recorded = server_group_api.app.get(f"/scheduler/v1/instances/{make_uuid(1)}").json
    assert (recorded["host"], recorded["server_group"]) == ("cn1", None)


def test_server_groups_are_paged_in_creation_order(server_group_api):
    for name in ("c", "a", "d", "b"):
        server_group_api.create_group(name)
    assert server_group_api.list_group_names() == ["c", "a", "d", "b"]
    assert server_group_api.list_group_names("?limit=2") == ["c", "a"]
    assert server_group_api.list_group_names("?limit=2&offset=1") == ["a", "d"]
    assert server_group_api.list_group_names("?offset=3") == ["b"]
    assert server_group_api.list_group_names("?offset=99999999999999999999") == []
    assert server_group_api.list_group_names("?limit=0") == ["c", "a", "d", "b"]
    marker = server_group_api.request("GET", "?limit=2").json["server_groups"][-1]["id"]
    assert server_group_api.list_group_names(f"?limit=1&offset=1&marker={marker.upper()}") == ["d"]
    assert server_group_api.list_group_names("?marker=nope") == []


def test_page_of_groups_has_at_most_the_maximum_number(sqlite_server_group_api, monkeypatch):
    monkeypatch.setattr("placement_sched.api.paging.MAX_PAGE", 2)
    for name in "abc":
        sqlite_server_group_api.create_group(name)
    assert sqlite_server_group_api.list_group_names() == ["a", "b"]
    assert sqlite_server_group_api.list_group_names("?limit=5&offset=1") == ["b", "c"]


def test_invalid_limit_or_offset_of_server_groups_is_400(sqlite_server_group_api):
    for query in ["limit=-1", "limit=x", "offset=-1", "offset=1.5", "limit="]:
        response = sqlite_server_group_api.request("GET", f"?{query}", status=400)
        assert query.split("=")[0] in get_error_message(response), query


def test_unknown_query_parameter_of_server_groups_is_rejected_from_2_75(sqlite_server_group_api):
    sqlite_server_group_api.request("GET", "?bogus=1", version="2.74")
    sqlite_server_group_api.request("GET", "?bogus=1", version="2.75", status=400)


def test_projects_list_only_their_own_server_groups(server_group_api):
    own = server_group_api.create_group("own", **SHOP_MEMBER)
    assert (own["project_id"], own["user_id"]) == ("shop", "bob")
    server_group_api.create_group("others", **BANK_MEMBER)
    assert server_group_api.list_group_names(**SHOP_MEMBER) == ["own"]
    assert server_group_api.list_group_names("?all_projects=True", **SHOP_MEMBER) == ["own"]
    assert server_group_api.list_group_names() == []
    assert server_group_api.list_group_names("?all_projects=True") == ["own", "others"]
    for method in ("GET", "DELETE"):
        server_group_api.request(method, f"/{own['id']}", status=403, **BANK_MEMBER)
    assert server_group_api.show_group(own["id"])["name"] == "own"
    server_group_api.request("DELETE", f"/{own['id']}", status=204, **SHOP_MEMBER)
    assert server_group_api.list_group_names("?all_projects=") == ["others"]


def test_sql_statement_count_does_not_grow_with_groups_or_members(sqlite_server_group_api):
    database = sqlite_server_group_api.app.app.services.database
    counts = []
    for number in range(1, 6):
        group = sqlite_server_group_api.create_group(str(number))["id"]
        sqlite_server_group_api.record_group_member(make_uuid(number), group, host=f"cn{number}")
        with record_statements(database) as listing:
            sqlite_server_group_api.list_group_names()
        with record_statements(database) as showing:
            sqlite_server_group_api.show_group(group)
        counts.append((len(listing), len(showing)))
    assert set(counts) == {(2, 2)}
