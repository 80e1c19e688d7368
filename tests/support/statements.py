# SPDX-License-Identifier: Apache-2.0
"""Execution and recording of SQL statements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any
from unittest.mock import patch

from sqlalchemy import Executable, create_engine, event, text

from placement_sched.candidates.cache import ProviderCache
from placement_sched.db.transaction import Connection, Database

#: Statement that begins a transaction on PostgreSQL. Drivers send such a statement on MariaDB, too.
_BEGIN_SQL = "BEGIN ISOLATION LEVEL READ COMMITTED"
#: Statement that disables the foreign keys of a connection, by database.
_DISABLE_FOREIGN_KEYS_SQL = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET foreign_key_checks = 0",
}


def execute_statements(database: Database, *statements: str) -> None:
    """Execute statements in a transaction."""
    database.write(lambda connection: [connection.execute(text(each)) for each in statements])


def execute_without_foreign_keys(database: Database, *statements: Executable) -> None:
    """Run statements with foreign keys disabled."""
    engine = create_engine(database.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(_DISABLE_FOREIGN_KEYS_SQL[connection.dialect.name])
        for statement in statements:
            connection.execute(statement)
        connection.invalidate()
    engine.dispose()


def run_query(database: Database, query: Callable[..., Any], *arguments: object) -> Any:
    """Call a function of the store with a connection for reads."""
    with database.read() as connection:
        return query(connection, *arguments)


class RecordedStatements(list[str]):
    """The statements of a database, except refreshes of a provider cache.

    ``refreshes`` has a list of statements for each refresh. The first reads the change log. Others
    load the providers that have changed, or all providers in the first refresh of a cache.
    """

    def __init__(self) -> None:
        """Create an empty list."""
        super().__init__()
        self.refreshes: list[list[str]] = []


@contextmanager
def record_statements(database: Database) -> Iterator[RecordedStatements]:
    """Yield a list that collects the statements of a database."""
    seen, thread = RecordedStatements(), local()
    refresh = ProviderCache.refresh

    def record_call(_connection, _cursor, statement, *_rest):
        if not statement.startswith(_BEGIN_SQL):
            getattr(thread, "statements", seen).append(statement)

    def record_refresh(cache: ProviderCache, connection: Connection) -> bool:
        thread.statements = []
        try:
            return refresh(cache, connection)
        finally:
            if thread.statements:  # none if the cache belongs to another database
                seen.refreshes.append(thread.statements)
            del thread.statements

    engines = (database.reader, database.writer)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record_call)
    try:
        with patch.object(ProviderCache, "refresh", record_refresh):
            yield seen
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record_call)


def count_table_rows(database, table):
    with database.read() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))
