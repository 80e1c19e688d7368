# SPDX-License-Identifier: Apache-2.0
"""The migrations make what ``db/tables.py`` says, on every database, and spare what is there."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from placement_sched.db.migrate import VERSION_TABLE, current_revision, newest_revision, sync_schema
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES, metadata, resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.operations.prepare import check_schema_revision
from tests.conftest import REQUIRED, SERVERS, make_settings

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with nothing in it at all."""
    if request.param == "sqlite":
        yield from _opened(f"sqlite:///{tmp_path / 'empty.db'}")
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
    yield from _opened(server.url.set(database=name).render_as_string(hide_password=False))
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))
    server.dispose()


def _opened(url: str) -> Iterator[Database]:
    database = Database(make_settings(url))
    yield database
    database.dispose()


#: Indexes that are made on one kind of database only.
OF_ONE_KIND = {"sched_allocations_consumer_id_idx": "postgresql"}


def differences(database: Database) -> list[object]:
    """How the database differs from ``db/tables.py``, in alembic's words."""
    kind = database.url.get_backend_name()
    options = {
        "compare_type": True,
        "compare_server_default": True,
        "include_object": lambda _object, name, _type, _reflected, _to: (
            name != VERSION_TABLE and OF_ONE_KIND.get(name, kind) == kind
        ),
    }
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, metadata)


def test_up_from_empty_makes_the_tables_of_the_code(empty):
    sync_schema(empty)
    assert differences(empty) == []
    assert current_revision(empty) == newest_revision()


def test_up_again_changes_nothing(empty):
    sync_schema(empty)
    sync_schema(empty)
    assert differences(empty) == []


def test_an_untouched_database_has_no_revision(empty):
    assert current_revision(empty) is None


def test_tables_of_a_running_placement_are_left_alone(empty):
    """Its rows, its own columns and its own alembic version stay as they are."""

    def as_placement_left_it(connection):
        metadata.create_all(connection, tables=PLACEMENT_TABLES)
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('b4ed3a175331')"))
        connection.execute(
            resource_providers.insert(), {"uuid": str(uuid4()), "name": "cn1", "generation": 7}
        )
        connection.execute(text("UPDATE resource_providers SET theirs = 42"))

    empty.write(as_placement_left_it)
    sync_schema(empty)
    with empty.read() as connection:
        row = connection.execute(text("SELECT name, generation, theirs FROM resource_providers"))
        assert row.one() == ("cn1", 7, 42)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "b4ed3a175331"
        assert {table.name for table in OWN_TABLES} <= set(inspect(connection).get_table_names())
    assert current_revision(empty) == newest_revision()


def test_what_a_half_made_schema_lacks_is_added(empty):
    """MariaDB commits every table at once, so a sync that died leaves some behind."""
    half = [*PLACEMENT_TABLES, *OWN_TABLES[: len(OWN_TABLES) // 2]]
    empty.write(lambda connection: metadata.create_all(connection, tables=half))
    sync_schema(empty)
    assert differences(empty) == []


def test_database_of_the_last_development_version_is_upgraded(empty):
    """Its tables and rows stay; the table of image members goes."""
    row = {"uuid": str(uuid4()), "name": "cn1", "generation": 7}

    def as_it_was(connection):
        connection.execute(resource_providers.insert(), row)
        connection.execute(text("CREATE TABLE sched_image_members (image_id INTEGER)"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0020'"))

    sync_schema(empty)
    empty.write(as_it_was)
    sync_schema(empty)
    assert current_revision(empty) == newest_revision()
    assert differences(empty) == []
    with empty.read() as connection:
        assert connection.scalar(text("SELECT generation FROM resource_providers")) == 7
        assert not inspect(connection).has_table("sched_image_members")


@pytest.mark.parametrize(
    ("revision", "words"), [("9999", "of a newer release"), ("0019", "of a development version")]
)
def test_schema_of_another_release_is_refused_in_one_sentence(empty, revision, words):
    """Neither db sync nor a server changes anything."""
    sync_schema(empty)
    with empty.writer.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    for refused in (sync_schema, check_schema_revision):
        with pytest.raises(Unavailable, match=f"revision {revision} {words}"):
            refused(empty)
    assert current_revision(empty) == revision
