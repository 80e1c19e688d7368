# SPDX-License-Identifier: Apache-2.0
"""The reshaper moves inventories and allocations together."""

from uuid import uuid4

import pytest

from placement_sched.api.placement import allocations
from placement_sched.limits import MAX_RESHAPER_INVENTORIES
from tests.api.placement.provider_requests import build_inventories
from tests.support.allocation_bodies import build_body, build_version_headers
from tests.support.providers import make_provider
from tests.support.statements import record_statements
from tests.support.versions import LATEST

pytestmark = pytest.mark.all_databases

CONFLICT_MESSAGE = (
    "There was a conflict when trying to complete your request.\n\n update conflict: Inv"
)
SERVICE_HEADERS = {"X-Auth-Token": "nova:service", "X-Roles": "service"}


def post_reshaper(app, inventories, allocations=None, version=LATEST, status=204):
    body = {"inventories": inventories, "allocations": allocations or {}}
    request_headers = {**build_version_headers(version), **SERVICE_HEADERS}
    return app.post_json("/placement/reshaper", body, headers=request_headers, status=status)


def put_allocations(app, consumer, amounts):
    path = f"/placement/allocations/{consumer}"
    app.put_json(
        path, build_body(LATEST, amounts), headers=build_version_headers(LATEST), status=204
    )


def get_placement_json(app, path):
    return app.get(f"/placement{path}", headers=build_version_headers(LATEST)).json


@pytest.fixture
def host_with_used_disk(app):
    """A host whose disk an instance uses, and an empty provider as the disk's new place."""
    database = app.app.services.database
    host, disk = make_provider(database, VCPU=8, DISK_GB=100), make_provider(database)
    instance = str(uuid4())
    put_allocations(app, instance, {host: {"VCPU": 2, "DISK_GB": 30}})
    return host, disk, instance


@pytest.mark.parametrize(
    ("change", "status", "code", "words"),
    [
        ({"host_generation": 7}, 409, "placement.concurrent_update", "actual: 1, given: 7"),
        ({"consumer_generation": 7}, 409, "placement.concurrent_update", "consumer generation"),
        ({"disk_total": 20}, 409, "placement.undefined_code", "exceed the capacity of 20"),
        ({"disk_class": "NO_SUCH"}, 400, "placement.undefined_code", "malformed reshaper data"),
        ({"left": "DISK_GB"}, 409, "placement.inventory.inuse", CONFLICT_MESSAGE),
        ({"stranger": True}, 400, "placement.resource_provider.not_found", "not found"),
    ],
    ids=["provider", "consumer", "capacity", "unknown class", "in use", "unknown provider"],
)
def test_rejected_reshape_changes_nothing(app, host_with_used_disk, change, status, code, words):
    host, disk, instance = host_with_used_disk
    before = (
        get_placement_json(app, f"/resource_providers/{host}/inventories"),
        get_placement_json(app, "/allocations/" + instance),
    )
    expected = {
        host: build_inventories(change.get("host_generation", 1), VCPU=8),
        disk: build_inventories(
            0, **{change.get("disk_class", "DISK_GB"): change.get("disk_total", 100)}
        ),
    }
    if "stranger" in change:
        expected[str(uuid4())] = build_inventories(0, VCPU=1)
    amounts = {host: {"VCPU": 2}, disk: {"DISK_GB": 30}}
    if "left" in change:
        amounts = {host: {"VCPU": 2, change["left"]: 30}}
    moved = build_body(LATEST, amounts, generation=change.get("consumer_generation", 1))
    (error,) = post_reshaper(app, expected, {instance: moved}, status=status).json["errors"]
    assert error["code"] == code
    assert words in error["detail"]
    after = (
        get_placement_json(app, f"/resource_providers/{host}/inventories"),
        get_placement_json(app, "/allocations/" + instance),
    )
    assert after == before
    assert get_placement_json(app, f"/resource_providers/{disk}/inventories")["inventories"] == {}


def test_reshape_can_shrink_an_inventory_below_unchanged_allocations(app, host_with_used_disk):
    host, _, instance = host_with_used_disk
    same = build_body(LATEST, {host: {"VCPU": 2, "DISK_GB": 30}}, generation=1)
    post_reshaper(app, {host: build_inventories(1, VCPU=1, DISK_GB=10)}, {instance: same})
    assert get_placement_json(app, f"/allocations/{instance}")["consumer_generation"] == 2


def test_reshape_with_too_many_amounts_is_rejected(app, host_with_used_disk, monkeypatch):
    host, disk, instance = host_with_used_disk
    monkeypatch.setattr(allocations, "MAX_ALLOCATION_AMOUNTS", 1)
    moved = build_body(LATEST, {host: {"VCPU": 2}, disk: {"DISK_GB": 30}}, generation=1)
    inventories = {host: build_inventories(2, VCPU=8), disk: build_inventories(0, DISK_GB=100)}
    response = post_reshaper(app, inventories, {instance: moved}, status=400)
    assert "$.allocations: the request has 2 amounts in all, which" in response.text
    assert get_placement_json(app, f"/allocations/{instance}")["allocations"].keys() == {host}


def test_reshape_with_too_many_inventories_is_rejected(app, host_with_used_disk, monkeypatch):
    host, disk, _ = host_with_used_disk
    monkeypatch.setattr("placement_sched.api.placement.reshaper.MAX_RESHAPER_INVENTORIES", 2)
    response = post_reshaper(
        app,
        {host: build_inventories(1, VCPU=9), disk: build_inventories(0, DISK_GB=1, VCPU=1)},
        status=400,
    )
    assert "$.inventories: the providers have 3 inventories, which" in response.text
    inventories = get_placement_json(app, f"/resource_providers/{host}/inventories")["inventories"]
    assert inventories["VCPU"]["total"] == 8


def test_reshape_with_too_many_providers_is_rejected(sqlite_app):
    many = {str(uuid4()): build_inventories(0) for _ in range(MAX_RESHAPER_INVENTORIES + 1)}
    response = post_reshaper(sqlite_app, many, status=400)
    assert "(at $.inventories). Failed validating 'maxProperties'" in response.text


def test_sql_statement_count_of_a_reshape_does_not_grow_with_providers_or_consumers(app):
    database, counts = app.app.services.database, []
    for size in (1, 20):
        hosts = [make_provider(database, VCPU=8, DISK_GB=9) for _ in range(size)]
        consumers_here = [str(uuid4()) for _ in hosts]
        for host, consumer in zip(hosts, consumers_here, strict=True):
            put_allocations(app, consumer, {host: {"VCPU": 1, "DISK_GB": 1}})
        moves = {
            consumer: build_body(LATEST, {host: {"VCPU": 2}}, generation=1)
            for host, consumer in zip(hosts, consumers_here, strict=True)
        }
        with record_statements(database) as seen:
            post_reshaper(app, {host: build_inventories(1, VCPU=9) for host in hosts}, moves)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_malformed_reshapes_are_400(sqlite_app):
    for body, version in [
        ({}, "1.30"),
        ([], LATEST),
        ({"inventories": {}, "allocations": {}}, LATEST),
        ({"inventories": {"x": build_inventories(0)}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: {"inventories": {}}}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: build_inventories(0, VCPU=0)}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: build_inventories("0")}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: build_inventories(0)}, "allocations": {"x": {}}}, LATEST),
        (
            {"inventories": {"a" * 36: build_inventories(0)}, "allocations": {}, "surprise": 1},
            LATEST,
        ),
    ]:
        request_headers = {**build_version_headers(version), **SERVICE_HEADERS}
        response = sqlite_app.post_json(
            "/placement/reshaper", body, headers=request_headers, status=400
        )
        assert "JSON does not validate" in response.text, body


def test_allocations_in_a_reshape_have_the_format_of_the_version(sqlite_app):
    host = make_provider(sqlite_app.app.services.database, VCPU=8)
    for generation, version in enumerate(("1.30", "1.34", "1.38")):
        inventories = {host: build_inventories(3 * generation, VCPU=8)}
        claims = {str(uuid4()): build_body(version, {host: {"VCPU": 1}})}
        mapped = {uuid: {**claim, "mappings": {"1": [host]}} for uuid, claim in claims.items()}
        if version == "1.30":
            post_reshaper(sqlite_app, inventories, mapped, version, status=400)
            post_reshaper(sqlite_app, inventories, claims, version)
        else:
            post_reshaper(sqlite_app, inventories, mapped, version)


def test_reshape_can_reserve_more_than_the_total_of_an_inventory(app):
    provider = make_provider(app.app.services.database)
    reserved = {"total": 4, "reserved": 5}
    inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": reserved}}
    post_reshaper(app, {provider: inventory})
    path = f"/resource_providers/{provider}/inventories"
    assert get_placement_json(app, path)["inventories"]["VCPU"]["reserved"] == 5
    body = build_body(LATEST, {provider: {"VCPU": 1}})
    response = app.put_json(
        f"/placement/allocations/{uuid4()}", body, headers=build_version_headers(LATEST), status=409
    )
    assert "VCPU" in response.json["errors"][0]["detail"]


def test_error_of_inventories_in_use_names_the_first_such_provider_and_its_classes(
    app, host_with_used_disk
):
    host, disk, _instance = host_with_used_disk
    response = post_reshaper(
        app, {disk: build_inventories(0, VCPU=1), host: build_inventories(1)}, status=409
    )
    (error,) = response.json["errors"]
    assert error["code"] == "placement.inventory.inuse"
    assert f"'VCPU, DISK_GB' on resource provider '{host}'" in error["detail"]
