"""Inserts that several writers may make at once."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Row, Table, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningInsert

# Building a statement takes longer than sending it, and there are few: each is kept.


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows``, leaving those that are already there (by any unique constraint) alone."""
    if rows:
        statement = _insert_missing(connection.dialect.name, table)
        connection.execute(statement, [dict(row) for row in rows])


@cache
def _insert_missing(dialect: str, table: Table) -> Insert:
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    # IGNORE would swallow other faults as well; an update that changes nothing does not.
    key = next(iter(table.primary_key.columns))
    return mysql.insert(table).on_duplicate_key_update({key.name: key})


def inserted(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; return whether it is new, rather than there by another's hand.

    A row that breaks a constraint of another kind is not inserted either.
    """
    try:
        with connection.begin_nested():
            connection.execute(insert(table), dict(row))
    except IntegrityError:
        return False
    return True


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
    statement = _insert_new(connection.dialect.name, table, tuple(told))
    return connection.execute(statement, [dict(row) for row in rows]).all()


@cache
def _insert_new(dialect: str, table: Table, told: tuple[str, ...]) -> ReturningInsert[Any]:
    dialects = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = dialects(table).on_conflict_do_nothing()
    return statement.returning(*(table.c[name] for name in told))


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
    statement = _insert_or_update(connection.dialect.name, table, tuple(key), tuple(changing))
    connection.execute(statement, [dict(row) for row in rows])


@cache
def _insert_or_update(
    dialect: str, table: Table, key: tuple[str, ...], changing: tuple[str, ...]
) -> Insert:
    if dialect == "postgresql":
        on_postgresql = postgresql.insert(table)
        return on_postgresql.on_conflict_do_update(
            index_elements=key, set_={name: on_postgresql.excluded[name] for name in changing}
        )
    if dialect == "sqlite":
        on_sqlite = sqlite.insert(table)
        return on_sqlite.on_conflict_do_update(
            index_elements=key, set_={name: on_sqlite.excluded[name] for name in changing}
        )
    on_mysql = mysql.insert(table)
    return on_mysql.on_duplicate_key_update({name: on_mysql.inserted[name] for name in changing})
