# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: creation, lists, changes, metadata and deletion."""

import pytest

from placement_sched.limits import MAX_AGGREGATE_METADATA
from tests.api.compute.conftest import AGGREGATES_URL
from tests.support.hosts import add_node

IMAGE_UUID = "70a599e0-31e7-49b7-b260-868f441e862b"
BODY_WITH_NUL_CHARACTER = rb'{"aggregate": {"name": "a\u0000b"}}'
AGGREGATE_FIELDS = [
    *("availability_zone", "created_at", "deleted", "deleted_at", "hosts"),
    *("id", "metadata", "name", "updated_at"),
]


def test_new_aggregate_is_shown_without_hosts_and_metadata(aggregate_api):
    new = aggregate_api.create("ssd", "z1").json["aggregate"]
    assert sorted(new) == sorted(set(AGGREGATE_FIELDS) - {"hosts", "metadata"})
    assert (new["name"], new["availability_zone"]) == ("ssd", "z1")
    assert (new["deleted"], new["deleted_at"], new["updated_at"]) == (False, None, None)
    shown = aggregate_api.show(new["id"], version="2.40").json["aggregate"]
    assert sorted(shown) == AGGREGATE_FIELDS
    assert (shown["metadata"], shown["hosts"]) == ({"availability_zone": "z1"}, [])
    assert len(shown["created_at"]) == len("2026-11-20T08:57:03.000000")


def test_listed_aggregates_have_every_field_and_are_in_order_of_id(aggregate_api):
    numbers = [aggregate_api.create_and_get_id(name) for name in ("b", "a", "c")]
    listed = aggregate_api.app.get(AGGREGATES_URL).json["aggregates"]
    assert [each["id"] for each in listed] == numbers
    assert sorted(listed[0]) == AGGREGATE_FIELDS


def test_aggregate_uuid_is_shown_from_2_41(sqlite_aggregate_api):
    for version, is_shown in (("2.40", False), ("2.41", True), ("2.96", True)):
        headers = {"OpenStack-API-Version": f"compute {version}"}
        body = {"aggregate": {"name": version}}
        aggregate = sqlite_aggregate_api.app.post_json(AGGREGATES_URL, body, headers=headers).json[
            "aggregate"
        ]
        path = f"{AGGREGATES_URL}/{aggregate['id']}"
        shown = sqlite_aggregate_api.app.get(path, headers=headers).json["aggregate"]
        updated = sqlite_aggregate_api.app.put_json(path, body, headers=headers).json["aggregate"]
        listed = sqlite_aggregate_api.app.get(AGGREGATES_URL, headers=headers).json["aggregates"]
        for each in (aggregate, shown, updated, *listed):
            assert ("uuid" in each) is is_shown


def test_aggregate_metadata_request_has_at_most_a_thousand_keys(aggregate_api):
    number = aggregate_api.create_and_get_id("a")
    most = {f"k{each}": "v" for each in range(MAX_AGGREGATE_METADATA)}
    response = aggregate_api.set_metadata(number, **most, more="v", status=400)
    assert "Failed validating 'maxProperties'" in response.json["badRequest"]["message"]
    aggregate_api.set_metadata(number, **most)


def test_aggregate_name_is_unique_until_its_aggregate_is_deleted(aggregate_api):
    number = aggregate_api.create_and_get_id("a")
    assert aggregate_api.create_and_get_id("A") != number
    fault = aggregate_api.create("a", status=409).json["conflictingRequest"]
    assert fault["message"] == "Aggregate a already exists."
    aggregate_api.update(aggregate_api.create_and_get_id("b"), name="a", status=409)
    assert aggregate_api.update(number, name="a").json["aggregate"]["name"] == "a"
    assert aggregate_api.delete(number).body == b""
    aggregate_api.show(number, status=404)
    assert aggregate_api.create_and_get_id("a") != number


def test_update_of_an_aggregate_changes_only_name_and_zone(aggregate_api):
    number = aggregate_api.create_and_get_id("a", "z1")
    aggregate_api.set_metadata(number, ssd="true")
    assert aggregate_api.update(number, name="b").json["aggregate"]["availability_zone"] == "z1"
    updated = aggregate_api.update(number, availability_zone="z2").json["aggregate"]
    assert updated["updated_at"] >= updated["created_at"]
    assert updated["name"] == "b"
    assert updated["metadata"] == {"availability_zone": "z2", "ssd": "true"}


@pytest.mark.all_databases
def test_aggregate_metadata_is_merged_and_null_removes_a_key(aggregate_api):
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.set_metadata(number, ssd="true", gpu="2")
    tagged = aggregate_api.set_metadata(number, ssd=None, absent=None, Ssd="x").json["aggregate"]
    assert tagged["metadata"] == {"Ssd": "x", "gpu": "2"}
    assert aggregate_api.show(number).json["aggregate"]["metadata"] == {"Ssd": "x", "gpu": "2"}


def test_aggregate_metadata_is_stored_unchanged(aggregate_api):
    number = aggregate_api.create_and_get_id("a")
    metadata = {
        **{f"k{at}": value for at, value in enumerate(("", "v" * 255, "TRUE ", "é✓", "a\nb"))},
        **dict.fromkeys(("k" * 255, "trait:CUSTOM_X", "a b", "filter_tenant_id-3.b_C"), "v"),
    }
    body = {"set_metadata": {"metadata": metadata}}
    assert aggregate_api.send_action(number, body).json["aggregate"]["metadata"] == metadata
    assert aggregate_api.show(number).json["aggregate"]["metadata"] == metadata


def test_unknown_aggregate_is_404_and_non_numeric_id_400(sqlite_aggregate_api, sqlite_database):
    add_node(sqlite_database, "h1")
    for number, status, words in (
        *((number, 404, str(number)) for number in (9999, -1, 0, 2**31, 10**30)),
        *((text, 400, "must be an integer") for text in ("abc", "1.5", "1e3", "x" * 300)),
    ):
        (fault,) = sqlite_aggregate_api.show(number, status=status).json.values()
        assert words in fault["message"]
        sqlite_aggregate_api.update(number, name="b", status=status)
        sqlite_aggregate_api.delete(number, status=status)
        sqlite_aggregate_api.add_host(number, "h1", status=status)
        sqlite_aggregate_api.remove_host(number, "h1", status=status)
        sqlite_aggregate_api.set_metadata(number, k="v", status=status)


def test_malformed_aggregate_is_400_with_the_path_of_the_error(sqlite_aggregate_api):
    number = sqlite_aggregate_api.create_and_get_id("kept")
    for fields, place in (
        ({}, "$.aggregate"),
        ({"name": ""}, "$.aggregate.name"),
        ({"name": "a" * 256}, "$.aggregate.name"),
        ({"name": "\u3000"}, "$.aggregate.name"),
        ({"name": "a\x7fb"}, "$.aggregate.name"),
        ({"name": 5}, "$.aggregate.name"),
        ({"name": "a", "availability_zone": "z:1"}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": ""}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": " z"}, "$.aggregate.availability_zone"),
        ({"name": "a", "metadata": {}}, "$.aggregate"),
        ({"name": "a", "hosts": []}, "$.aggregate"),
    ):
        for send, path in (
            (sqlite_aggregate_api.app.post_json, AGGREGATES_URL),
            (sqlite_aggregate_api.app.put_json, f"{AGGREGATES_URL}/1"),
        ):
            response = send(path, {"aggregate": fields}, status=400)
            assert f"(at {place})" in response.json["badRequest"]["message"], fields
    assert sqlite_aggregate_api.show(number).json["aggregate"]["name"] == "kept"
    for body in (b"", b"{", b"[]", b"null", b'{"x": 1}', b'"a"', BODY_WITH_NUL_CHARACTER):
        sqlite_aggregate_api.app.post(
            AGGREGATES_URL, body, content_type="application/json", status=400
        )
        sqlite_aggregate_api.app.put(
            f"{AGGREGATES_URL}/1", body, content_type="application/json", status=400
        )


def test_blanks_at_the_ends_of_a_new_aggregate_name_are_removed_as_in_nova(sqlite_aggregate_api):
    number = sqlite_aggregate_api.create_and_get_id("a")
    path, body = f"{AGGREGATES_URL}/{number}", {"aggregate": {"name": " az 1  "}}
    assert sqlite_aggregate_api.app.put_json(path, body).json["aggregate"]["name"] == "az 1"
    for name in (" ", "", "\tb", " \u3000 ", None):
        sqlite_aggregate_api.app.put_json(path, {"aggregate": {"name": name}}, status=400)
    # In nova, too, only a change of the name may have the blanks.
    for name in (" b", "b\u3000"):
        body = {"aggregate": {"name": name}}
        sqlite_aggregate_api.app.post_json(AGGREGATES_URL, body, status=400)


def test_valid_availability_zone_names_are_accepted(sqlite_aggregate_api):
    for number, zone in enumerate(("z 1,b", "z" * 255, "zürich", None)):
        body = {"aggregate": {"name": f"a{number}", "availability_zone": zone}}
        aggregate = sqlite_aggregate_api.app.post_json(AGGREGATES_URL, body).json["aggregate"]
        assert aggregate["availability_zone"] == zone


def test_malformed_aggregate_action_is_400_and_changes_nothing(
    sqlite_aggregate_api, sqlite_database
):
    add_node(sqlite_database, "h1")
    number = sqlite_aggregate_api.create_and_get_id("a")
    sqlite_aggregate_api.set_metadata(number, k="kept")
    before = sqlite_aggregate_api.show(number).json
    for body in (
        {},
        [],
        {"add_host": {"host": "h1"}, "remove_host": {"host": "h1"}},
        {"add_host": None},
        {"add_host": {}},
        {"add_host": {"host": "a b"}},
        {"add_host": {"host": "h1\n"}},
        {"add_host": {"host": 5}},
        {"add_host": {"host": "h1", "more": 1}},
        {"remove_host": {"host": ["h1"]}},
        {"set_metadata": {}},
        {"set_metadata": {"metadata": []}},
        {"set_metadata": {"metadata": {"k": 5}}},
        {"set_metadata": {"metadata": {"k": "v" * 256}}},
        {"set_metadata": {"metadata": {"k": "a\x00b"}}},
        {"set_metadata": {"metadata": {"": "v"}}},
        {"set_metadata": {"metadata": {"k" * 256: "v"}}},
        {"set_metadata": {"metadata": {"k\n": "v"}}},
        {"set_metadata": {"metadata": {"ok": "v", "k": 5}}},
        {"set_metadata": {"metadata": {"k": "1", "k ": "2"}}},
        {"set_metadata": {"metadata": {"k ": None}}},
    ):
        sqlite_aggregate_api.send_action(number, body, status=400)
        assert sqlite_aggregate_api.show(number).json == before, body
    response = sqlite_aggregate_api.send_action(number, {"frob": {}}, status=400)
    assert response.json["badRequest"]["message"] == "There is no such action: frob"


def post_cache_images_request(app, number, body, version, status):
    headers = {"OpenStack-API-Version": f"compute {version}"}
    return app.post_json(f"{AGGREGATES_URL}/{number}/images", body, headers=headers, status=status)


def test_request_to_cache_images_is_accepted_from_2_81(sqlite_aggregate_api):
    number = sqlite_aggregate_api.create_and_get_id("a")
    body = {"cache": [{"id": IMAGE_UUID}]}
    post_cache_images_request(sqlite_aggregate_api.app, number, body, "2.80", 404)
    assert (
        post_cache_images_request(sqlite_aggregate_api.app, number, body, "2.81", 202).body == b""
    )
    post_cache_images_request(sqlite_aggregate_api.app, 9999, body, "2.81", 404)
    for malformed in (
        {},
        {"cache": []},
        {"cache": [{"id": "x"}]},
        {"cache": [{"id": IMAGE_UUID}, {"id": IMAGE_UUID}]},
        {"cache": [{"id": IMAGE_UUID}], "more": 1},
    ):
        post_cache_images_request(sqlite_aggregate_api.app, number, malformed, "2.96", 400)
