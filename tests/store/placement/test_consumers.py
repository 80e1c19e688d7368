# SPDX-License-Identifier: Apache-2.0
"""The limit of allocations that a request may change for several consumers."""

from uuid import uuid4

import pytest

from placement_sched.store.placement import consumers as holders
from tests.support.allocation_bodies import build_body, headers
from tests.support.providers import make_provider
from tests.support.scheduling import instance, report, spec
from tests.support.versions import LATEST

AMOUNTS = {"VCPU": 1, "MEMORY_MB": 64}
PATH = "/placement/allocations"


@pytest.fixture
def provider(sqlite_app):
    return make_provider(sqlite_app.app.services.database, VCPU=8, MEMORY_MB=1024)


@pytest.fixture
def full_consumers(sqlite_app, provider, monkeypatch):
    """Create two consumers that together hold more amounts than a request may change."""
    uuids = [str(uuid4()) for _ in range(2)]
    for uuid in uuids:
        post_allocations(sqlite_app, {uuid: build_body(LATEST, {provider: AMOUNTS})})
    monkeypatch.setattr(holders, "MAX_HELD_AMOUNTS", 3)
    return uuids


def post_allocations(app, claims, status=204):
    return app.post_json(PATH, claims, headers=headers(LATEST), status=status)


def generation_of(app, consumer):
    document = app.get(f"{PATH}/{consumer}", headers=headers(LATEST)).json
    return document.get("consumer_generation")


@pytest.mark.parametrize("amounts", [{}, {"VCPU": 1}], ids=["freed", "replaced"])
def test_too_many_allocations_of_several_consumers_are_rejected(
    sqlite_app, provider, full_consumers, monkeypatch, amounts
):
    claim = build_body(LATEST, {provider: amounts} if amounts else {}, generation=1)
    rejection = post_allocations(sqlite_app, dict.fromkeys(full_consumers, claim), status=400)
    assert "the consumers hold more than 3 amounts, which is the limit of one" in rejection.text
    assert "(at $)" in rejection.text
    assert [generation_of(sqlite_app, uuid) for uuid in full_consumers] == [1, 1]
    monkeypatch.setattr(holders, "MAX_HELD_AMOUNTS", 4)
    post_allocations(sqlite_app, dict.fromkeys(full_consumers, claim))
    generations = [generation_of(sqlite_app, uuid) for uuid in full_consumers]
    assert generations == [2 if amounts else None] * 2


def test_single_consumer_can_change_any_number_of_allocations(
    sqlite_app, provider, full_consumers, monkeypatch
):
    monkeypatch.setattr(holders, "MAX_HELD_AMOUNTS", 1)
    path = f"{PATH}/{full_consumers[0]}"
    body = build_body(LATEST, {provider: AMOUNTS}, generation=1)
    sqlite_app.put_json(path, body, headers=headers(LATEST), status=204)
    assert generation_of(sqlite_app, full_consumers[0]) == 2
    sqlite_app.delete(path, headers=headers(LATEST), status=204)


def test_too_many_allocations_are_rejected_by_the_reshaper(sqlite_app, provider, full_consumers):
    inventories = {"inventories": {"VCPU": {"total": 9}}, "resource_provider_generation": 2}
    claims = dict.fromkeys(full_consumers, build_body(LATEST, {}, generation=1))
    body = {"inventories": {provider: inventories}, "allocations": claims}
    path = "/placement/reshaper"
    service = {**headers(LATEST), "X-Roles": "admin,service"}
    rejection = sqlite_app.post_json(path, body, headers=service, status=400)
    assert "(at $.allocations)" in rejection.text
    assert [generation_of(sqlite_app, uuid) for uuid in full_consumers] == [1, 1]


@pytest.mark.parametrize("claim", ["new", "add"])
def test_too_many_allocations_of_several_instances_are_rejected(sqlite_app, monkeypatch, claim):
    reports, path = [report("cn1"), report("cn2")], "/scheduler/v1/select_destinations"
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    body = {"request_spec": spec(instance(1), instance(2))}
    sqlite_app.post_json(path, body, status=200)
    monkeypatch.setattr(holders, "MAX_HELD_AMOUNTS", 5)  # each holds CPU, memory and disk
    body["claim"] = {"new": True}.get(claim, claim)
    rejection = sqlite_app.post_json(path, body, status=400)
    assert "(at $.request_spec)" in rejection.text
    monkeypatch.setattr(holders, "MAX_HELD_AMOUNTS", 6)
    assert sqlite_app.post_json(path, body).status_code == 200
