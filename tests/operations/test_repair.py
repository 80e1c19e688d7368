# SPDX-License-Identifier: Apache-2.0
"""The audit of allocations during concurrent records, claims and audits."""

import threading

import pytest

from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import utcnow
from placement_sched.operations import repair as operation
from placement_sched.operations.repair import Auditor
from tests.cli.placement.test_audit import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.cli.placement.test_audit import no_instances as no_instances  # noqa: PLC0414 - a fixture
from tests.cli.placement.test_audit import sqlite_cloud as sqlite_cloud  # noqa: PLC0414 - a fixture
from tests.support.openstack_databases import NEWEST, stamp_revision
from tests.support.statements import record_statements

pytestmark = pytest.mark.slow

NO_OWNER = ("no-project", "no-user")


@pytest.mark.all_databases
def test_instance_recorded_during_the_audit_keeps_allocations(cloud, database):
    cloud.allocate(2)
    auditor = Auditor(database=database, clock=utcnow, no_owner=NO_OWNER)
    orphans = auditor.find()
    cloud.record(2)
    assert auditor.delete(orphans, lambda _done, _total: None).deleted == 0
    assert cloud.read_allocations(2) != {}


def test_batch_is_retried_after_a_concurrent_write(sqlite_cloud, sqlite_database, monkeypatch):
    sqlite_cloud.allocate(2)
    auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
    orphans = auditor.find()
    replace, rejections = operation.allocations.replace, [ConcurrentUpdate("rival")]

    def raise_conflict(*arguments):
        if rejections:
            raise rejections.pop()
        replace(*arguments)

    monkeypatch.setattr(operation.allocations, "replace", raise_conflict)
    assert auditor.delete(orphans, lambda _done, _total: None).deleted == 1


@pytest.mark.all_databases
def test_concurrent_audits_delete_each_orphan_once(cloud, database):
    for number in range(8):
        cloud.allocate(number)
    deleted = []

    def work():
        auditor = Auditor(database=database, clock=utcnow, no_owner=NO_OWNER)
        deleted.append(auditor.delete(auditor.find(), lambda _done, _total: None).deleted)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sum(deleted) == 8
    assert cloud.document("audit")["code"] == 0


def test_statement_count_is_independent_of_orphans(sqlite_cloud, sqlite_database):
    counts = []
    for numbers in ((1,), range(2, 8)):
        for number in numbers:
            sqlite_cloud.allocate(number)
        auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
        with record_statements(sqlite_database) as seen:
            auditor.delete(auditor.find(), lambda _done, _total: None)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_unverifiable_allocation_is_kept(sqlite_cloud, sqlite_database):
    sqlite_cloud.allocate(2)
    auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
    orphans = auditor.find()
    sqlite_database.write(lambda connection: stamp_revision(connection, NEWEST))
    assert auditor.delete(orphans, lambda _done, _total: None).deleted == 0
    assert sqlite_cloud.read_allocations(2) != {}
