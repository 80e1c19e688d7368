# SPDX-License-Identifier: Apache-2.0
"""Generations that fell, and acknowledged writes that are missing."""

import pytest
from sqlalchemy import update

from placement_sched.db.tables import consumers, resource_providers
from tests.support.clouds import uuid_of
from tests.support.invariants import assert_generations_grow, break_tables
from tests.support.scheduling import report
from tests.support.versions import LATEST_HEADERS
from tests.verifier.growth import fallen_generations, lost_writes, read_generations
from tests.verifier.model import AcknowledgedWrites

CN1, CONSUMER = report("cn1")["uuid"], uuid_of("consumer")


@pytest.fixture
def client(app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    _put_allocation(app, 1)
    return app


def _put_allocation(app, vcpus, generation=None):
    body = {
        "allocations": {CN1: {"resources": {"VCPU": vcpus}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{CONSUMER}", body, headers=LATEST_HEADERS)


def test_growing_generations_are_valid(client, database):
    before = read_generations(database)
    with assert_generations_grow(database):
        _put_allocation(client, 2, generation=1)
    after = read_generations(database)
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
def test_fallen_generation_is_reported(client, database, table, words):
    before = read_generations(database)
    break_tables(database, update(table).values(generation=0))
    (violation,) = fallen_generations(before, read_generations(database))
    assert words in violation.detail


@pytest.mark.all_databases
def test_recreated_provider_restarts_its_generation(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    with assert_generations_grow(database):
        client.delete(f"/placement/resource_providers/{CN1}", headers=LATEST_HEADERS)
        body = {"uuid": CN1, "name": "cn1"}
        client.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)


HELD, MORE = {(CN1, "VCPU"): 1}, {(CN1, "VCPU"): 2}
OTHER = uuid_of("another consumer")


def _acknowledged_writes(*writes):
    acknowledged = AcknowledgedWrites()
    for amounts, answered in writes:
        acknowledged.note(CONSUMER, amounts, answered=answered)
    return acknowledged


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
def test_acknowledged_allocations_are_valid(client, database, writes):
    acknowledged = _acknowledged_writes(*writes)
    acknowledged.note(OTHER, {})
    acknowledged.note(OTHER, HELD, answered=False)
    assert lost_writes(database, acknowledged) == ()


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
def test_consumer_with_other_allocations_is_reported(client, database, writes, expected):
    (violation,) = lost_writes(database, _acknowledged_writes(*writes))
    assert violation.detail == (
        f"consumer {CONSUMER} holds 1 VCPU of {CN1}, and by the answers to its writes {expected}"
    )


def test_missing_consumer_is_reported(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    (violation,) = lost_writes(database, _acknowledged_writes((HELD, True)))
    assert f"consumer {CONSUMER} holds nothing, and by the answers" in violation.detail
    assert lost_writes(database, _acknowledged_writes((HELD, True), ({}, False))) == ()


def test_amounts_of_a_renamed_class_are_not_lost(client, database):
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
    assert lost_writes(database, _acknowledged_writes(({**HELD, (CN1, "CUSTOM_A"): 3}, True))) == ()
    for wrong in ({(CN1, "CUSTOM_A"): 3}, {**HELD, (CN1, "CUSTOM_A"): 2}, HELD):
        assert len(lost_writes(database, _acknowledged_writes((wrong, True)))) == 1
