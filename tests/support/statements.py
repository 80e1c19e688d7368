# SPDX-License-Identifier: Apache-2.0
"""Execution and recording of SQL statements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, text

from placement_sched.db.transaction import Database

#: Statement that begins a transaction on PostgreSQL. Drivers send such a statement on MariaDB, too.
_BEGIN_SQL = "BEGIN ISOLATION LEVEL READ COMMITTED"


def execute_statements(database: Database, *statements: str) -> None:
    """Execute statements in a transaction."""
    database.write(lambda connection: [connection.execute(text(each)) for each in statements])


def run_query(database: Database, query: Callable[..., Any], *arguments: object) -> Any:
    """Call a function of the store with a connection for reads."""
    with database.read() as connection:
        return query(connection, *arguments)


@contextmanager
def record_statements(database: Database) -> Iterator[list[str]]:
    """Yield a list that collects the statements of a database."""
    seen: list[str] = []

    def record_call(_connection, _cursor, statement, *_rest):
        if not statement.startswith(_BEGIN_SQL):
            seen.append(statement)

    engines = (database.reader, database.writer)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record_call)
    try:
        yield seen
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record_call)


def count_table_rows(database, table):
    with database.read() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))
