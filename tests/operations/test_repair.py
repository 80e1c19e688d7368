# SPDX-License-Identifier: Apache-2.0
"""Audits and healing of allocations during concurrent writes."""

import pytest

from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import utcnow
from placement_sched.operations import repair as operation
from placement_sched.operations.repair import Auditor, Healer, HealRequest
from tests.operations.repairs import FLAVOR, build_consumer_uuid
from tests.operations.repairs import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.operations.repairs import cloud_without_instances as cloud_without_instances  # noqa: PLC0414 - a fixture
from tests.operations.repairs import sqlite_cloud as sqlite_cloud  # noqa: PLC0414 - a fixture
from tests.support.concurrency import run_concurrently
from tests.support.openstack_databases import NEWEST_REVISION, stamp_revision
from tests.support.reports import node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.slow

INCOMPLETE_PROJECT_AND_USER = ("no-project", "no-user")


def make_allocations_auditor(database):
    return Auditor(database=database, clock=utcnow, unknown_owner=INCOMPLETE_PROJECT_AND_USER)


def heal_and_list_results(database):
    healer = Healer(
        database=database,
        clock=utcnow,
        unknown_owner=INCOMPLETE_PROJECT_AND_USER,
        request=HealRequest(),
    )
    return list(healer.heal())


def delete_orphans_and_count(auditor, orphans=None):
    orphans = auditor.find() if orphans is None else orphans
    return auditor.delete(orphans, lambda _done, _total: None).deleted


@pytest.mark.all_databases
def test_instance_recorded_during_an_audit_keeps_its_allocations(cloud, database):
    cloud.allocate(2)
    auditor = make_allocations_auditor(database)
    orphans = auditor.find()
    cloud.record(2)
    assert delete_orphans_and_count(auditor, orphans) == 0
    assert cloud.read_allocations(2) != {}


def test_deletion_of_orphans_is_retried_after_a_concurrent_write(
    sqlite_cloud, sqlite_database, monkeypatch
):
    sqlite_cloud.allocate(2)
    auditor = make_allocations_auditor(sqlite_database)
    orphans = auditor.find()
    replace, rejections = operation.allocations.replace, [ConcurrentUpdate("rival")]

    def raise_concurrent_update(*arguments):
        if rejections:
            raise rejections.pop()
        replace(*arguments)

    monkeypatch.setattr(operation.allocations, "replace", raise_concurrent_update)
    assert delete_orphans_and_count(auditor, orphans) == 1


@pytest.mark.all_databases
def test_concurrent_audits_delete_each_orphaned_allocation_once(cloud, database):
    for number in range(8):
        cloud.allocate(number)
    deleted = run_concurrently(
        *[lambda: delete_orphans_and_count(make_allocations_auditor(database))] * 2
    )
    assert sum(deleted) == 8
    assert cloud.document("audit")["code"] == 0


def test_statement_count_of_audit_is_independent_of_orphans(sqlite_cloud, sqlite_database):
    counts = []
    for numbers in ((1,), range(2, 8)):
        for number in numbers:
            sqlite_cloud.allocate(number)
        with record_statements(sqlite_database) as seen:
            delete_orphans_and_count(make_allocations_auditor(sqlite_database))
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_audit_deletes_no_orphans_once_the_database_belongs_to_openstack(
    sqlite_cloud, sqlite_database
):
    sqlite_cloud.allocate(2)
    auditor = make_allocations_auditor(sqlite_database)
    orphans = auditor.find()
    sqlite_database.write(lambda connection: stamp_revision(connection, NEWEST_REVISION))
    assert delete_orphans_and_count(auditor, orphans) == 0
    assert sqlite_cloud.read_allocations(2) != {}


@pytest.mark.all_databases
def test_concurrent_heals_write_allocations_of_an_instance_once(cloud_without_instances, database):
    for number in range(8):
        cloud_without_instances.record(number, flavor={**FLAVOR, "vcpus": 4})
    first, second = run_concurrently(*[lambda: heal_and_list_results(database)] * 2)
    healed = sorted(result.instance for result in (*first, *second) if result.is_healed)
    assert healed == [build_consumer_uuid(number) for number in range(8)]
    held = [cloud_without_instances.read_allocations(number) for number in range(8)]
    assert [by_class[node_uuid(1)]["VCPU"] for by_class in held] == [4] * 8


def test_heal_reports_repeated_write_conflicts(sqlite_cloud, sqlite_database, monkeypatch):
    def raise_concurrent_update(*_):
        raise ConcurrentUpdate("a rival was faster")

    monkeypatch.setattr(operation.allocations, "replace", raise_concurrent_update)
    (result,) = heal_and_list_results(sqlite_database)
    assert sqlite_cloud.read_allocations(99) == {}
    assert (result.outcome.value, result.reason) == ("failed", "a rival was faster")
