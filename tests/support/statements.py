# SPDX-License-Identifier: Apache-2.0
"""Counts the SQL statements that a piece of work takes."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from placement_sched.db.transaction import Database

#: The statement that begins a transaction on PostgreSQL; drivers send one on MariaDB, too.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"


@contextmanager
def record_statements(database: Database) -> Iterator[list[str]]:
    """Give a list that fills with the statements that go to the database."""
    seen: list[str] = []

    def record_call(_connection, _cursor, statement, *_rest):
        if not statement.startswith(_BEGIN):
            seen.append(statement)

    engines = (database.reader, database.writer)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record_call)
    try:
        yield seen
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record_call)
