# SPDX-License-Identifier: Apache-2.0
"""The audit of allocations, while rivals record, claim and audit."""

import threading

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.operations import repair as operation
from placement_sched.operations.repair import Auditor
from tests.cli.placement.test_audit import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.cli.placement.test_audit import small as small  # noqa: PLC0414 - a fixture
from tests.support.openstack_databases import NEWEST, stamp
from tests.support.statements import record_statements

pytestmark = pytest.mark.slow

NO_OWNER = ("no-project", "no-user")


@pytest.mark.all_databases
def test_an_instance_that_is_recorded_meanwhile_keeps_what_it_holds(cloud, database):
    cloud.allocate(2)
    auditor = Auditor(database=database, clock=utcnow, no_owner=NO_OWNER)
    found = auditor.find()
    cloud.record(2)
    assert auditor.delete(found, lambda _done, _total: None).deleted == 0
    assert cloud.held(2) != {}


def test_a_batch_begins_anew_where_a_rival_was_faster(small, sqlite_database, monkeypatch):
    small.allocate(2)
    auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
    found = auditor.find()
    replace, refusals = operation.allocations.replace, [operation.ConcurrentUpdate("rival")]

    def raced(*arguments):
        if refusals:
            raise refusals.pop()
        replace(*arguments)

    monkeypatch.setattr(operation.allocations, "replace", raced)
    assert auditor.delete(found, lambda _done, _total: None).deleted == 1


@pytest.mark.all_databases
def test_two_audits_at_once_delete_everything_once(cloud, database):
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


def test_statements_do_not_depend_on_how_many_orphans_there_are(small, sqlite_database):
    counts = []
    for numbers in ((1,), range(2, 8)):
        for number in numbers:
            small.allocate(number)
        auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
        with record_statements(sqlite_database) as seen:
            auditor.delete(auditor.find(), lambda _done, _total: None)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_what_can_no_longer_be_judged_when_it_is_to_be_deleted_is_kept(small, sqlite_database):
    small.allocate(2)
    auditor = Auditor(database=sqlite_database, clock=utcnow, no_owner=NO_OWNER)
    found = auditor.find()
    sqlite_database.write(lambda connection: stamp(connection, NEWEST))
    assert auditor.delete(found, lambda _done, _total: None).deleted == 0
    assert small.held(2) != {}
