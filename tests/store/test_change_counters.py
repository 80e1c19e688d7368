# SPDX-License-Identifier: Apache-2.0
"""Change counters rise with each change, and stay unchanged while they are locked."""

from functools import partial
from threading import Event, Thread

import pytest

from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates
from tests.support.concurrency import run_concurrently
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases

#: A subject whose counter can be locked.
LOCKABLE = host_aggregates.SUBJECT


def bump_counter(database, subject="things"):
    database.write(lambda connection: change_counters.bump(connection, subject))


def read_counter_version(database, subject="things"):
    return run_query(database, change_counters.version, subject)


def test_each_committed_bump_raises_the_version_of_its_subject(database):
    versions = [read_counter_version(database)]
    for _ in range(2):
        bump_counter(database)
        versions.append(read_counter_version(database))
    with database.writer.connect() as connection:
        change_counters.bump(connection, "things")
        connection.rollback()
    assert [*versions, read_counter_version(database)] == [0, 1, 2, 2]
    assert read_counter_version(database, "others") == 0


def test_concurrent_bumps_are_not_lost(database):
    run_concurrently(*[partial(bump_counter, database)] * 8)
    assert read_counter_version(database) == 8


def test_bump_of_a_locked_counter_waits_for_the_lock(database):
    bumped = Event()

    def bump_and_set_event():
        bump_counter(database, LOCKABLE)
        bumped.set()

    rival = Thread(target=bump_and_set_event)

    def hold_counter_while_rival_starts(connection):
        held = change_counters.hold_version(connection, LOCKABLE)
        rival.start()
        assert not bumped.wait(0.2)
        return held

    held = database.write(hold_counter_while_rival_starts)
    rival.join(timeout=60)
    assert read_counter_version(database, LOCKABLE) > held
