# SPDX-License-Identifier: Apache-2.0
"""Comparison of a column with many values, and frequent statements."""

from datetime import datetime

import pytest
from sqlalchemy import bindparam, column, event, insert, literal_column, select, table, text
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError

from placement_sched.db.sql import FrequentStatement, build_in_condition
from placement_sched.db.tables import inventories, resource_providers, traits
from placement_sched.db.transaction import Database
from placement_sched.model.request_stats import begin_stats, get_request_stats
from tests.conftest import make_settings
from tests.support.providers import NOW, make_provider

pytestmark = pytest.mark.all_databases

PROVIDER_NAMES = ["plain", "with space", "comma,comma", 'quote "quoted"', "back\\slash", "\\"]
PROVIDER_NAMES += ["{brace}", "NULL", "it's", "Zürich", "%s", ":name"]


@pytest.fixture
def provider_ids_by_name(database):
    """Create providers of these names, and return their ids by name."""
    columns = resource_providers.c

    def insert_providers(connection):
        rows = [
            {"uuid": f"{n:036}", "name": name, "generation": 0, "created_at": NOW}
            for n, name in enumerate(PROVIDER_NAMES)
        ]
        connection.execute(insert(resource_providers), rows)
        return dict(connection.execute(select(columns.name, columns.id)).all())

    return database.write(insert_providers)


def _search_provider_names(database, column, values):
    with database.read() as connection:
        query = select(resource_providers.c.name).where(
            build_in_condition(connection, column, values)
        )
        return set(connection.scalars(query))


def test_in_values_of_strings_matches_rows_exactly(database, provider_ids_by_name):
    name, uuid = resource_providers.c.name, resource_providers.c.uuid
    for each in PROVIDER_NAMES:
        assert _search_provider_names(database, name, [each, "absent"]) == {each}
    assert _search_provider_names(database, name, PROVIDER_NAMES) == set(PROVIDER_NAMES)
    assert _search_provider_names(database, uuid, [f"{0:036}"]) == {PROVIDER_NAMES[0]}
    assert _search_provider_names(database, uuid, [f"{0:036}x"]) == set()


def test_in_values_of_numbers_matches_rows(database, provider_ids_by_name):
    names = {"plain", "\\"}
    assert (
        _search_provider_names(
            database, resource_providers.c.id, [provider_ids_by_name[name] for name in names]
        )
        == names
    )


@pytest.mark.parametrize("column", ["id", "name"])
def test_in_values_without_values_matches_no_rows(database, provider_ids_by_name, column):
    assert _search_provider_names(database, resource_providers.c[column], []) == set()


TRAIT_CHANGE_TIME = datetime(2026, 1, 1, 12, 0, 0)
TRAIT_BY_NAME_QUERY = select(traits.c.name, traits.c.created_at, traits.c.updated_at).where(
    traits.c.name == bindparam("name", type_=traits.c.name.type)
)


@pytest.fixture
def postgresql_database(postgresql_server):
    database = Database(make_settings(postgresql_server))
    yield database
    database.dispose()


def test_frequent_statement_returns_equal_rows_when_repeated(database):
    make_provider(database, VCPU=8)
    rows = [
        {"name": "CUSTOM_A", "created_at": TRAIT_CHANGE_TIME},
        {"name": "CUSTOM_B", "updated_at": TRAIT_CHANGE_TIME},
    ]
    database.write(lambda connection: [connection.execute(insert(traits), row) for row in rows])
    trait_statement = FrequentStatement(TRAIT_BY_NAME_QUERY)
    inventory = FrequentStatement(select(inventories.c.total, inventories.c.allocation_ratio))
    with database.read() as connection:
        for _ in range(3):
            (row,) = trait_statement.fetch_rows(connection, {"name": "CUSTOM_A"})
            assert tuple(row) == ("CUSTOM_A", TRAIT_CHANGE_TIME, None)
            assert not trait_statement.fetch_rows(connection, {"name": "%(name)s"})
            ((total, ratio),) = inventory.fetch_rows(connection, {})
            assert (total, ratio, type(ratio)) == (8, 1.0, float)


def test_frequent_statements_are_counted_and_call_engine_listeners(database):
    trait_statement = FrequentStatement(TRAIT_BY_NAME_QUERY)
    with database.read() as connection:
        trait_statement.fetch_rows(connection, {"name": "CUSTOM_A"})
    begin_stats()
    for _ in range(2):
        with database.read() as connection:
            trait_statement.fetch_rows(connection, {"name": "CUSTOM_A"})
        database.write(
            lambda connection: trait_statement.fetch_rows(connection, {"name": "CUSTOM_A"})
        )
    assert get_request_stats().statements == 4
    # If a listener is on the engine, SQLAlchemy executes the statement.
    executed = []
    event.listen(database.reader, "before_cursor_execute", lambda *args: executed.append(args[2]))
    with database.read() as connection:
        trait_statement.fetch_rows(connection, {"name": "CUSTOM_A"})
    assert [statement.split()[0] for statement in executed] == ["SELECT"]


def test_failing_frequent_statement_raises_errors_of_sqlalchemy(postgresql_database):
    statement = FrequentStatement(select(table("only_later", column("id")).c.id))
    with postgresql_database.read() as connection:
        with pytest.raises(ProgrammingError) as failure:
            statement.fetch_rows(connection, {})
        assert "only_later" in failure.value.statement
        connection.execute(text("CREATE TEMPORARY TABLE only_later (id INTEGER)"))
        assert not statement.fetch_rows(connection, {})
        with pytest.raises(DataError, match="NUL"):
            FrequentStatement(TRAIT_BY_NAME_QUERY).fetch_rows(connection, {"name": "a\0b"})


def test_frequent_statement_returns_rows_after_reconnection_and_table_change(postgresql_database):
    statement = FrequentStatement(select(literal_column("1").label("one")))
    with postgresql_database.read() as connection:
        statement.fetch_rows(connection, {})
        own = connection.scalar(text("SELECT pg_backend_pid()"))
        with postgresql_database.read() as killer:
            killer.exec_driver_sql(f"SELECT pg_terminate_backend({own})")
        with pytest.raises(OperationalError) as failure:
            statement.fetch_rows(connection, {})
        assert failure.value.connection_invalidated
    changing = FrequentStatement(select(text("* FROM changing")))
    with postgresql_database.read() as connection:
        assert statement.fetch_rows(connection, {}) == [(1,)]
        connection.execute(text("CREATE TEMPORARY TABLE changing (a INTEGER)"))
        connection.execute(text("INSERT INTO changing VALUES (1)"))
        for _ in range(3):
            assert [tuple(row) for row in changing.fetch_rows(connection, {})] == [(1,)]
        connection.execute(text("ALTER TABLE changing ADD COLUMN b INTEGER DEFAULT 2"))
        assert [tuple(row) for row in changing.fetch_rows(connection, {})] == [(1, 2)]
