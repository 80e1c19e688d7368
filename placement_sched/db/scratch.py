"""Trials: what a question changes in the database to be answered, and is rolled back.

On PostgreSQL and MariaDB a trial is a transaction that is never committed: no other connection sees
what it writes, and others wait for it only where they write the very rows that it wrote, for as
long as it is allowed to take. SQLite has one writer at a time: there a trial writes to a copy of
the database in memory, for which no writer waits (doc/decisions/0020).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine

from placement_sched.db.errors import connected, is_late, is_worth_retrying, translated
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.retry import retrying

T = TypeVar("T")

#: How often a trial is begun where concurrent writers ended it.
ATTEMPTS = 3
#: Seconds for which a trial waits for a lock, as others may wait for what it has written.
LOCK_WAIT = 2
#: How many steps SQLite's machine makes between two looks at the clock.
_STEPS = 10_000
_LATE = "the question took longer than [scheduler] what_if_timeout; ask for less, or raise it"


class Readable(Protocol):
    """What a request is answered from: the database, or a trial of it."""

    def check(self) -> None:
        """Raise :class:`Unavailable` where the time of the question is over."""

    def read(self) -> AbstractContextManager[Connection]:
        """Give a connection for reading."""


@dataclass(eq=False, slots=True)
class Trial:
    """A database as it would be; ``until`` is when it ends, by the monotonic clock."""

    connection: Connection
    until: float

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give the connection of the trial; raises what :meth:`check` raises."""
        self.check()
        yield self.connection

    def check(self) -> None:
        """Raise :class:`Unavailable` where the time of the trial is over."""
        if monotonic() > self.until:
            raise Unavailable(_LATE)


def tried(database: Database, work: Callable[[Trial], T], seconds: float) -> T:
    """Return what ``work`` returns of a trial of the database; whatever it writes is undone.

    Where concurrent writers end it, it begins again. Raises :class:`Unavailable` where it takes
    longer than ``seconds``, and what :meth:`Database.read` raises.
    """

    def once() -> T:
        until = monotonic() + seconds
        try:
            with translated(), _undone(database, seconds, until) as connection:
                return work(Trial(connection, until))
        except Unavailable as failure:
            if is_late(failure):
                raise Unavailable(_LATE) from failure
            raise

    return retrying(once, ATTEMPTS, on=Unavailable, when=is_worth_retrying)


def _undone(database: Database, seconds: float, until: float) -> AbstractContextManager[Connection]:
    if database.url.get_backend_name() == "sqlite":
        return _copied(database, until)
    return _rolled_back(database.writer, seconds)


@contextmanager
def _rolled_back(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Give a transaction that is rolled back, each of whose statements has so many seconds."""
    with connected(engine) as connection:
        try:
            for statement in _bounds(connection, seconds):
                connection.exec_driver_sql(statement)
            yield connection
        finally:
            connection.rollback()
            if connection.dialect.name != "postgresql":
                # The bounds are of its session.
                connection.invalidate()


def _bounds(connection: Connection, seconds: float) -> Iterator[str]:
    whole = max(1, round(seconds))
    if connection.dialect.name == "postgresql":
        yield f"SET LOCAL statement_timeout = {whole * 1000}"
        yield f"SET LOCAL lock_timeout = {LOCK_WAIT * 1000}"
    else:
        # MariaDB and MySQL name it differently; each ignores the other's comment.
        yield (
            f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT} "
            f"/*M!100101 , max_statement_time={whole} */ "
            f"/*!50708 , max_execution_time={whole * 1000} */"
        )


@contextmanager
def _copied(database: Database, until: float) -> Iterator[Connection]:
    """Give a connection to a copy of an SQLite database, as it is now, in memory."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with database.read() as connection:
            kept: Any = connection.connection.driver_connection
            kept.backup(copy)
        copy.execute("PRAGMA foreign_keys=ON")
        copy.set_progress_handler(lambda: monotonic() > until, _STEPS)
        engine = create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool)
        with engine.connect() as connection:
            yield connection
    finally:
        copy.close()
