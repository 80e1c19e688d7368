# SPDX-License-Identifier: Apache-2.0
"""Generations that fell, and acknowledged writes that are missing."""

import pytest
from sqlalchemy import update

from placement_sched.db.tables import consumers, resource_providers
from tests.support.clouds import uuid_of
from tests.support.invariants import assert_generations_grow, execute_without_foreign_keys
from tests.support.scheduling import report
from tests.support.versions import LATEST_HEADERS
from tests.verifier.growth import find_decreased_generations, find_lost_writes, read_generations
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


def test_increased_generations_are_valid(client, database):
    before = read_generations(database)
    with assert_generations_grow(database):
        _put_allocation(client, 2, generation=1)
    after = read_generations(database)
    assert sum(after.consumers.values()) > sum(before.consumers.values())
    assert sum(after.providers.values()) > sum(before.providers.values())


@pytest.mark.parametrize("table", [resource_providers, consumers], ids=["provider", "consumer"])
def test_decreased_generation_is_reported(client, database, table):
    before = read_generations(database)
    execute_without_foreign_keys(database, update(table).values(generation=0))
    (violation,) = find_decreased_generations(before, read_generations(database))
    assert " to 0" in violation.detail


@pytest.mark.all_databases
def test_generation_of_a_recreated_provider_is_not_reported_as_decreased(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    with assert_generations_grow(database):
        client.delete(f"/placement/resource_providers/{CN1}", headers=LATEST_HEADERS)
        body = {"uuid": CN1, "name": "cn1"}
        client.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)


HELD, MORE = {(CN1, "VCPU"): 1}, {(CN1, "VCPU"): 2}
OTHER = uuid_of("another consumer")


def _build_acknowledged_writes(*writes):
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
    acknowledged = _build_acknowledged_writes(*writes)
    acknowledged.note(OTHER, {})
    acknowledged.note(OTHER, HELD, answered=False)
    assert find_lost_writes(database, acknowledged) == ()


@pytest.mark.parametrize(
    "writes",
    [
        [(MORE, True)],
        [(HELD, True), ({}, True)],
        [(MORE, False)],
        [(HELD, False), (MORE, True)],
        [({**HELD, (CN1, "DISK_GB"): 3}, True)],
    ],
)
def test_consumer_with_other_allocations_is_reported(client, database, writes):
    (violation,) = find_lost_writes(database, _build_acknowledged_writes(*writes))
    assert CONSUMER in violation.detail


def test_missing_consumer_is_reported(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    (violation,) = find_lost_writes(database, _build_acknowledged_writes((HELD, True)))
    assert CONSUMER in violation.detail
    assert find_lost_writes(database, _build_acknowledged_writes((HELD, True), ({}, False))) == ()
