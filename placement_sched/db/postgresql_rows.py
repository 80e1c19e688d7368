"""Rows of frequent statements on PostgreSQL, by libpq's own prepared statements.

psycopg's cursor looks up each time whether a statement is prepared, waits for the answer by a loop
in Python, and finds out what its columns are like: for a few rows that is two thirds of the time.
Here a connection prepares a statement once, and waits in libpq (doc/decisions/0014). The values are
those that psycopg would give, by its own loaders.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from psycopg import Connection, errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus

#: Where a connection's ``info`` has what it has prepared.
_PREPARED = "placement_sched.prepared"
#: psycopg sends DEALLOCATE ALL after a rollback or a change of a table, whatever was prepared.
_NOT_PREPARED = b"26000"  # invalid_sql_statement_name
_NUMBERS = count()
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


class _Text(NamedTuple):
    """A statement as PostgreSQL takes it, and which parameter each of its placeholders is."""

    sent: bytes
    names: tuple[str, ...]


class _OnConnection(NamedTuple):
    """What a connection calls each statement, by its text, and what makes values of columns."""

    names: dict[str, bytes]
    loaders: Any


def rows(pooled: Any, text: str, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return all rows of a statement, or None where psycopg's cursor has to send it.

    That is within transactions, and for parameters other than plain texts and numbers. Raises
    :class:`psycopg.Error` as the cursor would.
    """
    connection: Connection[Any] = pooled.driver_connection
    libpq = connection.pgconn
    # In a transaction the first error is the last word.
    if not connection.autocommit or libpq.transaction_status != TransactionStatus.IDLE:
        return None
    form = _form(text)
    values = [value for name in form.names if (value := _encoded(parameters[name])) is not None]
    if len(values) < len(form.names):
        return None
    known: _OnConnection | None = pooled.info.get(_PREPARED)
    if known is None:
        known = pooled.info[_PREPARED] = _OnConnection({}, Transformer(connection))
    result = None
    if name := known.names.get(text):
        result = libpq.exec_prepared(name, values)
        if result.error_field(DiagnosticField.SQLSTATE) == _NOT_PREPARED:
            known.names.clear()
            result = None
    if result is None:
        name = known.names[text] = b"placement_sched_%d" % next(_NUMBERS)
        _check(libpq, libpq.prepare(name, form.sent), ExecStatus.COMMAND_OK)
        result = libpq.exec_prepared(name, values)
    _check(libpq, result, ExecStatus.TUPLES_OK)
    known.loaders.set_pgresult(result)
    found: Sequence[Any] = known.loaders.load_rows(0, result.ntuples, tuple)
    return found


@lru_cache(maxsize=1000)
def _form(text: str) -> _Text:
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    sent = _PLACEHOLDER.sub(numbered, text).encode()
    return _Text(sent, tuple(names))


def _encoded(value: object) -> bytes | None:
    """Return a parameter as PostgreSQL reads it; None for one that psycopg knows better."""
    if type(value) is str:
        # A text ends for libpq at the first NUL, and what others are depends on the encoding.
        return value.encode() if value.isascii() and "\0" not in value else None
    return b"%d" % value if type(value) is int else None


def _check(libpq: Any, result: Any, expected: ExecStatus) -> None:
    if result.status == expected:
        return
    if libpq.status == ConnStatus.BAD:
        raise errors.OperationalError(libpq.get_error_message())
    raise errors.error_from_result(result)
