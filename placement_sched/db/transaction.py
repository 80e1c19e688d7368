# SPDX-License-Identifier: Apache-2.0
"""Database access: reads, writes with retries, and scratch transactions.

Driver errors are translated into exceptions of this service (``db/errors.py``).

A scratch transaction has the changes for a simulation. On PostgreSQL and MariaDB it is never
committed. No other connection sees its writes, and other writers wait only for the rows that it has
changed, within its time limit. SQLite has a single writer at a time, so that the transaction uses a
copy of the database in memory, which blocks no writer (doc/decisions/0011).
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock, Semaphore
from time import monotonic
from typing import Any, Protocol, Self, TypeVar

from oslo_log import log
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, InvalidatePoolError

from placement_sched.config.settings import Settings
from placement_sched.db import engine, triggers
from placement_sched.db.commit_marks import create_mark, is_done, mark_commit
from placement_sched.db.engine import count_statements, limit_connection_silence
from placement_sched.db.errors import (
    CAPACITY,
    CHANGED,
    LOCKED,
    READ_ONLY,
    connect,
    find_conflict_kind,
    is_read_only,
    is_statement_timeout,
    is_worth_retrying,
    rejects_writes,
    translate_errors,
)
from placement_sched.db.failover import (
    EpochTracker,
    ServerEpoch,
    is_cluster_node,
    wait_until_current,
)
from placement_sched.errors import (
    CapacityExceeded,
    CommitUnknown,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Overtaken,
    Unavailable,
)
from placement_sched.model.request_stats import get_request_stats
from placement_sched.model.retry import call_with_retries

#: Connection is for packages that open transactions but may not import sqlalchemy.
__all__ = ["Connection", "Database", "WriteGate"]

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: Maximum number of writers that use SQLite or wait for its lock: half of a server's threads.
MAX_WRITERS = 2
#: Minimum seconds between two closures of the read connections to a read-only database.
PAUSE = 1.0
#: Maximum seconds for the response to a ping.
MAX_PING_WAIT = 10.0
#: Maximum seconds that a writer waits at the gate, much longer than usual writes take.
MAX_GATE_WAIT = 3.0

#: Seconds after which a transaction logs its end in the change log. Readers find the rows of
#: shorter transactions without such an entry (``store/placement/change_log.py``).
LONG_TRANSACTION = 2.0

#: The file of an SQLite database.
_MAIN_FILE = "SELECT file FROM pragma_database_list WHERE name = 'main'"
#: A write without any effect.
_EMPTY_WRITE = text("DELETE FROM sched_commit_marks WHERE id = ''")

#: Minimum seconds between two checks of a read connection. It is checked when it leaves the pool.
CHECK_AGAIN = 5.0
#: The key of a connection's ``info`` for the time of its last check.
_CHECKED = "placement_sched.checked"

# The statements that begin a snapshot on a connection that commits each statement. For PostgreSQL
# see engine.begin_statement.
_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}
#: Maximum number of attempts if concurrent writers abort the scratch transaction.
_MAX_ATTEMPTS = 3
#: Maximum seconds to wait for a lock, since other writers may wait for this transaction.
LOCK_WAIT = 2
#: SQLite's virtual machine steps between two checks of the deadline.
_STEPS = 10_000
_LATE = (
    "the simulation took longer than [scheduler] what_if_timeout. Simplify the request, or raise "
    "the option"
)


class Database:
    """A database with connections for reading, and atomic writes.

    A database has two pools of connections. Connections for reading commit each statement, which
    saves the round trips of transactions. Connections for writing open transactions at READ
    COMMITTED. As a context manager it closes all connections at the end.
    """

    def __init__(self, settings: Settings) -> None:
        self.url = engine.build_database_url(settings)
        #: Whether triggers log the providers that are written (``db/triggers.py``).
        self.logs_changes: bool = settings.placement.providers_in_memory
        #: Whether the database has the content of a fleet file, which nobody changes.
        self.shows_file: bool = settings.placement_database.shown_at is not None
        self._max_retries: int = settings.placement.allocation_conflict_retry_count
        self.reader: Engine = engine.make_engine(self.url, settings, autocommit=True)
        self.writer: Engine = engine.make_engine(self.url, settings, autocommit=False)
        self._epoch_tracker = EpochTracker()
        for database_engine in (self.reader, self.writer):
            self._epoch_tracker.follow(database_engine)
        self._gate: AbstractContextManager[None] = (
            WriteGate() if self.url.get_backend_name() == "sqlite" else nullcontext()
        )
        #: Whether transactions write commit marks, which need the schema of this release.
        self.marks_commits = False
        count_statements((self.reader, self.writer))
        self._next_reader_dispose = 0.0
        #: Whether read connections may lead to a read-only database.
        self._has_stale_readers = False
        read_timeout: int = settings.placement_database.read_timeout
        isolation = "REPEATABLE READ READ ONLY"
        self._snapshot = _SNAPSHOT | {
            "postgresql": (
                engine.begin_statement(self.url, settings, isolation, read_timeout=read_timeout),
            )
        }
        # On SQLite, the check would make readers wait for writers.
        if self.url.get_backend_name() != "sqlite":
            event.listen(self.reader, "checkout", self._check_connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.dispose()

    @property
    def epoch(self) -> ServerEpoch:
        """Return the epoch of the database server (``db/failover.py``)."""
        return self._epoch_tracker.current

    def check(self) -> None:
        """Do nothing: only a scratch transaction has a time limit."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reading, or raise Unavailable or TooComplex."""
        with translate_errors(), connect(self.reader) as connection:
            yield connection

    def ping(self) -> None:
        """Check that the database accepts writes, with the errors of :meth:`read`."""
        if self.url.get_backend_name() == "sqlite":
            with self.read() as connection:
                file = connection.exec_driver_sql(_MAIN_FILE).scalar_one()
            if not os.access(file, os.W_OK):
                raise Unavailable(READ_ONLY)
            return
        try:
            # Only a write can show it: read-only servers accept writes of some users.
            with self.read() as connection, limit_connection_silence(connection, MAX_PING_WAIT):
                connection.execute(_EMPTY_WRITE)
        except Unavailable as failure:
            if is_read_only(failure):
                # The next connection may lead to another server, or the server may accept writes by
                # then.
                self._close_read_only_connections()
            raise

    def _check_connection(self, driver: Any, record: Any, _fairy: object) -> None:
        """Replace a read connection whose server is read-only or of another epoch.

        A worker that only reads would otherwise not notice that its connections lead to a standby,
        or that a pooler has switched them to the server that took over.
        """
        now = time.monotonic()
        if now - record.info.setdefault(_CHECKED, now) < CHECK_AGAIN:
            return
        record.info[_CHECKED] = now
        try:
            with closing(driver.cursor()) as cursor:
                cursor.execute(str(_EMPTY_WRITE))
            self._epoch_tracker.read_again(self.reader.dialect.name, driver, record.info)
        except self.reader.dialect.loaded_dbapi.Error as failure:
            if rejects_writes(failure):
                self._has_stale_readers = True
                self.writer.dispose()
                raise InvalidatePoolError from failure
            # Another reason may be a missing schema.
            if not engine.is_open(self.reader.dialect, driver):
                raise DisconnectionError from failure

    @contextmanager
    def open_snapshot(self) -> Iterator[Connection]:
        """Open a connection to a snapshot, with the errors of :meth:`read`."""
        with self.read() as connection:
            for statement in self._snapshot[connection.dialect.name]:
                connection.exec_driver_sql(statement)
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction, commit it, and return the result.

        After a deadlock, a lost connection or :class:`Overtaken`, ``work`` is repeated in a *new*
        transaction after a short random pause, at most ``[placement]
        allocation_conflict_retry_count`` times. Any other exception rolls back and is raised. If
        only the response to COMMIT is lost, the commit mark of the transaction is read. Raises
        :class:`Unavailable` if the database remains locked or does not answer, and
        :class:`CommitUnknown` if the result of COMMIT cannot be determined. Raises
        :class:`Forbidden` if the database shows a file.

        A node of a Galera cluster may lack rows that a client has written through another node.
        ``work`` that therefore raises an error is repeated after the node has applied them.
        """
        if self.shows_file:
            raise Forbidden("this server shows a file and changes nothing")
        try:
            return self.retry(lambda: self._write_once(work))
        except Overtaken:
            raise
        except (Invalid, NotFound, Conflict):
            if not is_cluster_node(self.epoch):
                raise
        return self.retry(lambda: self._write_once(work, is_current=True))

    def _write_once(self, work: Callable[[Connection], T], *, is_current: bool = False) -> T:
        try:
            with self._gate, translate_errors():
                result = self._run_and_commit(work, is_current=is_current)
        except Unavailable as failure:
            if kind := find_conflict_kind(failure):
                get_request_stats().conflicts[kind] += 1
            if is_read_only(failure):
                self._close_read_only_connections()
            raise
        if self._has_stale_readers:
            # Read connections may still lead to the read-only server.
            self._has_stale_readers = False
            self.reader.dispose()
        return result

    def retry(self, work: Callable[[], T], max_attempts: int | None = None) -> T:
        """Run ``work``, and repeat it if a concurrent writer aborts it.

        A schema change through another node of a Galera cluster also aborts readers, with a
        deadlock. The default number of attempts is the same as for :meth:`write`. ``work`` must be
        repeatable.
        """
        return call_with_retries(
            work,
            max_attempts or self._max_retries + 1,
            on=(Unavailable, Overtaken),
            when=is_worth_retrying,
            between=self._wait_before_retry,
        )

    def _run_and_commit(self, work: Callable[[Connection], T], *, is_current: bool) -> T:
        mark: str | None = None
        is_finished, started = False, time.monotonic()
        try:
            with connect(self.writer) as connection, connection.begin():
                if is_current:
                    wait_until_current(connection)
                result = work(connection)
                is_finished = True
                if self.marks_commits:
                    if self.logs_changes and time.monotonic() - started > LONG_TRANSACTION:
                        triggers.write_entry(connection, triggers.LONG)
                    mark = create_mark()
                    mark_commit(connection, mark)
        except DBAPIError as failure:
            if not (is_finished and failure.connection_invalidated):
                raise
            if mark is None:
                raise CommitUnknown(
                    "the connection to the database was lost during COMMIT"
                ) from failure
            # On a new connection, since the other connections may be lost, too.
            self.reader.dispose()
            is_committed = is_done(self.read, mark)
            LOG.warning(
                "the response to COMMIT was lost. The transaction was %s",
                "committed" if is_committed else "not committed",
            )
            if not is_committed:
                raise
        return result

    def _close_read_only_connections(self) -> None:
        self._has_stale_readers = True
        self.writer.dispose()
        # A standby may be read for hours: its connections are not closed for each request.
        if time.monotonic() >= self._next_reader_dispose:
            self._next_reader_dispose = time.monotonic() + PAUSE
            self.reader.dispose()

    def _wait_before_retry(self, number: int) -> None:
        get_request_stats().retries += 1
        time.sleep(random.uniform(0, 0.01 * 2 ** min(number, 5)))  # noqa: S311 - jitter

    def enable_commit_marks(self) -> None:
        """Enable commit marks, after the schema revision was checked."""
        # SQLite is a file: the response to COMMIT cannot be lost.
        self.marks_commits = self.url.get_backend_name() != "sqlite"

    def claim(self, work: Callable[[Connection], T]) -> T:
        """Run a claim like :meth:`write`, and count it as won or lost.

        The claim is lost if ``work`` raises :class:`Conflict`, which is raised again.
        """
        stats = get_request_stats()
        retries = stats.retries
        try:
            result = self.write(work)
        except Conflict as failure:
            stats.claims_lost += 1
            kind = CAPACITY if isinstance(failure, CapacityExceeded) else CHANGED
            stats.conflicts[kind] += 1
            raise
        finally:
            stats.claims_retried += stats.retries - retries
        stats.claims_won += 1
        return result

    def dispose(self) -> None:
        """Close all pooled connections, before a fork and at exit."""
        self.reader.dispose()
        self.writer.dispose()


class WriteGate:
    """Context manager that limits the number of concurrent writers.

    Readers of SQLite never wait for writers, but writers that wait for another process could occupy
    all threads of a server. After a writer has waited in vain, further writers are rejected
    immediately, until a writer leaves the gate.
    """

    def __init__(self, places: int = MAX_WRITERS, patience: float = MAX_GATE_WAIT) -> None:
        self._places = Semaphore(places)
        self._patience = patience
        self._lock = Lock()
        self._stuck = False

    def __enter__(self) -> None:
        if self._places.acquire(timeout=0 if self._stuck else self._patience):
            return
        with self._lock:
            self._stuck = True
        raise Unavailable(LOCKED)

    def __exit__(self, *_failure: object) -> None:
        with self._lock:
            self._stuck = False
        self._places.release()


class ReadableDatabase(Protocol):
    """Interface of a database, which a scratch transaction can replace."""

    def check(self) -> None:
        """Raise :class:`Unavailable` after the time limit of a simulation."""

    def read(self) -> AbstractContextManager[Connection]:
        """Open a connection for reading."""


@dataclass(eq=False, slots=True)
class ScratchTransaction:
    """A transaction that is rolled back, with a deadline (monotonic time)."""

    connection: Connection
    until: float

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield the connection, or raise the errors of :meth:`check`."""
        self.check()
        yield self.connection

    def check(self) -> None:
        """Raise :class:`Unavailable` after the deadline."""
        if monotonic() > self.until:
            raise Unavailable(_LATE)


def run_and_roll_back(
    database: Database, work: Callable[[ScratchTransaction], T], seconds: float
) -> T:
    """Run ``work`` in a scratch transaction, and return its result.

    The transaction is always rolled back, and is retried if concurrent writers abort it. Raises
    :class:`Unavailable` after ``seconds``, and the exceptions of :meth:`Database.read`.
    """

    def run_once() -> T:
        until = monotonic() + seconds
        is_sqlite = database.url.get_backend_name() == "sqlite"
        opened = _open_copy(database, until) if is_sqlite else _open_transaction(database, seconds)
        try:
            with translate_errors(), opened as connection:
                return work(ScratchTransaction(connection, until))
        except Unavailable as failure:
            if is_statement_timeout(failure):
                raise Unavailable(_LATE) from failure
            raise

    return database.retry(run_once, max_attempts=_MAX_ATTEMPTS)


@contextmanager
def _open_transaction(database: Database, seconds: float) -> Iterator[Connection]:
    milliseconds = max(1, round(seconds)) * 1000
    with connect(database.writer) as connection:
        is_postgresql = connection.dialect.name == "postgresql"
        try:
            if is_postgresql:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_WAIT * 1000}")
            else:
                # The setting has different names on MariaDB and MySQL. Each ignores the other's
                # comment.
                connection.exec_driver_sql(
                    f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT} "
                    f"/*M!100101 , max_statement_time={milliseconds // 1000} */ "
                    f"/*!50708 , max_execution_time={milliseconds} */"
                )
            yield connection
        finally:
            connection.rollback()
            if not is_postgresql:
                connection.invalidate()  # the limits were set for the whole session


@contextmanager
def _open_copy(database: Database, until: float) -> Iterator[Connection]:
    """Copy an SQLite database into memory, and open a connection to the copy."""
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
