# SPDX-License-Identifier: Apache-2.0
"""Fills an empty database with a reproducible cloud.

``python bench/load.py URL --world nested --size 10000`` prepares the database as
``placement-sched db sync`` does and fills it. The database must not hold providers.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select
from worlds import ALWAYS_UP, BORN, COLUMNS, WORLDS, Book, Rows, World, common_rows

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.plugins import read_settings

#: The benchmarks use parts of the tests.
sys.path.append(str(Path(__file__).resolve().parents[1]))
#: Maximum number of rows of the large tables that are held before they are sent.
_MAX_ROWS = 30_000
#: Statements that turn off checks which a trusted load does not need.
_RELAXED = {
    "postgresql": ("SET LOCAL synchronous_commit = off",),
    "mysql": ("SET SESSION unique_checks = 0, foreign_key_checks = 0",),
    "sqlite": (),
}


def load(database: Database, world: World) -> None:
    """Prepare an empty database, fill it, and gather its statistics."""
    sync(database, lambda: BORN)
    with _filling(database) as connection:
        traits = dict(connection.execute(select(tables.traits.c.name, tables.traits.c.id)).all())
        common = common_rows(world, max(traits.values()) + 1)
        traits |= {str(name): int(str(key)) for key, name in common[tables.traits]}
        _write_all(connection, common)
        book = Book(traits)
        for _ in world.fill(book):
            if len(book) > _MAX_ROWS:
                _write_all(connection, book.take())
        _write_all(connection, book.take())
    _settle(database)


@contextmanager
def _filling(database: Database) -> Iterator[Connection]:
    with database.writer.connect() as connection, connection.begin():
        for statement in _RELAXED[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        yield connection
        # A session with relaxed checks must not go back into the pool.
        connection.detach()


def _write_all(connection: Connection, rows: Rows) -> None:
    for table, columns in COLUMNS.items():
        if values := rows.get(table):
            stamped = [(BORN, BORN, *row) for row in values]
            _write(connection, table, ("created_at", "updated_at", *columns), stamped)


def _write(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert rows in the fastest way: COPY on PostgreSQL, inserts of many rows on others."""
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


def _settle(database: Database) -> None:
    """Gather statistics, mark pages visible, and set sequences after the written ids."""
    with database.reader.connect() as connection:
        kind = connection.dialect.name
        # In real clouds, the change log does not have all providers of the last hour.
        empty = "DELETE FROM" if kind == "sqlite" else "TRUNCATE TABLE"
        connection.exec_driver_sql(f"{empty} sched_provider_changes")
        if kind == "sqlite":
            connection.exec_driver_sql("ANALYZE")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        for table in COLUMNS:
            if kind == "mysql":
                connection.exec_driver_sql(f"ANALYZE TABLE {table.name}")
            if kind == "postgresql":
                connection.exec_driver_sql(f"VACUUM ANALYZE {table.name}")
                if "id" in table.columns:
                    connection.exec_driver_sql(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), "
                        f"coalesce(max(id), 0) + 1, false) FROM {table.name}"
                    )


def open_database(url: str) -> Database:
    """Return the database at ``url`` as the service opens it."""
    return Database(read_settings().with_overrides({"placement_database.connection": url}))


def fill(url: str, world: World) -> float:
    """Load a cloud into an empty database, and return the seconds."""
    start = time.perf_counter()
    database = open_database(url)
    try:
        load(database, world)
    finally:
        database.dispose()
    return time.perf_counter() - start


def main() -> None:
    """Fill the database of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="SQLAlchemy URL of an empty database")
    parser.add_argument("--world", choices=WORLDS, default="flat")
    parser.add_argument("--size", type=int, default=2000, help="hosts or trees (%(default)s)")
    options = parser.parse_args()
    world = WORLDS[options.world](options.size, seen=ALWAYS_UP)
    print(f"{options.world}, {options.size}: {fill(options.url, world):.1f} s")


if __name__ == "__main__":
    main()
