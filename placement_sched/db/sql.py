"""SQL that each database needs worded differently, statements about many values, and pages."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Select, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.types import TypeEngine, UserDefinedType

from placement_sched.errors import Invalid

T = TypeVar("T")
V = TypeVar("V", int, str)

#: A condition of a statement.
Condition = ColumnElement[bool]
#: SQLite takes 32766 parameters in a statement, PostgreSQL 65535; a statement may have a few more.
SIZE = 30_000
#: So many rows are inserted faster one by one than as one document.
_FEW = 10
#: Rows of a whole cloud that are made objects, or shown, at once: small objects by the ten thousand
#: would spread over the heap what a process keeps for long, and leave it larger each time.
AT_ONCE = 1000

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_MASTER = sa.table("sqlite_master", sa.column("type"), sa.column("name"), sa.column("sql"))
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - as the tables keep it


def certifies(connection: Connection) -> bool:
    """Return whether other servers may write to the same tables, which learn of no lock.

    The nodes of a Galera cluster, or of MySQL's group replication, let only one of two transactions
    be committed that changed the same row. There a lock must change a row (doc/decisions/0022).
    """
    return connection.dialect.name in {"mysql", "mariadb"}


def has_skip_locked(connection: Connection) -> bool:
    """Return whether the server knows SKIP LOCKED: MariaDB since 10.6, MySQL since 8.0.1."""
    dialect = connection.dialect
    if dialect.name not in {"mysql", "mariadb"}:
        return True
    is_mariadb: bool = getattr(dialect, "is_mariadb", False)
    oldest: tuple[int, ...] = (10, 6) if is_mariadb else (8, 0, 1)
    return tuple(dialect.server_version_info or ()) >= oldest


def batches(values: Iterable[T], size: int = SIZE) -> Iterator[tuple[T, ...]]:
    """Yield ``values`` in order in tuples of at most ``size``; nothing for no values."""
    rest = iter(values)
    while batch := tuple(islice(rest, size)):
        yield batch


def among(
    connection: Connection, column: ColumnElement[V], values: Collection[V]
) -> ColumnElement[bool]:
    """Return whether ``column`` is one of ``values``.

    On PostgreSQL they go as one array: a thousand parameters cost more to send and to plan than
    the rows cost to find, and each number of them would be a statement of its own to prepare.
    """
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.literal(array_text(values), ArrayText(column.type)))
    return column.in_(values)


def rows_among(
    connection: Connection, query: Select[Any], column: ColumnElement[V], values: Iterable[V]
) -> Iterator[Any]:
    """Yield the rows of ``query`` whose ``column`` is one of ``values``, however many they are."""
    for batch in batches(values):
        # Fetched at once: one by one takes half as long again.
        yield from connection.execute(query.where(among(connection, column, batch))).all()


def change_among(
    connection: Connection,
    change: sa.Update | sa.Delete,
    column: ColumnElement[V],
    values: Iterable[V],
) -> int:
    """Change or delete the rows whose ``column`` is one of ``values``; return how many."""
    return sum(
        connection.execute(change.where(among(connection, column, batch))).rowcount
        for batch in batches(values)
    )


def ids_by(connection: Connection, column: sa.Column[Any], values: Iterable[str]) -> dict[str, int]:
    """Return the ids of the rows whose ``column`` is one of ``values``, by that value."""
    query = sa.select(column, column.table.c.id)
    return dict(map(tuple, rows_among(connection, query, column, values)))


def given(**values: T | None) -> dict[str, T]:
    """Return those of the values that are not None: for ``filter_by``, which they then narrow."""
    return {name: value for name, value in values.items() if value is not None}


_JSON_ARRAY = {"postgresql": "json_build_array", "sqlite": "json_array"}


def json_row(connection: Connection, columns: Iterable[ColumnElement[Any]]) -> ColumnElement[str]:
    """Return the values of columns as the text of a JSON array.

    For tens of thousands of rows: a driver written in Python takes longer for each value than to
    read a whole row's text. Times come as texts of ISO 8601, booleans as 0 and 1 from some.
    """
    array = getattr(sa.func, _JSON_ARRAY.get(connection.dialect.name, "json_array"))
    return sa.cast(array(*columns), sa.Text) if is_postgresql(connection) else array(*columns)


def json_rows(connection: Connection, columns: Iterable[ColumnElement[Any]]) -> ColumnElement[str]:
    """Return the values of columns of all rows, or all of a group, for :func:`values_of`.

    A driver written in Python takes longer for a row than to read its text. For about a thousand
    rows of bounded length: of more than its max_allowed_packet MariaDB makes null.
    """
    together: ColumnElement[str] = sa.func.aggregate_strings(json_row(connection, columns), ",")
    return together


def values_of(texts: Iterable[str]) -> Iterator[list[Any]]:
    """Yield row by row the values that :func:`json_rows` joined together.

    Raises :class:`ValueError` where the database cut them.
    """
    for text in texts:
        yield from orjson.loads(f"[{text}]")


def is_postgresql(connection: Connection) -> bool:
    """Return whether the database is PostgreSQL."""
    return connection.dialect.name == "postgresql"


def digest(connection: Connection, column: ColumnElement[str]) -> ColumnElement[str]:
    """Return the SHA-256 of long texts in hex, by which they are compared; on SQLite the text."""
    if is_postgresql(connection):
        return sa.func.encode(sa.func.sha256(sa.func.convert_to(column, "UTF8")), "hex")
    if connection.dialect.name == "sqlite":
        return column
    return sa.func.sha2(sa.cast(column, mysql.CHAR(charset="utf8mb4")), 256)


def grouped(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    """Return the second values of rows in their order, by the first."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def nested(rows: Iterable[Any]) -> dict[Any, dict[Any, Any]]:
    """Return the third values of rows, by the first, then by the second."""
    found: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for outer, inner, value in rows:
        found[outer][inner] = value
    return found


class ArrayText(UserDefinedType[str]):
    """The type of a parameter that is the text of a PostgreSQL array.

    From a list psycopg would make the array value by value.
    """

    cache_ok = True
    # Without its type PostgreSQL would read the text again for each row.
    render_bind_cast = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        """Make the type of an array of such items."""
        self.item = item

    def get_col_spec(self, **_: object) -> str:
        """Return PostgreSQL's name of the type; one with a length would cut what is asked."""
        item = sa.String() if isinstance(self.item, sa.String) else self.item
        return f"{item.compile(_DIALECT)}[]"


def array_text(values: Collection[int] | Collection[str]) -> str:
    """Return the text of a PostgreSQL array of numbers, or of strings."""
    if isinstance(next(iter(values), None), str):
        strings = [str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values]
        return '{"' + '","'.join(strings) + '"}'
    return "{" + ",".join(map(str, values)) + "}"


def uses_ids_again(connection: Connection, of: Table) -> ColumnElement[bool]:
    """Return an expression for whether a new row of a table may get the id of a deleted one.

    Only SQLite does so, unless the table was made with AUTOINCREMENT; OpenStack placement's was
    not.
    """
    if connection.dialect.name != "sqlite":
        return sa.false()
    made = sa.exists().where(_MASTER.c.type == "table", _MASTER.c.name == of.name)
    return sa.not_(made.where(_MASTER.c.sql.like("%AUTOINCREMENT%")))


# Building a statement takes longer than sending it, and there are few inserts: each is kept.
Rows = Sequence[Mapping[str, Any]]
_UPSERTS: dict[str, Callable[[Table], postgresql.Insert | sqlite.Insert]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


@contextmanager
def refused_as(error: Exception) -> Iterator[None]:
    """Raise ``error`` where the database refuses what is written for a constraint."""
    try:
        yield
    except IntegrityError:
        raise error from None


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert ``rows``, if there are any."""
    if rows:
        connection.execute(sa.insert(table), rows)


def insert_by(connection: Connection, statement: sa.Insert, rows: Rows) -> sa.CursorResult[Any]:
    """Insert ``rows`` by a statement that is kept; many go to PostgreSQL as one JSON document.

    Its driver sends a list of rows one by one, or as a text with thousands of parameters. They
    have texts, whole numbers and times.
    """
    if len(rows) <= _FEW or not is_postgresql(connection):
        return connection.execute(statement, rows)
    statement = _from_document(statement, tuple(rows[0]))
    return connection.execute(statement, {"document": orjson.dumps(rows).decode()})


def insert_many(
    connection: Connection, table: Table, rows: Rows, *, changing: Sequence[str] = ()
) -> None:
    """Insert ``rows``, some thousands at most; update ``changing`` where their uuid is taken.

    Without ``changing``, what is there stays. No two rows have the same uuid.
    """
    if not rows:
        return
    dialect = connection.dialect.name
    if changing:
        insert_by(connection, _insert_or_update(dialect, table, ("uuid",), tuple(changing)), rows)
    else:
        insert_by(connection, _insert_missing(dialect, table), rows)


@cache
def _from_document(statement: sa.Insert, names: tuple[str, ...]) -> sa.Insert:
    table = cast("Table", statement.table)
    columns = [sa.column(name, _plain_type(table.c[name])) for name in names]
    document = sa.cast(sa.bindparam("document", type_=sa.Text), postgresql.JSONB)
    rows = (
        sa.func.jsonb_to_recordset(document).table_valued(*columns).render_derived(with_types=True)
    )
    return statement.from_select(names, sa.select(*(rows.c[name] for name in names)))


def _plain_type(column: sa.Column[Any]) -> TypeEngine[Any]:
    return sa.Text() if isinstance(column.type, sa.String) else column.type


def insert_missing(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert ``rows``, leaving those that are already there (by any unique constraint) alone."""
    if rows:
        connection.execute(_insert_missing(connection.dialect.name, table), rows)


@cache
def _insert_missing(dialect: str, table: Table) -> sa.Insert:
    if dialect in _UPSERTS:
        return _UPSERTS[dialect](table).on_conflict_do_nothing()
    # IGNORE would swallow other faults as well; an update that changes nothing does not.
    key = next(iter(table.primary_key.columns))
    return mysql.insert(table).on_duplicate_key_update({key.name: key})


def inserted(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; return whether it is new, rather than inserted by another writer meanwhile.

    A row that breaks a constraint of another kind is not inserted either.
    """
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(table), row)
    except IntegrityError:
        return False
    return True


def can_insert_new(connection: Connection) -> bool:
    """Return whether :func:`insert_new` works here: MySQL does not say which rows it inserted."""
    return connection.dialect.name in _UPSERTS


def insert_new(
    connection: Connection, table: Table, rows: Rows, columns: Sequence[str]
) -> Sequence[Row[Any]]:
    """Insert ``rows`` as :func:`insert_missing` does; return these columns of the new ones."""
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
    """Insert ``rows``; where the unique ``key`` columns are taken, update the ``changing`` ones."""
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


#: The keys of a list, and whether each descends. The last one must be unique.
Order = Sequence[tuple[ColumnElement[Any], bool]]


def page(
    connection: Connection,
    query: Select[Any],
    order: Order,
    *,
    limit: int | None,
    marked: ColumnElement[bool] | None,
    missing: str,
) -> Select[Any]:
    """Return ``query`` in an order, with at most ``limit`` rows, after the row that is ``marked``.

    The marked row is looked up by a statement of its own. Raises :class:`Invalid`, with the text
    ``missing``, where there is none.
    """
    at: Sequence[Any] | None = None
    if marked is not None:
        keys = (key.label(f"key{number}") for number, (key, _) in enumerate(order))
        at = connection.execute(sa.select(*keys).where(marked)).first()
        if at is None:
            raise Invalid(missing)
    return page_after(query, order, at, limit=limit)


def page_after(
    query: Select[Any], order: Order, keys: Sequence[Any] | None, *, limit: int | None
) -> Select[Any]:
    """Return ``query`` in an order, with at most ``limit`` rows, after the row with these keys.

    A key may be a subquery: after the row of which it is, and after no row there is nothing.
    """
    query = query.order_by(*(key.desc() if down else key.asc() for key, down in order))
    return query.where(_comes_after(order, keys)).limit(limit) if keys else query.limit(limit)


def _comes_after(order: Order, values: Iterable[Any]) -> ColumnElement[bool]:
    """Return whether a row comes later in an order than one whose keys have these values."""
    later: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (key, down), value in zip(order, values, strict=True):
        later.append(sa.and_(*equal, key < value if down else key > value))
        equal.append(key == value)
    return sa.or_(*later)


def same_order_everywhere(connection: Connection, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a key that orders a text or time alike on every database.

    Texts are ordered by their bytes, and null comes before everything.
    """
    if isinstance(column.type, sa.DateTime):
        return sa.func.coalesce(column, _EPOCH)
    text = sa.func.coalesce(column, "")
    if connection.dialect.name == "postgresql":
        return sa.collate(text, "C")
    return text if connection.dialect.name == "sqlite" else sa.func.hex(text)
