"""Statements that are asked so often that SQLAlchemy's own share of each is worth sparing.

For each execution SQLAlchemy looks up the compiled form by all parts of the statement and makes a
context, a result and rows: about as long as psycopg takes to send the statement and to read a few
rows. The statements of :class:`Prepared` go to the driver as SQLAlchemy had them go the first time
(doc/decisions/0014).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, TextClause

from placement_sched.db import postgresql_rows


class _Sent(NamedTuple):
    """A statement as a driver gets it, with the parameters that are the same each time."""

    text: str
    constants: Mapping[str, Any]
    #: What makes values of the driver's, by position; None where all are taken as they are.
    makers: Sequence[Callable[[Any], Any] | None] | None


class Prepared:
    """A statement whose parameters are single values, as are the columns of its rows."""

    def __init__(self, statement: Select[Any] | TextClause) -> None:
        self.statement: Any = statement
        self._sent: dict[str, _Sent | None] = {}

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return all rows, whose values are to be taken by their positions.

        Counted, and raises, as what SQLAlchemy executes; where an engine has listeners or its
        statements are logged, it is SQLAlchemy that executes this one, too.
        """
        if _is_watched(connection):
            return connection.execute(self.statement, parameters).all()
        kind = connection.dialect.name
        sent = self._sent.get(kind)
        if sent is None:
            result = connection.execute(self.statement, parameters)
            if kind not in self._sent:
                self._sent[kind] = _as_sent(result)
            return result.all()
        rows = _fetched(connection, sent, {**sent.constants, **parameters})
        return rows if sent.makers is None else _made(rows, sent.makers)


def _is_watched(connection: Connection) -> bool:
    """Return whether others want to see the statements of a connection."""
    watched: Any = connection
    return bool(watched._has_events or watched.engine._has_events or watched._echo)  # noqa: SLF001 - no other way to know


def _as_sent(result: Any) -> _Sent | None:
    """Return what was sent, or None where SQLAlchemy words it, or its parameters, each time."""
    context: Any = result.context
    compiled = context.compiled
    differs = compiled.positional or compiled.string != context.statement
    if differs or compiled._bind_processors:  # noqa: SLF001 - as above
        return None
    makers = result._metadata._processors  # noqa: SLF001 - as above
    return _Sent(context.statement, compiled.params, makers if any(makers) else None)


def _made(
    rows: Sequence[Any], makers: Sequence[Callable[[Any], Any] | None]
) -> Sequence[tuple[Any, ...]]:
    return [
        tuple(
            value if make is None else make(value) for value, make in zip(row, makers, strict=True)
        )
        for row in rows
    ]


def _fetched(connection: Connection, sent: _Sent, parameters: Mapping[str, Any]) -> Sequence[Any]:
    dialect: Any = connection.dialect
    pooled: Any = connection.connection
    cursor: Any = None
    rows: Sequence[Any] | None = None
    try:
        if dialect.name == "postgresql":
            rows = postgresql_rows.rows(pooled, sent.text, parameters)
        if rows is not None:
            for listener in dialect.dispatch.do_execute:
                listener(None, sent.text, parameters, None)
            return rows
        cursor = pooled.cursor()
        return _by_cursor(dialect, pooled, cursor, sent.text, parameters)
    except BaseException as failure:  # noqa: BLE001 - all goes up
        # SQLAlchemy wraps it where it is the driver's, and closes a connection that is of no use.
        said = sent.text if isinstance(failure, dialect.loaded_dbapi.Error) else None
        connection._handle_dbapi_exception(failure, said, parameters, cursor, None)  # noqa: SLF001 - its own way
    raise AssertionError("SQLAlchemy raises what it is given")


def _by_cursor(
    dialect: Any, pooled: Any, cursor: Any, text: str, parameters: Mapping[str, Any]
) -> Sequence[Any]:
    if getattr(dialect, "is_mariadb", False):
        text = pooled.driver_connection.execution_of(text)
    for listener in dialect.dispatch.do_execute:
        if listener(cursor, text, parameters, None):
            break
    else:
        cursor.execute(text, parameters)
    rows: Sequence[Any] = cursor.fetchall()
    cursor.close()
    return rows
