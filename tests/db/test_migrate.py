# SPDX-License-Identifier: Apache-2.0
"""The migrations create the tables of ``db/tables.py``, and keep existing tables and rows."""

from collections.abc import Iterator
from threading import Thread
from uuid import uuid4

import pytest
from sqlalchemy import text

from placement_sched.db import migrate
from placement_sched.db.migrate import (
    VERSION_TABLE,
    get_newest_revision,
    hold_migration_lock,
    read_current_revision,
    sync_schema,
)
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES, metadata, resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.operations.prepare import check_schema_revision
from tests.conftest import make_settings
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.schema_differences import find_schema_differences
from tests.support.statements import execute_statements

pytestmark = pytest.mark.slow


@pytest.fixture(params=DATABASE_KINDS)
def database(request, tmp_path) -> Iterator[Database]:
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        yield database
        database.dispose()


def test_second_sync_of_the_schema_changes_nothing(database):
    assert read_current_revision(database) is None
    for _ in range(2):
        sync_schema(database)
        assert find_schema_differences(database) == []
        assert read_current_revision(database) == get_newest_revision()


def test_migration_keeps_placement_tables_and_adds_missing_tables(database):
    """Rows, additional columns and placement's own alembic version remain."""

    def create_half_of_the_tables(connection):
        half = [*PLACEMENT_TABLES, *OWN_TABLES[: len(OWN_TABLES) // 2]]
        metadata.create_all(connection, tables=half)
        row = {"uuid": str(uuid4()), "name": "cn1", "generation": 7}
        connection.execute(resource_providers.insert(), row)

    database.write(create_half_of_the_tables)
    execute_statements(
        database,
        "ALTER TABLE resource_providers ADD COLUMN theirs INTEGER",
        "UPDATE resource_providers SET theirs = 42",
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "INSERT INTO alembic_version VALUES ('b4ed3a175331')",
    )
    sync_schema(database)
    with database.read() as connection:
        row = connection.execute(text("SELECT name, generation, theirs FROM resource_providers"))
        assert row.one() == ("cn1", 7, 42)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "b4ed3a175331"
    theirs = {"ALTER TABLE resource_providers DROP COLUMN theirs", "DROP TABLE alembic_version"}
    execute_statements(database, *theirs)
    assert find_schema_differences(database) == []
    assert read_current_revision(database) == get_newest_revision()


def test_interrupted_upgrade_from_the_first_release_is_repeated(database):
    """Each upgrade added the first of its columns only."""
    sync_schema(database)
    execute_statements(
        database,
        "ALTER TABLE sched_services DROP COLUMN version",
        "ALTER TABLE sched_decisions DROP COLUMN reason_subject",
        f"UPDATE {VERSION_TABLE} SET version_num = '0026'",
    )
    sync_schema(database)
    assert find_schema_differences(database) == []
    assert read_current_revision(database) == get_newest_revision()


@pytest.mark.parametrize(
    ("revision", "words"), [("9999", "of a newer release"), ("0018", "of a development version")]
)
def test_database_schema_of_another_release_is_rejected(sqlite_database, revision, words):
    """Neither ``db sync`` nor a server changes anything."""
    execute_statements(sqlite_database, f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    for operation in (sync_schema, check_schema_revision):
        with pytest.raises(Unavailable, match=f"revision {revision} {words}"):
            operation(sqlite_database)
    assert read_current_revision(sqlite_database) == revision


@pytest.mark.parametrize("is_galera", [False, True], ids=["MariaDB", "Galera"])
def test_second_schema_migration_waits_for_the_first(mysql_server, monkeypatch, caplog, is_galera):
    monkeypatch.setattr(migrate, "_LOCK_WAIT", 0.1)
    monkeypatch.setattr(migrate, "_is_galera", lambda _connection: is_galera)
    database, order = Database(make_settings(mysql_server)), []

    def run_second_migration():
        with database.writer.connect() as connection, hold_migration_lock(database, connection):
            order.append("second")

    with database.writer.connect() as connection:
        with hold_migration_lock(database, connection):
            waiting = Thread(target=run_second_migration)
            waiting.start()
            while "waiting for another process" not in caplog.text:
                waiting.join(0.05)
                assert waiting.is_alive()
            order.append("first")
        waiting.join(60)
    database.dispose()
    assert order == ["first", "second"]
