# SPDX-License-Identifier: Apache-2.0
"""Allocations of the Placement API, by microversion."""

from uuid import uuid4

import pytest

from placement_sched.api.placement import allocations
from placement_sched.model.provider import Inventory
from tests.support.allocation_bodies import build_body, build_version_headers
from tests.support.providers import make_provider
from tests.support.versions import LATEST

pytestmark = pytest.mark.all_databases


@pytest.fixture
def provider(app):
    return make_provider(app.app.services.database, VCPU=8, DISK_GB=100)


@pytest.fixture
def sqlite_provider(sqlite_app):
    memory = Inventory(resource_class="MEMORY_MB", total=1024, min_unit=64)
    return make_provider(sqlite_app.app.services.database, memory, VCPU=8)


def put_allocations(app, consumer, body, version, status=204):
    path = f"/placement/allocations/{consumer}"
    return app.put_json(path, body, headers=build_version_headers(version), status=status)


def put_claim(app, consumer, version, amounts, status=204, **fields):
    body = build_body(version, amounts, **fields)
    return put_allocations(app, consumer, body, version, status)


def send_get_request(app, path, version=LATEST, status=200):
    return app.get(f"/placement{path}", headers=build_version_headers(version), status=status)


def test_consumer_fields_of_allocations_depend_on_the_version(app, provider):
    consumer = str(uuid4())
    response = send_get_request(app, f"/allocations/{consumer}")
    assert response.json == {"allocations": {}}
    assert "Last-Modified" in response.headers
    amounts = {"VCPU": 2, "DISK_GB": 5}
    put_claim(app, consumer, LATEST, {provider: amounts})
    expected = {"allocations": {provider: {"generation": 1, "resources": amounts}}}
    for version, fields in (
        ("1.0", {}),
        ("1.12", {"project_id": "project", "user_id": "user"}),
        ("1.28", {"consumer_generation": 1}),
        ("1.38", {"consumer_type": "INSTANCE"}),
    ):
        minor = int(version[2:])
        before = send_get_request(app, f"/allocations/{consumer}", f"1.{max(minor - 1, 0)}").json
        assert minor == 0 or before == expected, version
        expected |= fields
        assert send_get_request(app, f"/allocations/{consumer}", version).json == expected


def test_provider_lists_allocations_by_consumer(app, provider):
    first, second = str(uuid4()), str(uuid4())
    put_claim(app, first, "1.12", {provider: {"VCPU": 2, "DISK_GB": 5}})
    put_claim(app, second, "1.12", {provider: {"VCPU": 1}})
    for version, shown in [("1.0", set()), ("1.27", set()), ("1.28", {"consumer_generation"})]:
        document = send_get_request(
            app, f"/resource_providers/{provider}/allocations", version
        ).json
        generation = dict.fromkeys(shown, 1)
        assert document == {
            "allocations": {
                first: {"resources": {"VCPU": 2, "DISK_GB": 5}, **generation},
                second: {"resources": {"VCPU": 1}, **generation},
            },
            "resource_provider_generation": 2,
        }, version


def test_last_modified_of_allocations_is_sent_from_1_15(app, provider):
    consumer = str(uuid4())
    put_claim(app, consumer, "1.12", {provider: {"VCPU": 2}})
    for version, stamped in [("1.14", False), ("1.15", True)]:
        for path in (
            f"/allocations/{consumer}",
            f"/resource_providers/{provider}/allocations",
            f"/resource_providers/{provider}/usages",
            "/usages?project_id=project",
        ):
            response = send_get_request(app, path, version)
            assert ("Last-Modified" in response.headers) is stamped, version
            assert (response.headers.get("Cache-Control") == "no-cache") is stamped, version


def test_consumer_without_project_and_user_gets_the_configured_defaults(sqlite_settings, make_app):
    app = make_app(
        sqlite_settings.with_overrides(
            {
                "placement.incomplete_consumer_project_id": "nobody's",
                "placement.incomplete_consumer_user_id": "nobody",
            }
        )
    )
    consumer, provider = str(uuid4()), make_provider(app.app.services.database, VCPU=8)
    put_claim(app, consumer, "1.0", {provider: {"VCPU": 1}})
    document = send_get_request(app, f"/allocations/{consumer}", "1.12").json
    assert (document["project_id"], document["user_id"]) == ("nobody's", "nobody")


def test_last_of_repeated_provider_entries_in_an_allocation_list_is_stored(app, provider):
    consumer = str(uuid4())
    entries = [
        {"resource_provider": {"uuid": provider}, "resources": {name: 2}}
        for name in ("VCPU", "DISK_GB")
    ]
    put_allocations(app, consumer, {"allocations": entries}, "1.0")
    document = send_get_request(app, f"/allocations/{consumer}").json["allocations"]
    assert document[provider]["resources"] == {"DISK_GB": 2}


def test_empty_allocations_remove_the_consumer_from_1_28(app, provider):
    consumer = str(uuid4())
    put_claim(app, consumer, "1.28", {provider: {"VCPU": 1}})
    put_claim(app, consumer, "1.27", {}, status=400)
    put_claim(app, consumer, "1.28", {}, generation=1)
    assert send_get_request(app, f"/allocations/{consumer}").json == {"allocations": {}}
    put_claim(app, consumer, "1.28", {provider: {"VCPU": 1}}, generation=None)


def test_consumer_type_is_unchanged_by_allocations_before_1_38(app, provider):
    consumer = str(uuid4())
    amounts = {provider: {"VCPU": 1}}
    put_claim(app, consumer, "1.38", amounts, kind="MIGRATION")
    put_claim(app, consumer, "1.37", amounts, generation=1)
    assert send_get_request(app, f"/allocations/{consumer}").json["consumer_type"] == "MIGRATION"
    put_claim(app, consumer, "1.38", amounts, generation=2, kind="INSTANCE")
    assert send_get_request(app, f"/allocations/{consumer}").json["consumer_type"] == "INSTANCE"


def test_post_stores_no_allocations_if_those_of_one_consumer_exceed_the_capacity(app, provider):
    one, two = str(uuid4()), str(uuid4())
    bodies = {one: build_body("1.13", {provider: {"VCPU": 5}})}
    bodies[two] = build_body("1.13", {provider: {"VCPU": 5}})
    app.post_json(
        "/placement/allocations", bodies, headers=build_version_headers("1.13"), status=409
    )
    for consumer in (one, two):
        assert send_get_request(app, f"/allocations/{consumer}").json == {"allocations": {}}


def test_consumer_uuid_can_be_in_any_format(app, provider):
    consumer = str(uuid4())
    put_claim(app, consumer.upper(), "1.28", {provider: {"VCPU": 1}})
    put_allocations(
        app,
        consumer.replace("-", ""),
        build_body("1.28", {provider: {"VCPU": 1}}, generation=1),
        "1.28",
    )
    for spelling in (consumer, consumer.upper()):
        assert send_get_request(app, f"/allocations/{spelling}").json["allocations"]
    twice = {spelling: build_body("1.13", {}) for spelling in (consumer, consumer.upper())}
    app.post_json(
        "/placement/allocations", twice, headers=build_version_headers("1.13"), status=400
    )
    app.delete(
        f"/placement/allocations/{consumer.upper()}",
        headers=build_version_headers("1.28"),
        status=204,
    )


def test_claim_exceeding_capacity_or_unknown_provider_is_rejected(sqlite_app, sqlite_provider):
    for amounts, status, words in [
        ({"VCPU": 9}, 409, "exceed the capacity"),
        ({"MEMORY_MB": 1}, 409, "violate inventory constraints"),
        ({"VCPU": 10**12}, 409, "violate inventory constraints"),
        ({"VGPU": 1}, 409, "Inventory for 'VGPU'"),
        ({"NO_SUCH": 1}, 400, "No such resource class NO_SUCH"),
    ]:
        body = build_body(LATEST, {sqlite_provider: amounts})
        (error,) = put_allocations(sqlite_app, uuid4(), body, LATEST, status).json["errors"]
        assert error["code"] == "placement.undefined_code", words
        assert words in error["detail"], words


def test_claim_on_an_unknown_provider_is_400_and_its_allocation_list_404(sqlite_app):
    unknown = str(uuid4())
    body = build_body(LATEST, {unknown: {"VCPU": 1}})
    (error,) = put_allocations(sqlite_app, uuid4(), body, LATEST, 400).json["errors"]
    assert unknown in error["detail"]
    for noun in ("allocations", "usages"):
        response = send_get_request(sqlite_app, f"/resource_providers/{unknown}/{noun}", status=404)
        assert f"No resource provider with uuid {unknown} found" in response.text


#: Microversions that changed the format of a claim.
VERSIONS_THAT_CHANGED_ALLOCATIONS = ("1.0", "1.8", "1.12", "1.28", "1.34", "1.38")
PROVIDER_UUID = "aaaaaaaa-0000-4000-8000-000000000001"


def test_malformed_allocations_are_400_in_every_version(sqlite_app):
    for change in [
        {"surprise": 1},
        {"allocations": None},
        {"allocations": "x"},
        {"allocations": {"x": {"resources": {"VCPU": 1}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"vcpu": 1}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": 0}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": "1"}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": 1.5}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": True}}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": 1}, "generation": "1"}}},
        {"allocations": {PROVIDER_UUID: {"resources": {"VCPU": 1}, "surprise": 1}}},
        {"allocations": []},
        {"allocations": [{"resource_provider": {"uuid": "x"}, "resources": {"VCPU": 1}}]},
        {"allocations": [{"resource_provider": {"uuid": PROVIDER_UUID}}]},
        {"project_id": ""},
        {"project_id": "x" * 256},
        {"user_id": None},
        {"consumer_generation": "1"},
        {"consumer_generation": 1.5},
        {"consumer_type": "instance"},
        {"consumer_type": "unknown"},
        {"consumer_type": "X" * 256},
        {"mappings": {}},
        {"mappings": {"1": []}},
        {"mappings": {"1": ["x"]}},
        {"mappings": None},
    ]:
        for version in VERSIONS_THAT_CHANGED_ALLOCATIONS:
            body = {**build_body(version, {PROVIDER_UUID: {"VCPU": 1}}), **change}
            response = put_allocations(sqlite_app, uuid4(), body, version, 400)
            assert "JSON does not validate" in response.json["errors"][0]["detail"], change


def test_allocation_field_required_by_the_version_cannot_be_omitted(sqlite_app):
    for version in VERSIONS_THAT_CHANGED_ALLOCATIONS:
        whole = build_body(version, {PROVIDER_UUID: {"VCPU": 1}})
        for key in whole:
            body = {name: value for name, value in whole.items() if name != key}
            response = put_allocations(sqlite_app, uuid4(), body, version, 400)
            assert f"'{key}' is a required property" in response.text, version


def test_mappings_of_allocations_are_accepted_from_1_34(sqlite_app, sqlite_provider):
    amounts = {sqlite_provider: {"VCPU": 1}}
    for mappings in [
        {"": [PROVIDER_UUID]},
        {"_NET1": [PROVIDER_UUID, PROVIDER_UUID]},
        {"1": [PROVIDER_UUID]},
    ]:
        put_allocations(
            sqlite_app, uuid4(), {**build_body("1.34", amounts), "mappings": mappings}, "1.34"
        )
        put_allocations(
            sqlite_app, uuid4(), {**build_body("1.33", amounts), "mappings": mappings}, "1.33", 400
        )


def test_consumer_with_invalid_uuid_is_rejected(sqlite_app):
    response = put_claim(sqlite_app, "nobody", LATEST, {PROVIDER_UUID: {"VCPU": 1}}, status=400)
    assert "Malformed consumer_uuid: nobody" in response.text
    assert send_get_request(sqlite_app, "/allocations/nobody").json == {"allocations": {}}


def test_malformed_posts_of_allocations_are_400(sqlite_app):
    for body in [b"", b"{", b"[]", b"null", b"{}", b'{"x": {}}']:
        response = sqlite_app.post(
            "/placement/allocations",
            body,
            headers=build_version_headers(LATEST),
            content_type="application/json",
            status=400,
        )
        assert response.json["errors"][0]["code"] == "placement.undefined_code", body


def test_too_many_amounts_in_one_claim_are_rejected(sqlite_app, sqlite_provider, monkeypatch):
    monkeypatch.setattr(allocations, "MAX_ALLOCATION_AMOUNTS", 1)
    for version in ["1.0", "1.12", LATEST]:
        consumer, amounts = str(uuid4()), {"VCPU": 1, "MEMORY_MB": 64}
        body = build_body(version, {sqlite_provider: amounts})
        response = put_allocations(sqlite_app, consumer, body, version, status=400)
        assert "$.allocations: the request has 2 amounts in all, which" in response.text, version
        assert send_get_request(sqlite_app, f"/allocations/{consumer}").json == {"allocations": {}}


def test_too_many_amounts_in_several_claims_are_rejected(sqlite_app, sqlite_provider, monkeypatch):
    monkeypatch.setattr(allocations, "MAX_ALLOCATION_AMOUNTS", 1)
    first, second = str(uuid4()), str(uuid4())
    body = {
        consumer: build_body(LATEST, {sqlite_provider: {"VCPU": 1}}) for consumer in (first, second)
    }
    path = "/placement/allocations"
    response = sqlite_app.post_json(path, body, headers=build_version_headers(LATEST), status=400)
    assert "$: the request has 2 amounts in all, which" in response.text
    assert send_get_request(sqlite_app, f"/allocations/{first}").json == {"allocations": {}}
