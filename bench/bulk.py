# SPDX-License-Identifier: Apache-2.0
"""The quickest way into each database: COPY on PostgreSQL, many-row inserts elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Table

from placement_sched.db.transaction import Database

_RELAXED = {
    "postgresql": ("SET LOCAL synchronous_commit = off",),
    "mysql": ("SET SESSION unique_checks = 0, foreign_key_checks = 0",),
    "sqlite": (),
}


@contextmanager
def filling(database: Database) -> Iterator[Connection]:
    """Give a connection in one transaction, with the checks off that a trusted load can spare."""
    with database.writer.connect() as connection, connection.begin():
        for statement in _RELAXED[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        yield connection
        # The session goes with its relaxed checks, not back into the pool.
        connection.detach()


def write(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert ``rows``, whose values stand in the order of ``columns``."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    target = f"{quote(table.name)} ({', '.join(quote(name) for name in columns)})"
    if connection.dialect.name == "postgresql":
        raw: Any = connection.connection.driver_connection
        with raw.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    marks = ", ".join([mark] * len(columns))
    values = [tuple(_plain(value) for value in row) for row in rows]
    connection.exec_driver_sql(f"INSERT INTO {target} VALUES ({marks})", values)


def _plain(value: object) -> object:
    """Return a time as text, which both databases read as SQLAlchemy writes it."""
    return value if isinstance(value, int | float | str | None) else f"{value}.000000"


def settle(database: Database, tables: Sequence[Table]) -> None:
    """Gather statistics, mark pages visible, and set sequences after the ids written by hand."""
    with database.reader.connect() as connection:
        kind = connection.dialect.name
        # A cloud does not come into being within an hour, which the change log counts.
        empty = "DELETE FROM" if kind == "sqlite" else "TRUNCATE TABLE"
        connection.exec_driver_sql(f"{empty} sched_provider_changes")
        if kind == "sqlite":
            connection.exec_driver_sql("ANALYZE")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        for table in tables:
            if kind == "postgresql":
                connection.exec_driver_sql(f"VACUUM ANALYZE {table.name}")
                if "id" in table.columns:
                    connection.exec_driver_sql(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), "
                        f"coalesce(max(id), 0) + 1, false) FROM {table.name}"
                    )
            elif kind == "mysql":
                connection.exec_driver_sql(f"ANALYZE TABLE {table.name}")
