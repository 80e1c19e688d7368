"""Inserts that several writers may make at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows``, leaving those that are already there (by any unique constraint) alone."""
    if not rows:
        return
    values = [dict(row) for row in rows]
    if connection.dialect.name == "postgresql":
        connection.execute(postgresql.insert(table).on_conflict_do_nothing(), values)
    elif connection.dialect.name == "sqlite":
        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), values)
    else:
        # IGNORE would swallow other faults as well; an update that changes nothing does not.
        key = next(iter(table.primary_key.columns))
        statement = mysql.insert(table)
        connection.execute(statement.on_duplicate_key_update({key.name: key}), values)


def tells_what_is_new(connection: Connection) -> bool:
    """Return whether :func:`insert_new` works here: MySQL does not tell which rows it inserted."""
    return connection.dialect.name in {"postgresql", "sqlite"}


def insert_new(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    told: Sequence[str],
) -> Sequence[Row[Any]]:
    """Insert ``rows`` as :func:`insert_missing` does; return the columns ``told`` of the new."""
    if not rows:
        return ()
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).on_conflict_do_nothing()
    returning = statement.returning(*(table.c[name] for name in told))
    return connection.execute(returning, [dict(row) for row in rows]).all()


def insert_or_update(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    key: Sequence[str],
    changing: Sequence[str],
) -> None:
    """Insert ``rows``; where the unique ``key`` columns are taken, update the ``changing`` ones."""
    if not rows:
        return
    values = [dict(row) for row in rows]
    if connection.dialect.name == "postgresql":
        on_postgresql = postgresql.insert(table)
        connection.execute(
            on_postgresql.on_conflict_do_update(
                index_elements=key, set_={name: on_postgresql.excluded[name] for name in changing}
            ),
            values,
        )
    elif connection.dialect.name == "sqlite":
        on_sqlite = sqlite.insert(table)
        connection.execute(
            on_sqlite.on_conflict_do_update(
                index_elements=key, set_={name: on_sqlite.excluded[name] for name in changing}
            ),
            values,
        )
    else:
        on_mysql = mysql.insert(table)
        connection.execute(
            on_mysql.on_duplicate_key_update({name: on_mysql.inserted[name] for name in changing}),
            values,
        )
