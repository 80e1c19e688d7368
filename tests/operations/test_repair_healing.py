# SPDX-License-Identifier: Apache-2.0
"""Concurrent healing of allocations."""

import threading

import pytest

from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import utcnow
from placement_sched.operations import repair as operation
from placement_sched.operations.repair import Healer, HealRequest
from tests.cli.placement.test_heal import CN1
from tests.cli.placement.test_heal import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.cli.placement.test_heal import sqlite_cloud as sqlite_cloud  # noqa: PLC0414 - a fixture
from tests.support.repairs import FLAVOR, uuid

pytestmark = pytest.mark.slow

NO_OWNER = ("no-project", "no-user")


@pytest.mark.all_databases
def test_concurrent_heals_write_once(cloud, database):
    for number in range(8):
        cloud.record(number, flavor={**FLAVOR, "vcpus": 4})
    results = []

    def work():
        healer = Healer(database=database, clock=utcnow, no_owner=NO_OWNER, wanted=HealRequest())
        results.extend(healer.heal())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    healed = sorted(result.instance for result in results if result.done)
    assert healed == [uuid(n) for n in range(8)]
    assert [cloud.read_allocations(number)[CN1]["VCPU"] for number in range(8)] == [4] * 8


def test_repeated_conflicts_are_reported(sqlite_cloud, sqlite_database, monkeypatch):
    sqlite_cloud.record(1)

    def raise_conflict(*_):
        raise ConcurrentUpdate("a rival was faster")

    monkeypatch.setattr(operation.allocations, "replace", raise_conflict)
    healer = Healer(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER, wanted=HealRequest())
    (result,) = healer.heal()
    assert (result.outcome.value, result.reason) == ("failed", "a rival was faster")
