# SPDX-License-Identifier: Apache-2.0
"""The migrations create the tables of ``db/tables.py``, and keep existing tables and rows."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select, text
from sqlalchemy.exc import OperationalError

from placement_sched.db.migrate import VERSION_TABLE, current_revision, newest_revision, sync_schema
from placement_sched.db.tables import (
    OWN_TABLES,
    PLACEMENT_TABLES,
    instances,
    metadata,
    resource_providers,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.operations.prepare import check_schema_revision
from tests.conftest import REQUIRED, SERVERS, make_settings

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def empty_database_of_any_kind(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Database]:
    """A database without tables."""
    if request.param == "sqlite":
        yield from _open_database(f"sqlite:///{tmp_path / 'empty.db'}")
        return
    server = create_engine(SERVERS[request.param], isolation_level="AUTOCOMMIT")
    name = f"ps_migrate_{uuid4().hex[:12]}"
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no {request.param} server: {failure.orig}")
    yield from _open_database(server.url.set(database=name).render_as_string(hide_password=False))
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))
    server.dispose()


def _open_database(url: str) -> Iterator[Database]:
    database = Database(make_settings(url))
    yield database
    database.dispose()


#: Indexes of a single kind of database.
INDEX_KINDS = {"sched_allocations_consumer_id_idx": "postgresql"}


def schema_differences(database: Database) -> list[object]:
    """Return the differences between the database and ``db/tables.py`` that alembic reports."""
    kind = database.url.get_backend_name()
    options = {
        "compare_type": True,
        "compare_server_default": True,
        "include_object": lambda _object, name, _type, _reflected, _to: (
            name != VERSION_TABLE and INDEX_KINDS.get(name, kind) == kind
        ),
    }
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, metadata)


def test_upgrade_of_an_empty_database_creates_the_schema(empty_database_of_any_kind):
    sync_schema(empty_database_of_any_kind)
    assert schema_differences(empty_database_of_any_kind) == []
    assert current_revision(empty_database_of_any_kind) == newest_revision()


def test_second_upgrade_changes_nothing(empty_database_of_any_kind):
    sync_schema(empty_database_of_any_kind)
    sync_schema(empty_database_of_any_kind)
    assert schema_differences(empty_database_of_any_kind) == []


def test_empty_database_has_no_revision(empty_database_of_any_kind):
    assert current_revision(empty_database_of_any_kind) is None


def test_tables_of_a_running_placement_are_unchanged(empty_database_of_any_kind):
    """Rows, additional columns and placement's own alembic version remain."""

    def create_placement_schema(connection):
        metadata.create_all(connection, tables=PLACEMENT_TABLES)
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('b4ed3a175331')"))
        connection.execute(
            resource_providers.insert(), {"uuid": str(uuid4()), "name": "cn1", "generation": 7}
        )
        connection.execute(text("UPDATE resource_providers SET theirs = 42"))

    empty_database_of_any_kind.write(create_placement_schema)
    sync_schema(empty_database_of_any_kind)
    with empty_database_of_any_kind.read() as connection:
        row = connection.execute(text("SELECT name, generation, theirs FROM resource_providers"))
        assert row.one() == ("cn1", 7, 42)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "b4ed3a175331"
        assert {table.name for table in OWN_TABLES} <= set(inspect(connection).get_table_names())
    assert current_revision(empty_database_of_any_kind) == newest_revision()


def test_incomplete_schema_is_completed(empty_database_of_any_kind):
    """MariaDB commits each table, so an interrupted sync leaves some tables."""
    half = [*PLACEMENT_TABLES, *OWN_TABLES[: len(OWN_TABLES) // 2]]
    empty_database_of_any_kind.write(
        lambda connection: metadata.create_all(connection, tables=half)
    )
    sync_schema(empty_database_of_any_kind)
    assert schema_differences(empty_database_of_any_kind) == []


def test_database_of_the_last_development_version_is_upgraded(empty_database_of_any_kind):
    """Tables and rows remain. The table of image members is removed."""
    row = {"uuid": str(uuid4()), "name": "cn1", "generation": 7}

    def restore_schema(connection):
        connection.execute(resource_providers.insert(), row)
        connection.execute(text("CREATE TABLE sched_image_members (image_id INTEGER)"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0020'"))

    sync_schema(empty_database_of_any_kind)
    empty_database_of_any_kind.write(restore_schema)
    sync_schema(empty_database_of_any_kind)
    assert current_revision(empty_database_of_any_kind) == newest_revision()
    assert schema_differences(empty_database_of_any_kind) == []
    with empty_database_of_any_kind.read() as connection:
        assert connection.scalar(text("SELECT generation FROM resource_providers")) == 7
        assert not inspect(connection).has_table("sched_image_members")


@pytest.mark.parametrize("missing", [2, 1])
def test_tables_of_plan_runs_are_added_also_after_an_interrupted_upgrade(
    empty_database_of_any_kind, missing
):
    """MariaDB commits each table, so an interrupted upgrade may have created the first table."""

    def restore_schema(connection):
        for table in ("sched_plan_runs", "sched_plan_moves")[-missing:]:
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0023'"))

    sync_schema(empty_database_of_any_kind)
    empty_database_of_any_kind.write(restore_schema)
    sync_schema(empty_database_of_any_kind)
    assert current_revision(empty_database_of_any_kind) == newest_revision()
    assert schema_differences(empty_database_of_any_kind) == []


@pytest.mark.parametrize("missing", [3, 1])
def test_columns_of_instances_are_added_also_after_an_interrupted_upgrade(
    empty_database_of_any_kind, missing
):
    """MariaDB commits each column. Instances remain."""
    columns = ("launched_at", "metadata", "system_metadata")[-missing:]

    def restore_schema(connection):
        row = {"uuid": str(uuid4()), "host": "cn1", "display_name": "web"}
        connection.execute(instances.insert(), row)
        for column in columns:
            connection.execute(text(f"ALTER TABLE sched_instances DROP COLUMN {column}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0021'"))

    sync_schema(empty_database_of_any_kind)
    empty_database_of_any_kind.write(restore_schema)
    assert len(schema_differences(empty_database_of_any_kind)) == missing
    sync_schema(empty_database_of_any_kind)
    assert current_revision(empty_database_of_any_kind) == newest_revision()
    assert schema_differences(empty_database_of_any_kind) == []
    with empty_database_of_any_kind.read() as connection:
        row = connection.execute(select(instances)).one()
        assert (row.host, row.launched_at, row.metadata) == ("cn1", None, None)


@pytest.mark.parametrize(
    ("revision", "words"), [("9999", "of a newer release"), ("0019", "of a development version")]
)
def test_schema_of_another_release_is_rejected(empty_database_of_any_kind, revision, words):
    """Neither ``db sync`` nor a server changes anything."""
    sync_schema(empty_database_of_any_kind)
    with empty_database_of_any_kind.writer.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    for operation in (sync_schema, check_schema_revision):
        with pytest.raises(Unavailable, match=f"revision {revision} {words}"):
            operation(empty_database_of_any_kind)
    assert current_revision(empty_database_of_any_kind) == revision
