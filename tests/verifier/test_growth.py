# SPDX-License-Identifier: Apache-2.0
"""Generations that fell, and acknowledged writes that are missing."""

import pytest
from sqlalchemy import update

from placement_sched.db.tables import consumers, resource_providers
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_report
from tests.support.statements import execute_without_foreign_keys
from tests.support.versions import LATEST_HEADERS
from tests.verifier.growth import find_decreased_generations, find_lost_writes, read_generations
from tests.verifier.model import AcknowledgedWrites

PROVIDER_UUID, CONSUMER_UUID = make_report("cn1")["uuid"], uuid_of("consumer")


@pytest.fixture
def app_with_claim(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    body = {
        "allocations": {PROVIDER_UUID: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{CONSUMER_UUID}", body, headers=LATEST_HEADERS)
    return app


@pytest.mark.parametrize("table", [resource_providers, consumers], ids=["provider", "consumer"])
def test_decreased_generation_is_reported(app_with_claim, database, table):
    before = read_generations(database)
    execute_without_foreign_keys(database, update(table).values(generation=0))
    (violation,) = find_decreased_generations(before, read_generations(database))
    assert " to 0" in violation.detail


ONE_VCPU, TWO_VCPUS = {(PROVIDER_UUID, "VCPU"): 1}, {(PROVIDER_UUID, "VCPU"): 2}


def _build_acknowledged_writes(*writes):
    acknowledged = AcknowledgedWrites()
    for amounts, answered in writes:
        acknowledged.record_write(CONSUMER_UUID, amounts, answered=answered)
    return acknowledged


@pytest.mark.parametrize(
    "writes",
    [
        [(TWO_VCPUS, True)],
        [(ONE_VCPU, True), ({}, True)],
        [(TWO_VCPUS, False)],
        [(ONE_VCPU, False), (TWO_VCPUS, True)],
        [({**ONE_VCPU, (PROVIDER_UUID, "DISK_GB"): 3}, True)],
    ],
)
def test_consumer_without_acknowledged_allocations_is_reported(app_with_claim, database, writes):
    (violation,) = find_lost_writes(database, _build_acknowledged_writes(*writes))
    assert CONSUMER_UUID in violation.detail


def test_missing_consumer_is_reported(app_with_claim, database):
    app_with_claim.delete(f"/placement/allocations/{CONSUMER_UUID}", headers=LATEST_HEADERS)
    (violation,) = find_lost_writes(database, _build_acknowledged_writes((ONE_VCPU, True)))
    assert CONSUMER_UUID in violation.detail
    assert (
        find_lost_writes(database, _build_acknowledged_writes((ONE_VCPU, True), ({}, False))) == ()
    )
