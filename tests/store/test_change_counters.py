# SPDX-License-Identifier: Apache-2.0
"""Change counters rise with each change, and stay unchanged while they are locked."""

from threading import Event, Thread

import pytest

from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates

pytestmark = pytest.mark.all_databases

#: A subject whose counter can be locked.
LOCKABLE = host_aggregates.SUBJECT


def bump_counter(database, subject="things"):
    database.write(lambda connection: change_counters.bump(connection, subject))


def counter_version(database, subject="things"):
    with database.read() as connection:
        return change_counters.version(connection, subject)


def test_version_starts_at_0_and_rises_with_each_change(database):
    versions = [counter_version(database)]
    for _ in range(3):
        bump_counter(database)
        versions.append(counter_version(database))
    assert versions == [0, 1, 2, 3]


def test_each_subject_has_its_own_counter(database):
    bump_counter(database)
    assert (counter_version(database), counter_version(database, "others")) == (1, 0)


def test_rolled_back_bump_has_no_effect(database):
    bump_counter(database)
    with database.writer.connect() as connection:
        change_counters.bump(connection, "things")
        connection.rollback()
    assert counter_version(database) == 1


def test_concurrent_bumps_are_not_lost(database):
    threads = [Thread(target=bump_counter, args=(database,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert counter_version(database) == 8


def test_locked_counter_is_bumped_after_the_lock(database):
    bumped = Event()

    def work():
        bump_counter(database, LOCKABLE)
        bumped.set()

    rival = Thread(target=work)

    def hold_counter(connection):
        held = change_counters.hold_version(connection, LOCKABLE)
        rival.start()
        assert not bumped.wait(0.2)
        return held

    held = database.write(hold_counter)
    rival.join(timeout=60)
    assert counter_version(database, LOCKABLE) > held
