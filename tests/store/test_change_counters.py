# SPDX-License-Identifier: Apache-2.0
"""Change counters rise with each change, and hold while they are held."""

from threading import Event, Thread

import pytest

from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates

pytestmark = pytest.mark.all_databases

#: A subject that may be held.
HELD = host_aggregates.SUBJECT


def bump(database, subject="things"):
    database.write(lambda connection: change_counters.bump(connection, subject))


def version(database, subject="things"):
    with database.read() as connection:
        return change_counters.version(connection, subject)


def test_version_is_0_before_any_change_and_rises_with_each(database):
    versions = [version(database)]
    for _ in range(3):
        bump(database)
        versions.append(version(database))
    assert versions == [0, 1, 2, 3]


def test_subjects_have_counters_of_their_own(database):
    bump(database)
    assert (version(database), version(database, "others")) == (1, 0)


def test_bump_that_is_rolled_back_has_not_been(database):
    bump(database)
    with database.writer.connect() as connection:
        change_counters.bump(connection, "things")
        connection.rollback()
    assert version(database) == 1


def test_rivals_never_lose_a_bump(database):
    threads = [Thread(target=bump, args=(database,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert version(database) == 8


def test_held_counter_is_bumped_only_afterwards(database):
    bumped = Event()

    def work():
        bump(database, HELD)
        bumped.set()

    rival = Thread(target=work)

    def hold(connection):
        held = change_counters.hold_version(connection, HELD)
        rival.start()
        assert not bumped.wait(0.2)
        return held

    held = database.write(hold)
    rival.join(timeout=60)
    assert version(database, HELD) > held
