# SPDX-License-Identifier: Apache-2.0
"""The change log names the providers and names that committed statements have written."""

import time
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, insert, select

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.store.placement.change_log_copy import ChangeLogCopy
from tests.support.statements import execute_statements

pytestmark = pytest.mark.all_databases

#: Ids of providers of these tests only.
PROVIDER_A, PROVIDER_B, PROVIDER_C = 900_001, 900_002, 900_003

INVENTORY_COLUMNS = (
    "resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, "
    "allocation_ratio"
)
#: Rows that exist before each write.
STATEMENTS_FOR_EXISTING_ROWS = (
    (
        "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES "
        f"({PROVIDER_A}, 'a', 'a', 0, {PROVIDER_A}), ({PROVIDER_B}, 'b', 'b', 0, {PROVIDER_A})"
    ),
    (
        f"INSERT INTO inventories ({INVENTORY_COLUMNS}) VALUES "
        f"({PROVIDER_A}, 0, 8, 0, 1, 8, 1, 1.0), ({PROVIDER_B}, 0, 8, 0, 1, 8, 1, 1.0)"
    ),
    (
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
        f"VALUES ({PROVIDER_A}, 'x', 0, 1), ({PROVIDER_A}, 'y', 0, 2), ({PROVIDER_B}, 'y', 1, 3)"
    ),
    (
        "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) "
        f"SELECT {PROVIDER_A}, min(id) FROM traits"
    ),
    "INSERT INTO placement_aggregates (id, uuid) VALUES (900001, 'g')",
    (
        f"INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES "
        f"({PROVIDER_A}, 900001), ({PROVIDER_B}, 900001)"
    ),
)
#: Statements as other services send them, with the providers or "names" that they change.
CHANGES_BY_STATEMENT = {
    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES "
    f"({PROVIDER_A}, 'z', 0, 1), ({PROVIDER_A}, 'z', 1, 1), ({PROVIDER_B}, 'z', 0, 1)": {
        PROVIDER_A,
        PROVIDER_B,
    },
    "UPDATE allocations SET used = used + 1 WHERE consumer_id = 'x'": {PROVIDER_A},
    f"UPDATE allocations SET resource_provider_id = {PROVIDER_C} WHERE consumer_id = 'x'": {
        PROVIDER_A,
        PROVIDER_C,
    },
    "UPDATE allocations SET used = 0 WHERE consumer_id = 'nothing'": set(),
    "DELETE FROM allocations WHERE consumer_id = 'y'": {PROVIDER_A, PROVIDER_B},
    f"INSERT INTO inventories ({INVENTORY_COLUMNS}) VALUES ({PROVIDER_B}, 1, 8, 0, 1, 8, 1, 1.0)": {
        PROVIDER_B
    },
    f"UPDATE inventories SET resource_provider_id = {PROVIDER_C} "
    f"WHERE resource_provider_id = {PROVIDER_B}": {PROVIDER_B, PROVIDER_C},
    "DELETE FROM inventories": {PROVIDER_A, PROVIDER_B},
    "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) "
    f"SELECT {PROVIDER_B}, max(id) FROM traits": {PROVIDER_B},
    f"UPDATE resource_provider_traits SET resource_provider_id = {PROVIDER_B}": {
        PROVIDER_A,
        PROVIDER_B,
    },
    "DELETE FROM resource_provider_traits": {PROVIDER_A},
    "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES "
    f"({PROVIDER_C}, 900001)": {PROVIDER_C},
    "UPDATE resource_provider_aggregates SET aggregate_id = 7 "
    f"WHERE resource_provider_id = {PROVIDER_B}": {PROVIDER_B},
    "DELETE FROM resource_provider_aggregates": {PROVIDER_A, PROVIDER_B},
    f"INSERT INTO resource_providers (id, uuid, name) VALUES ({PROVIDER_C}, 'c', 'c')": {
        PROVIDER_C
    },
    f"UPDATE resource_providers SET root_provider_id = {PROVIDER_B} WHERE id = {PROVIDER_B}": {
        PROVIDER_B
    },
    f"DELETE FROM resource_providers WHERE id = {PROVIDER_B}": {PROVIDER_B},
    "INSERT INTO traits (name) VALUES ('CUSTOM_T')": {"names"},
    "INSERT INTO resource_classes (id, name) VALUES (20000, 'CUSTOM_C')": {"names"},
    "UPDATE placement_aggregates SET uuid = 'h' WHERE id = 900001": {"names"},
}


def insert_allocations(connection, *providers):
    for provider in providers:
        row = {"resource_provider_id": provider, "consumer_id": str(uuid4()), "used": 1}
        connection.execute(insert(tables.allocations), {**row, "resource_class_id": 0})


@pytest.fixture
def read_new_changes(database):
    """Give a function that returns the changes since its last call."""
    execute_statements(database, *STATEMENTS_FOR_EXISTING_ROWS)
    copy = ChangeLogCopy(database)

    def read_and_check_changes():
        changes = copy.follow()
        assert copy.equals_tables()
        assert not copy.doubts
        return set(changes.providers) | ({"names"} if changes.names else set())

    return read_and_check_changes


@pytest.mark.parametrize("statement", CHANGES_BY_STATEMENT)
def test_statement_logs_only_the_providers_that_it_changes(database, read_new_changes, statement):
    execute_statements(database, statement)
    assert read_new_changes() == CHANGES_BY_STATEMENT[statement]
    assert read_new_changes() == set()


def test_provider_of_a_row_replaced_by_an_upsert_is_logged(database, read_new_changes):
    """REPLACE of MariaDB and upserts replace rows."""
    if database.url.get_backend_name() == "mysql":
        execute_statements(
            database,
            f"REPLACE INTO resource_provider_aggregates (resource_provider_id, aggregate_id) "
            f"VALUES ({PROVIDER_A}, 900001)",
        )
        assert read_new_changes() == {PROVIDER_A}
        conflict = "ON DUPLICATE KEY UPDATE total = 5"
    else:
        conflict = "ON CONFLICT (resource_provider_id, resource_class_id) DO UPDATE SET total = 5"
    values = f"({PROVIDER_B}, 0, 8, 0, 1, 8, 1, 1.0)"
    execute_statements(
        database, f"INSERT INTO inventories ({INVENTORY_COLUMNS}) VALUES {values} {conflict}"
    )
    assert read_new_changes() == {PROVIDER_B}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_truncated_table_leaves_the_change_log_in_doubt(database, read_new_changes):
    with database.read() as connection:
        position = change_log.begin(connection)
        execute_statements(database, "TRUNCATE allocations")
        assert change_log.read(connection, position).needs_full_reload


def test_only_committed_provider_changes_are_logged(database, read_new_changes):
    with database.writer.connect() as connection:
        insert_allocations(connection, PROVIDER_A)
        assert read_new_changes() == set()
        connection.rollback()
        assert read_new_changes() == set()
        insert_allocations(connection, PROVIDER_B)
        with connection.begin_nested() as savepoint:
            insert_allocations(connection, PROVIDER_A, PROVIDER_C)
            savepoint.rollback()
        connection.commit()
        assert read_new_changes() == {PROVIDER_B}


def test_write_of_many_rows_adds_a_single_change_log_row_on_postgresql(database, read_new_changes):
    rows = ", ".join(f"({PROVIDER_A}, 'many', {number}, 1)" for number in range(1000))
    with database.read() as connection:
        count = select(func.count()).select_from(tables.provider_changes)
        before = connection.scalar(count)
        execute_statements(
            database,
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
            f"VALUES {rows}",
        )
        if database.url.get_backend_name() == "postgresql":
            assert connection.scalar(count) == before + 1
    assert read_new_changes() == {PROVIDER_A}


def test_reading_the_change_log_takes_one_statement(database, read_new_changes):
    read_new_changes()
    with database.read() as connection:
        position = change_log.begin(connection)
        execute_statements(
            database, f"DELETE FROM allocations WHERE resource_provider_id = {PROVIDER_A}"
        )
        begin_stats()
        change_log.read(connection, position)
        assert get_request_stats().statements == 1


@pytest.fixture
def manual_clock(monkeypatch):
    """A settable monotonic clock of the change log."""
    now = [1000.0]
    monkeypatch.setattr(change_log, "monotonic", lambda: now[0])
    return now


def change_allocation(database, number=7):
    execute_statements(
        database,
        f"UPDATE allocations SET used = {number} WHERE resource_provider_id = {PROVIDER_A}",
    )


def test_change_log_reader_reports_missing_rows_until_they_are_back(database, read_new_changes):
    """A restored dump has other rows under the same ids, and a node of Galera may lag behind."""
    log = "UPDATE sched_provider_changes SET"
    with database.read() as connection:
        change_allocation(database)
        position = change_log.begin(connection)
        assert change_log.read(connection, position).position == position
        last = max(position.rows.values())
        execute_statements(database, f"{log} id = -1 WHERE id = {last}")
        assert change_log.read(connection, position).lacks_rows
        execute_statements(database, f"{log} id = {last} WHERE id = -1")
        change_allocation(database, 8)
        assert change_log.read(connection, position).providers == {PROVIDER_A}
        execute_statements(database, f"{log} provider_id = 77 WHERE id = {last}")
        assert change_log.read(connection, position).lacks_rows


def test_change_log_position_has_only_a_count_of_old_rows(database, read_new_changes, manual_clock):
    with database.read() as connection:
        position = change_log.begin(connection)
        for number in range(5):
            change_allocation(database, number)
            changes = change_log.read(connection, position)
            assert changes.providers == {PROVIDER_A}
            position = changes.position
            manual_clock[0] += 1
        for _ in range(2):
            manual_clock[0] += change_log.OVERLAP
            position = change_log.read(connection, position).position
        assert len(position.rows) == 1
        assert position.count > 5
        assert change_log.read_late_rows(connection, position).position == position


def test_new_change_log_reader_finds_later_changes_only(
    database, read_new_changes, manual_clock, monkeypatch
):
    monkeypatch.setattr(change_log, "MAX_ROWS", 6)
    for number in range(20):
        change_allocation(database, number)
    with database.read() as connection:
        position = change_log.begin(connection)
        assert len(position.rows) == 3
        change_allocation(database, 21)
        changes = change_log.read(connection, position)
        assert changes.providers == {PROVIDER_A}
        assert change_log.read_late_rows(connection, changes.position).position == changes.position


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_change_log_rows_committed_late_are_read(database, read_new_changes, manual_clock):
    with database.read() as connection, database.writer.connect() as long:
        position = change_log.begin(connection)
        insert_allocations(long, PROVIDER_A)
        for _ in range(3):
            execute_statements(
                database, "UPDATE allocations SET used = used + 1 WHERE consumer_id = 'y'"
            )
            manual_clock[0] += change_log.OVERLAP + 1
            position = change_log.read(connection, position).position
        assert change_log.read_late_rows(connection, position).providers == set()
        long.commit()
        assert change_log.read(connection, position).providers == set()
        late = change_log.read_late_rows(connection, position)
        assert PROVIDER_A in late.providers
        assert change_log.read_late_rows(connection, late.position).providers == set()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_change_log_rows_of_a_long_transaction_are_read_after_its_commit(
    database_url, read_new_changes, monkeypatch
):
    monkeypatch.setattr("placement_sched.db.transaction.LONG_TRANSACTION", 0.0)
    own = Database(make_settings(database_url))
    own.marks_commits = True
    with own.read() as connection:
        position = change_log.begin(connection)
        own.write(lambda writing: insert_allocations(writing, PROVIDER_A))
        changes = change_log.read(connection, position)
        assert (changes.providers, changes.has_late_rows) == ({PROVIDER_A}, True)
    own.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
@pytest.mark.parametrize("is_quiet", [False, True], ids=["busy hour", "quiet hour"])
def test_change_log_rows_of_older_transactions_are_read(database, read_new_changes, is_quiet):
    if is_quiet:
        execute_statements(
            database, "UPDATE sched_provider_changes SET created_at = '2020-01-01 00:00:00'"
        )
    with database.read() as connection, database.writer.connect() as long:
        insert_allocations(long, PROVIDER_A)
        for number in range(3):
            execute_statements(
                database,
                f"UPDATE allocations SET used = {number} WHERE resource_provider_id = {PROVIDER_B}",
            )
        position = change_log.begin(connection)
        long.commit()
        first = change_log.read(connection, position)
        late = change_log.read_late_rows(connection, first.position)
        assert PROVIDER_A in first.providers | late.providers


def test_change_log_position_covers_about_an_hour(database, read_new_changes, manual_clock):
    with database.read() as connection:
        position = change_log.begin(connection)
        for number in range(40):
            change_allocation(database, number)
            manual_clock[0] += change_log.LATE_STEP
            position = change_log.read(connection, position).position
            assert change_log.read_late_rows(connection, position).position == position
        spanned = manual_clock[0] - position.points[0][0]
    assert spanned < change_log.LATE_OVERLAP + 2 * change_log.LATE_STEP


def test_old_change_log_rows_are_deleted_except_the_newest(database, read_new_changes):
    with database.read() as connection:
        execute_statements(database, "UPDATE allocations SET used = 7")
        position = change_log.begin(connection)
        assert change_log.trim(connection) == 0
        time.sleep(0.01)  # SQLite's times have milliseconds
        assert change_log.trim(connection, timedelta(0)) > 0
        assert change_log.trim(connection, timedelta(0)) == 0
        count = select(func.count()).select_from(tables.provider_changes)
        assert connection.scalar(count) == 1
        change_allocation(database, 8)
        changes = change_log.read(connection, change_log.begin(connection))
        assert not changes.providers
        # Rows that were read recently are not old enough.
        assert change_log.read(connection, position).lacks_rows == (len(position.rows) > 1)
