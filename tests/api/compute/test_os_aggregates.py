# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: creation, lists, changes, metadata and deletion."""

import pytest

from placement_sched.limits import MAX_AGGREGATE_METADATA
from tests.api.compute.conftest import URL
from tests.support.hosts import add_node

IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
NUL = rb'{"aggregate": {"name": "a\u0000b"}}'
FIELDS = [
    "availability_zone",
    "created_at",
    "deleted",
    "deleted_at",
    "hosts",
    "id",
    "metadata",
    "name",
    "updated_at",
]


def test_new_aggregate_is_shown_without_hosts_and_metadata(api):
    shown = api.create("ssd", "z1").json["aggregate"]
    assert sorted(shown) == sorted(set(FIELDS) - {"hosts", "metadata"})
    assert (shown["name"], shown["availability_zone"]) == ("ssd", "z1")
    assert (shown["deleted"], shown["deleted_at"], shown["updated_at"]) == (False, None, None)


def test_shown_aggregate_has_every_field(api):
    number = api.make("ssd", "z1")
    shown = api.show(number, version="2.40").json["aggregate"]
    assert sorted(shown) == FIELDS
    assert shown["metadata"] == {"availability_zone": "z1"}
    assert shown["hosts"] == []


def test_listed_aggregates_have_every_field_and_are_in_order_of_id(api):
    numbers = [api.make(name) for name in ("b", "a", "c")]
    listed = api.app.get(URL).json["aggregates"]
    assert [each["id"] for each in listed] == numbers
    assert sorted(listed[0]) == FIELDS


@pytest.mark.parametrize(("version", "shown"), [("2.40", False), ("2.41", True), ("2.96", True)])
def test_uuid_is_shown_from_2_41(sqlite_api, version, shown):
    headers = {"OpenStack-API-Version": f"compute {version}"}
    body = {"aggregate": {"name": "a"}}
    aggregate = sqlite_api.app.post_json(URL, body, headers=headers).json["aggregate"]
    (listed,) = sqlite_api.app.get(URL, headers=headers).json["aggregates"]
    got = sqlite_api.show(aggregate["id"], version=version).json["aggregate"]
    updated = sqlite_api.app.put_json(f"{URL}/{aggregate['id']}", body, headers=headers)
    for each in (aggregate, listed, got, updated.json["aggregate"]):
        assert ("uuid" in each) is shown


def test_times_have_novas_format(api):
    number = api.make("a")
    api.set_metadata(number, ssd="true")
    shown = api.show(number).json["aggregate"]
    assert len(shown["created_at"]) == len("2026-11-20T08:57:03.000000")
    assert shown["updated_at"] >= shown["created_at"]


def test_aggregate_has_at_most_a_thousand_metadata_keys(api):
    number = api.make("a")
    most = {f"k{each}": "v" for each in range(MAX_AGGREGATE_METADATA)}
    answer = api.set_metadata(number, **most, more="v", status=400)
    assert "Failed validating 'maxProperties'" in answer.json["badRequest"]["message"]
    api.set_metadata(number, **most)
    answer = api.set_metadata(number, more="v", k0=None, other="v", status=400)
    words = "it would have 1001 metadata keys, at most 1000 allowed."
    assert words in answer.json["badRequest"]["message"]
    api.set_metadata(number, more="v", k0=None)
    shown = api.show(number).json["aggregate"]["metadata"]
    assert len(shown) == MAX_AGGREGATE_METADATA
    assert "k0" not in shown


def test_aggregate_names_are_case_sensitive(api):
    assert api.make("ssd") != api.make("SSD")


def test_duplicate_name_is_409_on_create_and_update(api):
    api.make("a")
    fault = api.create("a", status=409).json["conflictingRequest"]
    assert fault["message"] == "Aggregate a already exists."
    api.update(api.make("b"), name="a", status=409)


def test_update_can_keep_the_name(api):
    number = api.make("a")
    assert api.update(number, name="a").json["aggregate"]["name"] == "a"


def test_update_changes_only_name_and_zone(api):
    number = api.make("a", "z1")
    api.set_metadata(number, ssd="true")
    assert api.update(number, name="b").json["aggregate"]["availability_zone"] == "z1"
    updated = api.update(number, availability_zone="z2").json["aggregate"]
    assert updated["name"] == "b"
    assert updated["metadata"] == {"availability_zone": "z2", "ssd": "true"}


def test_metadata_is_merged_and_null_removes_a_key(api):
    number = api.make("a")
    api.set_metadata(number, ssd="true", gpu="2")
    tagged = api.set_metadata(number, ssd=None, absent=None, Ssd="x").json["aggregate"]
    assert tagged["metadata"] == {"Ssd": "x", "gpu": "2"}
    assert api.show(number).json["aggregate"]["metadata"] == {"Ssd": "x", "gpu": "2"}


@pytest.mark.parametrize("value", ["", "v" * 255, "TRUE ", "é✓", "a\nb"])
def test_metadata_values_are_stored_exactly(api, value):
    number = api.make("a")
    assert api.set_metadata(number, k=value).json["aggregate"]["metadata"] == {"k": value}
    assert api.show(number).json["aggregate"]["metadata"] == {"k": value}


@pytest.mark.parametrize("key", ["k" * 255, "trait:CUSTOM_X", "a b", "filter_tenant_id-3.b_C"])
def test_valid_metadata_keys(sqlite_api, key):
    number = sqlite_api.make("a")
    body = {"set_metadata": {"metadata": {key: "v"}}}
    assert sqlite_api.act(number, body).json["aggregate"]["metadata"] == {key: "v"}


def test_name_of_a_deleted_aggregate_can_be_reused(api):
    number = api.make("a", "z1")
    assert api.delete(number).body == b""
    api.show(number, status=404)
    assert api.make("a") != number


@pytest.mark.parametrize("number", [9999, -1, 0, 2**31, 10**30])
def test_unknown_aggregate_is_404(sqlite_api, sqlite_database, number):
    add_node(sqlite_database, "h1")
    message = sqlite_api.show(number, status=404).json["itemNotFound"]["message"]
    assert str(number) in message
    sqlite_api.update(number, name="b", status=404)
    sqlite_api.delete(number, status=404)
    sqlite_api.add_host(number, "h1", status=404)
    sqlite_api.remove_host(number, "h1", status=404)
    sqlite_api.set_metadata(number, k="v", status=404)


@pytest.mark.parametrize("number", ["abc", "1.5", "1e3", "x" * 300])
def test_non_numeric_id_is_400(sqlite_api, number):
    message = sqlite_api.show(number, status=400).json["badRequest"]["message"]
    assert "must be an integer" in message
    sqlite_api.update(number, name="b", status=400)
    sqlite_api.delete(number, status=400)
    sqlite_api.set_metadata(number, k="v", status=400)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, "$.aggregate"),
        ({"name": ""}, "$.aggregate.name"),
        ({"name": "a" * 256}, "$.aggregate.name"),
        ({"name": " a"}, "$.aggregate.name"),
        ({"name": "a\u3000"}, "$.aggregate.name"),
        ({"name": "a\tb"}, "$.aggregate.name"),
        ({"name": "a\x7fb"}, "$.aggregate.name"),
        ({"name": "a\n"}, "$.aggregate.name"),
        ({"name": 5}, "$.aggregate.name"),
        ({"name": None}, "$.aggregate.name"),
        ({"name": "a", "availability_zone": "z:1"}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": ""}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": "z" * 256}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": " z"}, "$.aggregate.availability_zone"),
        ({"name": "a", "availability_zone": 5}, "$.aggregate.availability_zone"),
        ({"name": "a", "metadata": {}}, "$.aggregate"),
        ({"name": "a", "hosts": []}, "$.aggregate"),
    ],
)
def test_malformed_aggregate_is_400_with_the_path(sqlite_api, fields, place):
    answer = sqlite_api.app.post_json(URL, {"aggregate": fields}, status=400)
    assert f"(at {place})" in answer.json["badRequest"]["message"]
    number = sqlite_api.make("kept")
    sqlite_api.app.put_json(f"{URL}/{number}", {"aggregate": fields}, status=400)
    assert [each["name"] for each in sqlite_api.app.get(URL).json["aggregates"]] == ["kept"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"x": 1}', b'"a"', NUL])
def test_body_without_aggregate_is_400(sqlite_app, body):
    sqlite_app.post(URL, body, content_type="application/json", status=400)
    sqlite_app.put(f"{URL}/1", body, content_type="application/json", status=400)


@pytest.mark.parametrize("zone", ["z 1,b", "z" * 255, "zürich", None])
def test_valid_zone_names(sqlite_api, zone):
    body = {"aggregate": {"name": "a", "availability_zone": zone}}
    aggregate = sqlite_api.app.post_json(URL, body).json["aggregate"]
    assert aggregate["availability_zone"] == zone


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"frob": {}},
        {"add_host": {"host": "h1"}, "remove_host": {"host": "h1"}},
        {"add_host": None},
        {"add_host": {}},
        {"add_host": {"host": ""}},
        {"add_host": {"host": "a b"}},
        {"add_host": {"host": "hé"}},
        {"add_host": {"host": "h1\n"}},
        {"add_host": {"host": "h" * 256}},
        {"add_host": {"host": 5}},
        {"add_host": {"host": "h1", "more": 1}},
        {"remove_host": {"host": ["h1"]}},
        {"set_metadata": {}},
        {"set_metadata": {"metadata": []}},
        {"set_metadata": {"metadata": {"k": 5}}},
        {"set_metadata": {"metadata": {"k": True}}},
        {"set_metadata": {"metadata": {"k": "v" * 256}}},
        {"set_metadata": {"metadata": {"k": "a\x00b"}}},
        {"set_metadata": {"metadata": {"": "v"}}},
        {"set_metadata": {"metadata": {"k" * 256: "v"}}},
        {"set_metadata": {"metadata": {"a/b": "v"}}},
        {"set_metadata": {"metadata": {"k\n": "v"}}},
        {"set_metadata": {"metadata": {"é": "v"}}},
        {"set_metadata": {"metadata": {"ok": "v", "k": 5}}},
        {"set_metadata": {"metadata": {" k": "v"}}},
    ],
)
def test_malformed_action_is_400_and_changes_nothing(sqlite_api, sqlite_database, body):
    add_node(sqlite_database, "h1")
    number = sqlite_api.make("a")
    before = sqlite_api.show(number).json
    sqlite_api.act(number, body, status=400)
    assert sqlite_api.show(number).json == before


@pytest.mark.parametrize("metadata", [{"k": "1", "k ": "2"}, {"k ": None}], ids=str)
def test_metadata_keys_differing_by_a_trailing_blank_are_rejected(api, metadata):
    number = api.make("a")
    api.set_metadata(number, k="kept")
    api.act(number, {"set_metadata": {"metadata": metadata}}, status=400)
    assert api.show(number).json["aggregate"]["metadata"] == {"k": "kept"}


def test_unknown_action_is_named_in_the_error(sqlite_api):
    answer = sqlite_api.act(sqlite_api.make("a"), {"frob": {}}, status=400)
    assert answer.json["badRequest"]["message"] == "There is no such action: frob"


def cache_images(app, number, body, version, status):
    headers = {"OpenStack-API-Version": f"compute {version}"}
    return app.post_json(f"{URL}/{number}/images", body, headers=headers, status=status)


def test_cache_images_is_accepted_from_2_81(sqlite_api):
    number = sqlite_api.make("a")
    body = {"cache": [{"id": IMAGE}]}
    cache_images(sqlite_api.app, number, body, "2.80", 404)
    assert cache_images(sqlite_api.app, number, body, "2.81", 202).body == b""
    cache_images(sqlite_api.app, 9999, body, "2.81", 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cache": []},
        {"cache": [{"id": "x"}]},
        {"cache": [{}]},
        {"cache": [{"id": IMAGE}, {"id": IMAGE}]},
        {"cache": [{"id": IMAGE}], "more": 1},
    ],
)
def test_malformed_images_are_400(sqlite_api, body):
    cache_images(sqlite_api.app, sqlite_api.make("a"), body, "2.96", 400)
