# SPDX-License-Identifier: Apache-2.0
"""Deletion of old decisions, and notices of requests without a host."""

from dataclasses import replace
from datetime import timedelta

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.decision import EXPLAIN, SELECTED, DecisionQuery, Notice, PlacedInstance
from placement_sched.store import decisions
from tests.store.decision_records import build_decision
from tests.support.clouds import NOW
from tests.support.concurrency import run_before_each_statement
from tests.support.scheduling import make_uuid
from tests.support.statements import count_table_rows

pytestmark = pytest.mark.all_databases


def test_old_decisions_are_purged_in_batches_with_their_places(database):
    def record_five_decisions(connection):
        for number in range(5):
            decision = build_decision(NOW - timedelta(days=number), number)
            decisions.record(connection, decision, decision.created_at)

    def purge_two_old_decisions(connection):
        return decisions.purge(connection, NOW - timedelta(days=1), 2)

    database.write(record_five_decisions)
    assert [database.write(purge_two_old_decisions) for _ in range(3)] == [2, 1, 0]
    with database.read() as connection:
        remaining = decisions.search(connection, DecisionQuery())
    assert [decision.uuid for decision in remaining] == [make_uuid(1001), make_uuid(1000)]
    assert count_table_rows(database, "sched_decision_places") == 2


def build_failed_decision(minutes, number, *instances, **fields):
    """Return a decision without a host that was made some minutes ago."""
    placed = tuple(PlacedInstance(make_uuid(each)) for each in instances or (number,))
    decision = build_decision(NOW - timedelta(minutes=minutes), number)
    fields = {"outcome": "no_valid_host", "kind": "select", "policy": "default", **fields}
    return replace(decision, instances=placed, **fields)


def record_decisions(database, *rows):
    def insert_decisions(connection):
        for decision in rows:
            decisions.record(connection, decision, decision.created_at)

    database.write(insert_decisions)
    return [decision.uuid for decision in rows]


def find_failed_decisions_to_notify(database, *policies, minutes=60, limit=10):
    with database.read() as connection:
        since = NOW - timedelta(minutes=minutes)
        return decisions.list_waiting_for_notice(connection, policies or ("default",), since, limit)


def test_recent_failed_decisions_of_a_policy_are_newest_first(database):
    first, second, third, *_ = record_decisions(
        database,
        build_failed_decision(90, 1),
        build_failed_decision(30, 2),
        build_failed_decision(20, 3, policy="dense"),
        build_failed_decision(10, 4, kind=EXPLAIN),
        build_failed_decision(10, 5, outcome=SELECTED),
    )
    assert find_failed_decisions_to_notify(database) == [second]
    assert find_failed_decisions_to_notify(database, "default", "dense") == [third, second]
    assert find_failed_decisions_to_notify(database, "default", "dense", limit=1) == [third]
    assert find_failed_decisions_to_notify(database, minutes=100) == [second, first]


@pytest.mark.parametrize(
    ("later", "waiting"),
    [({}, [1]), ({"outcome": "selected"}, []), ({"kind": EXPLAIN}, [0])],
    ids=["failed", "selected", "explained"],
)
def test_failed_decision_is_not_notified_after_a_later_request(database, later, waiting):
    uuids = record_decisions(
        database, build_failed_decision(30, 1, 7, 8), build_failed_decision(20, 2, 8, 9, **later)
    )
    assert find_failed_decisions_to_notify(database) == [uuids[number] for number in waiting]


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_notice_recorded_while_its_decision_is_deleted_is_deleted_or_not_recorded(
    database, settings
):
    decision = build_failed_decision(5, 1)

    def record_notice():
        notice = Notice(decision.uuid, 1, ("a",))
        concurrent_writer.write(lambda connection: decisions.record_notice(connection, notice, NOW))

    def purge_new_decision():
        record_decisions(concurrent_writer, decision)
        return database.write(lambda connection: decisions.purge(connection, NOW, 10))

    with Database(settings) as concurrent_writer:
        purged = run_before_each_statement(database, purge_new_decision, record_notice)
        for count in purged:
            assert count == 1
            assert count_table_rows(database, "sched_decision_notices") == 0


def test_failed_decision_with_a_delivered_notice_is_not_found(database):
    (uuid,) = record_decisions(database, build_failed_decision(30, 1))
    notice = Notice(uuid, 1, ("a", "b"))
    for current in (notice, replace(notice, attempts=2, pending=("b",))):
        database.write(
            lambda connection, each=current: decisions.record_notice(connection, each, NOW)
        )
        with database.read() as connection:
            assert decisions.find_notice(connection, uuid) == current
        assert find_failed_decisions_to_notify(database) == [uuid]
    ended = replace(notice, attempts=3, pending=(), ended_at=NOW)
    database.write(lambda connection: decisions.record_notice(connection, ended, NOW))
    assert find_failed_decisions_to_notify(database) == []
    database.write(lambda connection: decisions.purge(connection, NOW, 10))
    with database.read() as connection:
        assert decisions.find_notice(connection, uuid) is None
