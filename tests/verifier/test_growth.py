# SPDX-License-Identifier: Apache-2.0
"""What is known from before shows which generations fell, and which acknowledged writes lack."""

import pytest
from sqlalchemy import update

from placement_sched.db.tables import consumers, resource_providers
from tests.support.clouds import uuid_of
from tests.support.invariants import assert_generations_grow, break_tables
from tests.support.scheduling import report
from tests.support.versions import LATEST_HEADERS
from tests.verifier.growth import fallen, generations, lost
from tests.verifier.model import AcknowledgedWrites

CN1, CONSUMER = report("cn1")["uuid"], uuid_of("consumer")


@pytest.fixture
def client(app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    _hold(app, 1)
    return app


def _hold(app, vcpus, generation=None):
    body = {
        "allocations": {CN1: {"resources": {"VCPU": vcpus}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{CONSUMER}", body, headers=LATEST_HEADERS)


def test_generations_that_grow_are_as_they_should_be(client, database):
    before = generations(database)
    with assert_generations_grow(database):
        _hold(client, 2, generation=1)
    after = generations(database)
    assert sum(after.consumers.values()) > sum(before.consumers.values())
    assert sum(after.providers.values()) > sum(before.providers.values())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (resource_providers, f"the generation of provider {CN1} went from "),
        (consumers, f"the generation of consumer {CONSUMER} went from 1 to 0"),
    ],
    ids=["provider", "consumer"],
)
def test_generation_that_fell_is_reported(client, database, table, words):
    before = generations(database)
    break_tables(database, update(table).values(generation=0))
    (found,) = fallen(before, generations(database))
    assert words in found.detail


@pytest.mark.all_databases
def test_provider_that_is_made_again_begins_again(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    with assert_generations_grow(database):
        client.delete(f"/placement/resource_providers/{CN1}", headers=LATEST_HEADERS)
        body = {"uuid": CN1, "name": "cn1"}
        client.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)


HELD, MORE = {(CN1, "VCPU"): 1}, {(CN1, "VCPU"): 2}
OTHER = uuid_of("another consumer")


def _answered(*writes):
    known = AcknowledgedWrites()
    for amounts, answered in writes:
        known.note(CONSUMER, amounts, answered=answered)
    return known


@pytest.mark.parametrize(
    "writes",
    [
        [(HELD, True)],
        [({}, True), (HELD, False)],
        [(HELD, False), (MORE, False)],
        [(HELD, True), ({}, False), (MORE, False)],
        [(MORE, True), ({}, True), (HELD, True)],
    ],
)
def test_what_a_consumer_holds_is_what_it_may_hold(client, database, writes):
    known = _answered(*writes)
    known.note(OTHER, {})
    known.note(OTHER, HELD, answered=False)
    assert lost(database, known) == ()


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([(MORE, True)], f"2 VCPU of {CN1}"),
        ([(HELD, True), ({}, True)], "nothing"),
        ([(MORE, False)], f"nothing or 2 VCPU of {CN1}"),
        ([(HELD, False), (MORE, True)], f"2 VCPU of {CN1}"),
        ([({**HELD, (CN1, "DISK_GB"): 3}, True)], f"3 DISK_GB of {CN1}, 1 VCPU of {CN1}"),
    ],
)
def test_consumer_that_holds_something_else_is_reported(client, database, writes, expected):
    (found,) = lost(database, _answered(*writes))
    assert found.detail == (
        f"consumer {CONSUMER} holds 1 VCPU of {CN1}, and by the answers to its writes {expected}"
    )


def test_consumer_that_is_gone_is_reported(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    (found,) = lost(database, _answered((HELD, True)))
    assert f"consumer {CONSUMER} holds nothing, and by the answers" in found.detail
    assert lost(database, _answered((HELD, True), ({}, False))) == ()


def test_amounts_of_a_class_that_was_renamed_are_not_lost(client, database):
    path = f"/placement/resource_providers/{CN1}/inventories"
    client.put("/placement/resource_classes/CUSTOM_A", headers=LATEST_HEADERS)
    stock = client.get(path, headers=LATEST_HEADERS).json
    stock["inventories"]["CUSTOM_A"] = {"total": 9}
    client.put_json(path, stock, headers=LATEST_HEADERS)
    body = {
        "allocations": {CN1: {"resources": {"VCPU": 1, "CUSTOM_A": 3}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 1,
        "consumer_type": "INSTANCE",
    }
    client.put_json(f"/placement/allocations/{CONSUMER}", body, headers=LATEST_HEADERS)
    headers = {"OpenStack-API-Version": "placement 1.2"}
    new = {"name": "CUSTOM_B"}
    client.put_json("/placement/resource_classes/CUSTOM_A", new, headers=headers)
    assert lost(database, _answered(({**HELD, (CN1, "CUSTOM_A"): 3}, True))) == ()
    for wrong in ({(CN1, "CUSTOM_A"): 3}, {**HELD, (CN1, "CUSTOM_A"): 2}, HELD):
        assert len(lost(database, _answered((wrong, True)))) == 1
