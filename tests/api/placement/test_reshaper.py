# SPDX-License-Identifier: Apache-2.0
"""The reshaper over HTTP: inventories and allocations move together, or not at all."""

from uuid import uuid4

import pytest

from placement_sched.api.placement import allocations
from placement_sched.limits import MAX_RESHAPER_INVENTORIES
from tests.support.allocation_bodies import build_body, headers
from tests.support.providers import make_provider
from tests.support.statements import record_statements
from tests.support.versions import LATEST

pytestmark = pytest.mark.all_databases

CONFLICT = "There was a conflict when trying to complete your request.\n\n update conflict: Inv"
SERVICE = {"X-Auth-Token": "nova:service", "X-Roles": "service"}


def send(app, inventories, allocations=None, version=LATEST, status=204):
    body = {"inventories": inventories, "allocations": allocations or {}}
    asked = {**headers(version), **SERVICE}
    return app.post_json("/placement/reshaper", body, headers=asked, status=status)


def stock(generation, **totals):
    return {
        "resource_provider_generation": generation,
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }


def claim(app, consumer, amounts):
    path = f"/placement/allocations/{consumer}"
    app.put_json(path, build_body(LATEST, amounts), headers=headers(LATEST), status=204)


def get(app, path):
    return app.get(f"/placement{path}", headers=headers(LATEST)).json


@pytest.fixture
def tree(app):
    """A host whose disk an instance uses, and an empty provider the disk shall move to."""
    database = app.app.services.database
    host, disk = make_provider(database, VCPU=8, DISK_GB=100), make_provider(database)
    instance = str(uuid4())
    claim(app, instance, {host: {"VCPU": 2, "DISK_GB": 30}})
    return host, disk, instance


def test_inventory_moves_with_what_is_allocated_of_it(app, tree):
    host, disk, instance = tree
    moved = build_body(LATEST, {host: {"VCPU": 2}, disk: {"DISK_GB": 30}}, generation=1)
    send(app, {host: stock(1, VCPU=8), disk: stock(0, DISK_GB=100)}, {instance: moved})
    told = get(app, f"/allocations/{instance}")["allocations"]
    assert {uuid: one["resources"] for uuid, one in told.items()} == {
        host: {"VCPU": 2},
        disk: {"DISK_GB": 30},
    }
    assert get(app, f"/resource_providers/{host}/usages")["usages"] == {"VCPU": 2}
    assert get(app, f"/resource_providers/{disk}/usages")["usages"] == {"DISK_GB": 30}


@pytest.mark.parametrize(
    ("change", "status", "code", "words"),
    [
        ({"host_generation": 7}, 409, "placement.concurrent_update", "actual: 1, given: 7"),
        ({"consumer_generation": 7}, 409, "placement.concurrent_update", "consumer generation"),
        ({"disk_total": 20}, 409, "placement.undefined_code", "exceed the capacity of 20"),
        ({"disk_class": "NO_SUCH"}, 400, "placement.undefined_code", "malformed reshaper data"),
        ({"left": "DISK_GB"}, 409, "placement.inventory.inuse", CONFLICT),
        ({"stranger": True}, 400, "placement.resource_provider.not_found", "not found"),
    ],
    ids=["provider", "consumer", "capacity", "unknown class", "in use", "unknown provider"],
)
def test_a_refused_reshape_changes_nothing(app, tree, change, status, code, words):
    host, disk, instance = tree
    before = (
        get(app, f"/resource_providers/{host}/inventories"),
        get(app, "/allocations/" + instance),
    )
    wanted = {
        host: stock(change.get("host_generation", 1), VCPU=8),
        disk: stock(0, **{change.get("disk_class", "DISK_GB"): change.get("disk_total", 100)}),
    }
    if "stranger" in change:
        wanted[str(uuid4())] = stock(0, VCPU=1)
    amounts = {host: {"VCPU": 2}, disk: {"DISK_GB": 30}}
    if "left" in change:
        amounts = {host: {"VCPU": 2, change["left"]: 30}}
    moved = build_body(LATEST, amounts, generation=change.get("consumer_generation", 1))
    (error,) = send(app, wanted, {instance: moved}, status=status).json["errors"]
    assert error["code"] == code
    assert words in error["detail"]
    after = (
        get(app, f"/resource_providers/{host}/inventories"),
        get(app, "/allocations/" + instance),
    )
    assert after == before
    assert get(app, f"/resource_providers/{disk}/inventories")["inventories"] == {}


def test_an_inventory_may_shrink_under_what_is_allocated_and_unchanged(app, tree):
    host, _, instance = tree
    same = build_body(LATEST, {host: {"VCPU": 2, "DISK_GB": 30}}, generation=1)
    send(app, {host: stock(1, VCPU=1, DISK_GB=10)}, {instance: same})
    assert get(app, f"/allocations/{instance}")["consumer_generation"] == 2


def test_more_amounts_than_a_second_of_work_are_refused_and_change_nothing(app, tree, monkeypatch):
    host, disk, instance = tree
    monkeypatch.setattr(allocations, "MAX_ALLOCATION_AMOUNTS", 1)
    moved = build_body(LATEST, {host: {"VCPU": 2}, disk: {"DISK_GB": 30}}, generation=1)
    inventories = {host: stock(2, VCPU=8), disk: stock(0, DISK_GB=100)}
    refused = send(app, inventories, {instance: moved}, status=400)
    assert "$.allocations: the consumers hold 2 amounts, which" in refused.text
    assert get(app, f"/allocations/{instance}")["allocations"].keys() == {host}


def test_more_inventories_than_a_second_of_work_are_refused_and_change_nothing(
    app, tree, monkeypatch
):
    host, disk, _ = tree
    monkeypatch.setattr("placement_sched.api.placement.reshaper.MAX_RESHAPER_INVENTORIES", 2)
    refused = send(app, {host: stock(1, VCPU=9), disk: stock(0, DISK_GB=1, VCPU=1)}, status=400)
    assert "$.inventories: the providers have 3 inventories, which" in refused.text
    assert get(app, f"/resource_providers/{host}/inventories")["inventories"]["VCPU"]["total"] == 8


def test_more_providers_than_a_second_of_work_are_refused(sqlite_app):
    many = {str(uuid4()): stock(0) for _ in range(MAX_RESHAPER_INVENTORIES + 1)}
    refused = send(sqlite_app, many, status=400)
    assert "(at $.inventories). Failed validating 'maxProperties'" in refused.text


def test_number_of_statements_depends_on_no_number_of_providers_and_consumers(app):
    database, counts = app.app.services.database, []
    for size in (1, 20):
        hosts = [make_provider(database, VCPU=8, DISK_GB=9) for _ in range(size)]
        consumers_here = [str(uuid4()) for _ in hosts]
        for host, consumer in zip(hosts, consumers_here, strict=True):
            claim(app, consumer, {host: {"VCPU": 1, "DISK_GB": 1}})
        moves = {
            consumer: build_body(LATEST, {host: {"VCPU": 2}}, generation=1)
            for host, consumer in zip(hosts, consumers_here, strict=True)
        }
        with record_statements(database) as seen:
            send(app, {host: stock(1, VCPU=9) for host in hosts}, moves)
        counts.append(len(seen))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({}, "1.30"),
        ([], LATEST),
        ({"inventories": {}, "allocations": {}}, LATEST),
        ({"inventories": {"x": stock(0)}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: {"inventories": {}}}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: stock(0, VCPU=0)}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: stock("0")}, "allocations": {}}, LATEST),
        ({"inventories": {"a" * 36: stock(0)}, "allocations": {"x": {}}}, LATEST),
        ({"inventories": {"a" * 36: stock(0)}, "allocations": {}, "surprise": 1}, LATEST),
    ],
)
def test_malformed_bodies_are_400(sqlite_app, body, version):
    asked = {**headers(version), **SERVICE}
    refused = sqlite_app.post_json("/placement/reshaper", body, headers=asked, status=400)
    assert "JSON does not validate" in refused.text


def test_claims_have_the_form_of_the_version(sqlite_app):
    host = make_provider(sqlite_app.app.services.database, VCPU=8)
    for generation, version in enumerate(("1.30", "1.34", "1.38")):
        inventories = {host: stock(3 * generation, VCPU=8)}
        claims = {str(uuid4()): build_body(version, {host: {"VCPU": 1}})}
        mapped = {uuid: {**one, "mappings": {"1": [host]}} for uuid, one in claims.items()}
        if version == "1.30":
            send(sqlite_app, inventories, mapped, version, status=400)
            send(sqlite_app, inventories, claims, version)
        else:
            send(sqlite_app, inventories, mapped, version)


def test_the_reshaper_is_there_from_1_30_and_for_services_alone(sqlite_app):
    send(sqlite_app, {"a" * 36: stock(0)}, version="1.29", status=404)
    body = {"inventories": {"a" * 36: stock(0)}, "allocations": {}}
    refused = sqlite_app.post_json("/placement/reshaper", body, headers=headers("1.30"), status=403)
    assert "placement:reshaper:reshape" in refused.text


def test_more_may_be_reserved_than_there_is_and_nothing_is_claimed_of_it(app):
    provider = make_provider(app.app.services.database)
    reserved = {"total": 4, "reserved": 5}
    asked = {"resource_provider_generation": 0, "inventories": {"VCPU": reserved}}
    send(app, {provider: asked})
    path = f"/resource_providers/{provider}/inventories"
    assert get(app, path)["inventories"]["VCPU"]["reserved"] == 5
    body = build_body(LATEST, {provider: {"VCPU": 1}})
    told = app.put_json(
        f"/placement/allocations/{uuid4()}", body, headers=headers(LATEST), status=409
    )
    assert "VCPU" in told.json["errors"][0]["detail"]


def test_the_first_provider_in_use_is_told_with_all_its_classes(app, tree):
    host, disk, _instance = tree
    told = send(app, {disk: stock(0, VCPU=1), host: stock(1)}, status=409)
    (error,) = told.json["errors"]
    assert error["code"] == "placement.inventory.inuse"
    assert f"'VCPU, DISK_GB' on resource provider '{host}'" in error["detail"]
