# SPDX-License-Identifier: Apache-2.0
"""SQL helpers for dialects, many values, frequent statements and pages.

For a frequent statement that returns a few rows, SQLAlchemy's result takes more time than the
driver's call, and PostgreSQL's planning takes more time than the execution (doc/decisions/0008).
Frequent statements are therefore sent directly to the driver, and PostgreSQL prepares them. This
requires that the connection has its own session: a pooler may give each statement another session.
SQLAlchemy executes all other statements, and repeats a failed statement to raise its own exception.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, TextClause
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.types import TypeEngine, UserDefinedType

from placement_sched.errors import Invalid
from placement_sched.model.grouping import split_batches

T = TypeVar("T")
V = TypeVar("V", int, str)

#: A condition of a statement.
Condition = ColumnElement[bool]
#: Maximum number of rows for a list of parameters. A JSON document is faster for more rows.
_MAX_ROWS_WITHOUT_JSON = 10

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables

#: The time of the database in UTC, plus a number of seconds.
_TIMES = {
    "postgresql": "timezone('UTC', clock_timestamp()) + make_interval(secs => {})",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '{} seconds')",
    "mysql": "UTC_TIMESTAMP(6) + INTERVAL {} SECOND",
}
_JSON_ARRAY = {"postgresql": "json_build_array", "sqlite": "json_array"}

Rows = Sequence[Mapping[str, Any]]
_UPSERTS: dict[str, Callable[[Table], postgresql.Insert | sqlite.Insert]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}

#: Sort keys, and whether each is descending. The last key must be unique.
Order = Sequence[tuple[ColumnElement[Any], bool]]
_ECHO = logging.getLogger("sqlalchemy.engine")
#: Events about a statement. SQLAlchemy executes every statement if they have a listener.
_EVENTS = ("before_execute", "before_cursor_execute", "after_cursor_execute", "after_execute")
#: SQLAlchemy's marker for a list of values, whose length is known only at execution.
_LIST_MARKER = "POSTCOMPILE"


def is_certification_based(connection: Connection) -> bool:
    """Return whether other servers may write to locked rows.

    True on MariaDB and MySQL, which may be nodes of a Galera cluster or of group replication. Of
    two transactions that changed the same row on two nodes, only the first is committed. A lock
    must therefore change a row (doc/decisions/0013).
    """
    return connection.dialect.name in {"mysql", "mariadb"}


def has_skip_locked(connection: Connection) -> bool:
    """Return whether the server has SKIP LOCKED (MariaDB 10.6, MySQL 8.0.1)."""
    dialect = connection.dialect
    if dialect.name not in {"mysql", "mariadb"}:
        return True
    is_mariadb: bool = getattr(dialect, "is_mariadb", False)
    oldest: tuple[int, ...] = (10, 6) if is_mariadb else (8, 0, 1)
    return tuple(dialect.server_version_info or ()) >= oldest


def build_time(connection: Connection, seconds: float = 0) -> str:
    """Build SQL for the database's time in UTC, plus some seconds."""
    return _TIMES.get(connection.dialect.name, _TIMES["mysql"]).format(seconds)


def build_in_condition(
    connection: Connection, column: ColumnElement[V], values: Collection[V]
) -> ColumnElement[bool]:
    """Build the condition that ``column`` is in ``values``.

    PostgreSQL gets a single array: sending and planning a thousand parameters costs more than
    finding the rows, and each number of parameters would be another statement to prepare.
    """
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.literal(format_array(values), ArrayText(column.type)))
    return column.in_(values)


def select_in_batches(
    connection: Connection, query: Select[Any], column: ColumnElement[V], values: Iterable[V]
) -> Iterator[Any]:
    """Yield the rows of ``query`` whose ``column`` is in ``values``."""
    for batch in split_batches(values):
        # Fetching row by row would take half as long again.
        yield from connection.execute(
            query.where(build_in_condition(connection, column, batch))
        ).all()


def select_scalars_in_batches(
    connection: Connection, query: Select[Any], column: ColumnElement[V], values: Iterable[V]
) -> Iterator[Any]:
    """Yield the first value of each row of :func:`select_in_batches`."""
    return (row[0] for row in select_in_batches(connection, query, column, values))


def change_in_batches(
    connection: Connection,
    change: sa.Update | sa.Delete,
    column: ColumnElement[V],
    values: Iterable[V],
) -> int:
    """Change the rows whose ``column`` is in ``values``, and count them."""
    return sum(
        connection.execute(change.where(build_in_condition(connection, column, batch))).rowcount
        for batch in split_batches(values)
    )


def map_ids(
    connection: Connection, column: sa.Column[Any], values: Iterable[str]
) -> dict[str, int]:
    """Map the ``values`` that ``column`` contains to the ids of their rows."""
    query = sa.select(column, column.table.c.id)
    return dict(map(tuple, select_in_batches(connection, query, column, values)))


def drop_none(**values: T | None) -> dict[str, T]:
    """Return the arguments that are not None, for ``filter_by``."""
    return {name: value for name, value in values.items() if value is not None}


def build_json_row(
    connection: Connection, columns: Iterable[ColumnElement[Any]]
) -> ColumnElement[str]:
    """Build the SQL expression for the values of columns as a JSON array.

    This is faster for tens of thousands of rows: a driver written in Python needs more time for a
    single value than for the text of a row. Times are ISO 8601 texts. Some databases return
    booleans as 0 and 1.
    """
    array = getattr(sa.func, _JSON_ARRAY.get(connection.dialect.name, "json_array"))
    return sa.cast(array(*columns), sa.Text) if is_postgresql(connection) else array(*columns)


def build_json_rows(
    connection: Connection, columns: Iterable[ColumnElement[Any]]
) -> ColumnElement[str]:
    """Build the SQL expression for the rows of a group as JSON.

    The group may have about a thousand rows of limited length. MariaDB returns NULL for a text
    longer than its max_allowed_packet.
    """
    rows: ColumnElement[str] = sa.func.aggregate_strings(build_json_row(connection, columns), ",")
    return rows


def parse_json_rows(texts: Iterable[str]) -> Iterator[list[Any]]:
    """Yield the values of rows, or raise ValueError for a truncated text."""
    for text in texts:
        yield from orjson.loads(f"[{text}]")


def is_postgresql(connection: Connection) -> bool:
    """Return whether the database is PostgreSQL."""
    return connection.dialect.name == "postgresql"


def compute_digest(connection: Connection, column: ColumnElement[str]) -> ColumnElement[str]:
    """Build a key of a long text: its SHA-256 in hex, on SQLite the text."""
    if is_postgresql(connection):
        return sa.func.encode(sa.func.sha256(sa.func.convert_to(column, "UTF8")), "hex")
    if connection.dialect.name == "sqlite":
        return column
    return sa.func.sha2(sa.cast(column, mysql.CHAR(charset="utf8mb4")), 256)


def build_count(query: sa.Select[Any]) -> ColumnElement[int]:
    """Build the number of rows of a query, as a column of another query."""
    return sa.select(sa.func.count()).select_from(query.subquery()).scalar_subquery()


class ArrayText(UserDefinedType[str]):
    """Parameter with a PostgreSQL array as text, which psycopg sends faster."""

    cache_ok = True
    # Without the type PostgreSQL would parse the text for each row.
    render_bind_cast = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        self.item = item

    def get_col_spec(self, **_: object) -> str:
        """Return the type's name, without a length that would truncate values."""
        item = sa.String() if isinstance(self.item, sa.String) else self.item
        return f"{item.compile(_DIALECT)}[]"


def format_array(values: Collection[int] | Collection[str]) -> str:
    """Format numbers or strings as the text of a PostgreSQL array."""
    if isinstance(next(iter(values), None), str):
        strings = [str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values]
        return '{"' + '","'.join(strings) + '"}'
    return "{" + ",".join(map(str, values)) + "}"


@contextmanager
def translate_rejection(error: Exception) -> Iterator[None]:
    """Raise ``error`` if a constraint of the database rejects a write."""
    try:
        yield
    except IntegrityError:
        raise error from None


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert ``rows``, or do nothing without rows."""
    if rows:
        connection.execute(sa.insert(table), rows)


def insert_by(connection: Connection, statement: sa.Insert, rows: Rows) -> sa.CursorResult[Any]:
    """Insert by a cached statement, on PostgreSQL as JSON, which is faster."""
    if len(rows) <= _MAX_ROWS_WITHOUT_JSON or not is_postgresql(connection):
        return connection.execute(statement, rows)
    statement = _from_document(statement, tuple(rows[0]))
    return connection.execute(statement, {"document": orjson.dumps(rows).decode()})


@cache
def _from_document(statement: sa.Insert, names: tuple[str, ...]) -> sa.Insert:
    table = cast("Table", statement.table)
    types = ((name, table.c[name].type) for name in names)
    columns = [  # without the lengths of texts
        sa.column(name, sa.Text() if isinstance(kind, sa.String) else kind) for name, kind in types
    ]
    document = sa.cast(sa.bindparam("document", type_=sa.Text), postgresql.JSONB)
    rows = (
        sa.func.jsonb_to_recordset(document).table_valued(*columns).render_derived(with_types=True)
    )
    return statement.from_select(names, sa.select(*(rows.c[name] for name in names)))


def insert_missing(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert ``rows``, except rows that violate a unique constraint."""
    if rows:
        connection.execute(_insert_missing(connection.dialect.name, table), rows)


# Statements are cached, since building a statement takes longer than sending it.
@cache
def _insert_missing(dialect: str, table: Table) -> sa.Insert:
    if dialect in _UPSERTS:
        return _UPSERTS[dialect](table).on_conflict_do_nothing()
    # IGNORE would hide other errors, unlike an update without changes.
    key = next(iter(table.primary_key.columns))
    return mysql.insert(table).on_duplicate_key_update({key.name: key})


def try_insert(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row, and return False if a constraint rejects it."""
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(table), row)
    except IntegrityError:
        return False
    return True


def can_insert_new(connection: Connection) -> bool:
    """Return whether :func:`insert_new` works: not on MariaDB and MySQL."""
    return connection.dialect.name in _UPSERTS


def insert_new(
    connection: Connection, table: Table, rows: Rows, columns: Sequence[str]
) -> Sequence[Row[Any]]:
    """Insert like :func:`insert_missing`, and return columns of new rows."""
    if not rows:
        return ()
    statement = _insert_new(connection.dialect.name, table, tuple(columns))
    return insert_by(connection, statement, rows).all()


@cache
def _insert_new(dialect: str, table: Table, columns: tuple[str, ...]) -> ReturningInsert[Any]:
    return _insert_missing(dialect, table).returning(*(table.c[name] for name in columns))


def insert_or_update(
    connection: Connection, table: Table, rows: Rows, *, key: Sequence[str], changing: Sequence[str]
) -> None:
    """Insert ``rows``, or update ``changing`` columns if ``key`` exists."""
    if rows:
        dialect = connection.dialect.name
        connection.execute(_insert_or_update(dialect, table, tuple(key), tuple(changing)), rows)


@cache
def _insert_or_update(
    dialect: str, table: Table, key: tuple[str, ...], changing: tuple[str, ...]
) -> sa.Insert:
    if dialect in _UPSERTS:
        upsert = _UPSERTS[dialect](table)
        values = {name: upsert.excluded[name] for name in changing}
        return upsert.on_conflict_do_update(index_elements=key, set_=values)
    on_mysql = mysql.insert(table)
    return on_mysql.on_duplicate_key_update({name: on_mysql.inserted[name] for name in changing})


def select_page(
    connection: Connection,
    query: Select[Any],
    order: Order,
    *,
    limit: int | None,
    marked: ColumnElement[bool] | None,
    missing: str,
) -> Select[Any]:
    """Sort and limit ``query``, and start it after the ``marked`` row.

    ``marked`` is the condition for the last row of the previous page, which a separate statement
    reads. Raises :class:`Invalid`, with the message ``missing``, if there is no such row.
    """
    columns = (key.desc() if is_descending else key.asc() for key, is_descending in order)
    query = query.order_by(*columns).limit(limit)
    if marked is None:
        return query
    keys = (key.label(f"key{number}") for number, (key, _) in enumerate(order))
    marker = connection.execute(sa.select(*keys).where(marked)).first()
    if marker is None:
        raise Invalid(missing)
    later: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (key, is_descending), value in zip(order, marker, strict=True):
        later.append(sa.and_(*equal, key < value if is_descending else key > value))
        equal.append(key == value)
    return query.where(sa.or_(*later))


def select_page_after(
    query: Select[Any],
    key: ColumnElement[Any],
    after: Any,
    *,
    limit: int | None,
    is_descending: bool = False,
) -> Select[Any]:
    """Sort by a unique key, limit, and start after a value or a subquery."""
    query = query.order_by(key.desc() if is_descending else key.asc()).limit(limit)
    if after is None:
        return query
    return query.where(key < after if is_descending else key > after)


def build_portable_order(connection: Connection, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Build a sort key, by bytes and NULL first, that is equal everywhere."""
    if isinstance(column.type, sa.DateTime):
        return sa.func.coalesce(column, _EPOCH)
    text = sa.func.coalesce(column, "")
    if connection.dialect.name == "postgresql":
        return sa.collate(text, "C")
    return text if connection.dialect.name == "sqlite" else sa.func.hex(text)


class FrequentStatement:
    """A frequent statement, whose parameters are single texts and numbers."""

    def __init__(self, statement: Select[Any] | TextClause) -> None:
        self.statement: Any = statement
        self._compiled: tuple[str, Mapping[str, Any]] | None = None

    def fetch_rows(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return rows (values by position), or raise SQLAlchemy's exceptions."""
        if (options := _get_driver_options(connection)) is not None:
            if self._compiled is None:
                compiled = self.statement.compile(dialect=connection.dialect)
                self._compiled = str(compiled), compiled.params
            text, constants = self._compiled
            if _LIST_MARKER not in text:
                # SQLAlchemy sends a failed statement again and raises its own exception.
                with suppress(connection.dialect.loaded_dbapi.Error):
                    return _send(connection, text, {**constants, **parameters}, options)
        return connection.execute(self.statement, parameters).all()


def _get_driver_options(connection: Connection) -> Mapping[str, bool] | None:
    """Return options for the driver, or None if SQLAlchemy must execute."""
    driver: Any = connection.connection.driver_connection
    listeners = connection.dispatch
    if any(getattr(listeners, name) for name in _EVENTS) or _ECHO.isEnabledFor(logging.INFO):
        return None
    match connection.dialect.name:
        case "postgresql":
            can_prepare = getattr(driver, "has_own_session", False) and driver.is_idle
            return {"prepare": True} if can_prepare else None
        case "mysql" | "mariadb" if driver.get_autocommit():
            return {}
    return None


def _send(
    connection: Connection, text: str, parameters: Mapping[str, Any], options: Mapping[str, bool]
) -> Sequence[tuple[Any, ...]]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        cursor.execute(text, parameters, **options)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    for count in connection.dialect.dispatch.do_execute:
        count(None, text, parameters, None)
    return rows
