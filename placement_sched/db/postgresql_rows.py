"""Rows of frequent statements on PostgreSQL, by libpq's own prepared statements.

psycopg's cursor looks up each time whether a statement is prepared, waits for the answer by a loop
in Python, and finds out what its columns are like: for a few rows that is two thirds of the time.
Here a connection prepares a statement once, and waits for libpq's socket (doc/decisions/0014). The
values are those that psycopg would give, by its own loaders.
"""

import re
import select
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from time import monotonic
from typing import Any, NamedTuple, NoReturn

from psycopg import Connection, errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus

#: Where a connection's ``info`` has what it has prepared.
_PREPARED = "placement_sched.prepared"
#: psycopg sends DEALLOCATE ALL after a rollback or a change of a table, whatever was prepared.
_NOT_PREPARED = b"26000"  # invalid_sql_statement_name
_NUMBERS = count()
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


class PatientConnection(Connection[Any]):
    """psycopg's connection, which waits for an answer for so long and no longer."""

    #: Seconds of silence after which the connection is given up; None for as long as it takes.
    answers_within: float | None = None

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
        """Wait as psycopg does, which looks ten times a second whether it is to go on."""
        return super().wait(self._in_time(gen), *given, **named)

    def _in_time(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        ready, heard = None, monotonic()
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                return end.value
            ready = yield wanted
            if ready:
                heard = monotonic()
            elif self.answers_within is not None and monotonic() - heard > self.answers_within:
                self._give_up()

    def answer(self) -> Any:
        """Wait for the answer to what was sent by libpq, and return its last result."""
        libpq, result = self.pgconn, None
        waiting = select.poll()
        waiting.register(libpq.socket, select.POLLIN | select.POLLOUT)
        while libpq.flush():
            self._hear(waiting)
        waiting.modify(libpq.socket, select.POLLIN)
        while True:
            while libpq.is_busy():
                self._hear(waiting)
            if (another := libpq.get_result()) is None:
                return result
            result = another

    def _hear(self, waiting: select.poll) -> None:
        within = self.answers_within
        if not waiting.poll(None if within is None else 1000 * within):
            self._give_up()
        self.pgconn.consume_input()

    def _give_up(self) -> NoReturn:
        self.close()
        said = f"the database has said nothing for {self.answers_within:g} seconds"
        raise errors.OperationalError(said) from TimeoutError()


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
    connection: PatientConnection = pooled.driver_connection
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
        libpq.send_query_prepared(name, values)
        result = connection.answer()
        if result.error_field(DiagnosticField.SQLSTATE) == _NOT_PREPARED:
            known.names.clear()
            result = None
    if result is None:
        name = known.names[text] = b"placement_sched_%d" % next(_NUMBERS)
        libpq.send_prepare(name, form.sent)
        _check(libpq, connection.answer(), ExecStatus.COMMAND_OK)
        libpq.send_query_prepared(name, values)
        result = connection.answer()
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
