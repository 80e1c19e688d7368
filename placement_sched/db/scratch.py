# SPDX-License-Identifier: Apache-2.0
"""Scratch transactions: changes for a simulation, which are rolled back at its end.

On PostgreSQL and MariaDB a scratch transaction is never committed. No other connection sees its
writes, and other writers wait only for the rows that it has changed, within its time limit. SQLite
has a single writer at a time, so that the transaction uses a copy of the database in memory, which
blocks no writer (doc/decisions/0011).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine

from placement_sched.db.errors import connect, is_statement_timeout, translate_errors
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable

T = TypeVar("T")

#: Maximum number of attempts if concurrent writers abort the scratch transaction.
_MAX_ATTEMPTS = 3
#: Maximum seconds to wait for a lock, since other writers may wait for this transaction.
LOCK_WAIT = 2
#: SQLite's virtual machine steps between two checks of the deadline.
_STEPS = 10_000
_LATE = (
    "the simulation took longer than [scheduler] what_if_timeout; simplify the request, or raise "
    "the option"
)


class ReadableDatabase(Protocol):
    """The database that a request reads, or a scratch transaction in its place."""

    def check(self) -> None:
        """Check the time limit of a simulation.

        Raises :class:`Unavailable` after the limit.
        """

    def read(self) -> AbstractContextManager[Connection]:
        """Open a connection for reading."""


@dataclass(eq=False, slots=True)
class ScratchTransaction:
    """A transaction that is rolled back, with its deadline on the monotonic clock."""

    connection: Connection
    until: float

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield the connection of the transaction.

        Raises the errors of :meth:`check`.
        """
        self.check()
        yield self.connection

    def check(self) -> None:
        """Check the deadline.

        Raises :class:`Unavailable` after the deadline.
        """
        if monotonic() > self.until:
            raise Unavailable(_LATE)


def run_and_roll_back(
    database: Database, work: Callable[[ScratchTransaction], T], seconds: float
) -> T:
    """Run ``work`` in a scratch transaction, roll it back, and return the result.

    The transaction is retried if concurrent writers abort it. Raises :class:`Unavailable` if it
    takes longer than ``seconds``, and the exceptions of :meth:`Database.read`.
    """

    def once() -> T:
        until = monotonic() + seconds
        try:
            with translate_errors(), _begin(database, seconds, until) as connection:
                return work(ScratchTransaction(connection, until))
        except Unavailable as failure:
            if is_statement_timeout(failure):
                raise Unavailable(_LATE) from failure
            raise

    return database.retry(once, max_attempts=_MAX_ATTEMPTS)


def _begin(database: Database, seconds: float, until: float) -> AbstractContextManager[Connection]:
    if database.url.get_backend_name() == "sqlite":
        return _open_copy(database, until)
    return _open_transaction(database.writer, seconds)


@contextmanager
def _open_transaction(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Open a transaction that is rolled back, with a time limit for each statement."""
    with connect(engine) as connection:
        try:
            for statement in _limit_statements(connection, seconds):
                connection.exec_driver_sql(statement)
            yield connection
        finally:
            connection.rollback()
            if connection.dialect.name != "postgresql":
                # The limits were set for the whole session.
                connection.invalidate()


def _limit_statements(connection: Connection, seconds: float) -> Iterator[str]:
    whole_seconds = max(1, round(seconds))
    if connection.dialect.name == "postgresql":
        yield f"SET LOCAL statement_timeout = {whole_seconds * 1000}"
        yield f"SET LOCAL lock_timeout = {LOCK_WAIT * 1000}"
    else:
        # The setting has different names on MariaDB and MySQL; each ignores the other's comment.
        yield (
            f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT} "
            f"/*M!100101 , max_statement_time={whole_seconds} */ "
            f"/*!50708 , max_execution_time={whole_seconds * 1000} */"
        )


@contextmanager
def _open_copy(database: Database, until: float) -> Iterator[Connection]:
    """Open a connection to a copy of an SQLite database in memory."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with database.read() as connection:
            source: Any = connection.connection.driver_connection
            source.backup(copy)
        copy.execute("PRAGMA foreign_keys=ON")
        copy.set_progress_handler(lambda: monotonic() > until, _STEPS)
        engine = create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool)
        with engine.connect() as connection:
            yield connection
    finally:
        copy.close()
