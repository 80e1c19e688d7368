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
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock, Semaphore
from time import monotonic
from typing import Any, Protocol, Self, TypeVar

from oslo_log import log
from sqlalchemy import Connection, Engine, StaticPool, create_engine, delete, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, InvalidatePoolError

from placement_sched.config.settings import Settings
from placement_sched.db import engine, sql, triggers
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
from placement_sched.db.tables import commit_marks
from placement_sched.errors import (
    CapacityExceeded,
    CommitUnknown,
    Conflict,
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

#: Seconds after which the result of a lost COMMIT is no longer queried.
MAX_COMMIT_QUERY_TIME = 10.0
#: Maximum pause between two such queries, in seconds.
_MAX_PAUSE = 0.5
#: Minutes after which commit marks are deleted: marks of committed transactions, and of
#: transactions that can no longer be committed.
MINUTES_OF_COMMITTED, MINUTES_OF_REJECTED = 15, 24 * 60
#: Marks deleted by a statement, and maximum number of statements in a call.
_BATCH, _MAX_BATCHES = 5000, 20

_INTO = "INTO sched_commit_marks (id, created_at, done)"
# Keys of marks ascend, so that inserts of short-lived rows stay at the end of the index.
_INSERT_MARK = {
    # A transaction without an id has written nothing and may be repeated.
    "postgresql": f"INSERT {_INTO} SELECT '%s', timezone('UTC', now()), 1 "
    "WHERE txid_current_if_assigned() IS NOT NULL",
    "mysql": f"INSERT {_INTO} VALUES ('%s', UTC_TIMESTAMP(6), 1)",  # noqa: S608 - new_mark
}
_INSERT_REJECTION = {
    # Always a write, so that its COMMIT waits for a synchronous standby. The standby may lack the
    # existing mark if the server was restarted while the mark's COMMIT waited.
    "postgresql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, timezone('UTC', now()), 0) "
    "ON CONFLICT (id) DO UPDATE SET done = sched_commit_marks.done",
    # For an unchanged row MariaDB writes no ROW event, and waits for no replica.
    "mysql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, UTC_TIMESTAMP(6), 0) "
    "ON DUPLICATE KEY UPDATE created_at = created_at + INTERVAL 1 MICROSECOND",
}
_IS_DONE = text("SELECT done FROM sched_commit_marks WHERE id = :mark")
# A mark beyond the age limit is old, or was written before the database's clock was set forward. A
# mark in the future was written before the clock was set back. Old marks must also be older than
# the last call, because a newer mark may still be queried.
_FIND_OLD_MARKS = text(
    "SELECT id FROM sched_commit_marks WHERE created_at < :last AND "
    "(created_at < :done AND done = 1 OR created_at < :rejected) OR created_at > :ahead "
    "ORDER BY id LIMIT :most"
)

#: Opens a connection that commits each statement.
_Read = Callable[[], AbstractContextManager[Connection]]

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


def create_mark() -> str:
    """Create a unique key for the commit mark of a transaction.

    Later keys are larger.
    """
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def mark_commit(connection: Connection, mark: str) -> None:
    """Make the COMMIT of a writing transaction also insert ``mark``.

    The driver sends the INSERT and the COMMIT in a single message. PostgreSQL's INSERT itself
    checks that the transaction has written.
    """
    name = connection.dialect.name
    driver: Any = connection.connection.driver_connection
    if name == "postgresql" or driver.has_written:
        driver.commit_with = f"{_INSERT_MARK[name] % mark}; COMMIT"


def is_done(read: _Read, mark: str) -> bool:
    """Return whether the transaction with a commit mark was committed.

    If the result is False, the transaction can no longer be committed. Raises
    :class:`CommitUnknown` if the database does not answer in time.
    """
    until = time.monotonic() + MAX_COMMIT_QUERY_TIME
    pause = 0.01
    while True:
        try:
            with read() as connection:
                reject = text(_INSERT_REJECTION[connection.dialect.name])
                connection.execute(reject, {"mark": mark})
                return bool(connection.execute(_IS_DONE, {"mark": mark}).scalar_one())
        except Unavailable as failure:
            if time.monotonic() >= until:
                raise CommitUnknown(
                    "the connection to the database was lost during COMMIT, and it is not known "
                    f"whether the transaction was committed: {failure.detail}"
                ) from failure
        time.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311 - jitter
        pause = min(2 * pause, _MAX_PAUSE)


def forget_old_marks(connection: Connection, last: datetime | None) -> datetime:
    """Delete old commit marks in batches, and return the database's time.

    Call it for maintenance between requests, with a connection that commits each statement, and at
    most once a minute. ``last`` is the time that the previous call returned. With None nothing is
    deleted.
    """
    now: datetime = connection.scalar(text(f"SELECT {sql.build_time(connection)}"))
    if last is None:
        return now
    done_age, rejected_age = (
        timedelta(minutes=MINUTES_OF_COMMITTED),
        timedelta(minutes=MINUTES_OF_REJECTED),
    )
    times = {"last": last, "done": now - done_age, "rejected": now - rejected_age}
    times["ahead"] = max(now, last) + rejected_age
    for _ in range(_MAX_BATCHES):
        # Found without a lock, so that the statement waits for no running transaction.
        ids = connection.execute(_FIND_OLD_MARKS, {**times, "most": _BATCH}).scalars().all()
        if ids:
            connection.execute(delete(commit_marks).where(commit_marks.c.id.in_(ids)))
        if len(ids) < _BATCH:
            break
    return now


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
        """Do nothing.

        Unlike a scratch transaction, the database has no time limit.
        """

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reading.

        Raises :class:`Unavailable` if the database does not answer, and :class:`TooComplex` if a
        statement is too large.
        """
        with translate_errors(), connect(self.reader) as connection:
            yield connection

    def ping(self) -> None:
        """Check that the database answers and accepts writes.

        Raises the errors of :meth:`read`.
        """
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
        """Open a read-only connection whose statements see the same snapshot.

        Raises the errors of :meth:`read`.
        """
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
        :class:`CommitUnknown` if the result of COMMIT cannot be determined.

        A node of a Galera cluster may lack rows that a client has written through another node.
        ``work`` that therefore raises an error is repeated after the node has applied them.
        """
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
        """Close connections to a server that has become read-only.

        Write connections are closed each time, read connections at most once in :data:`PAUSE`
        seconds.
        """
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
        """Enter the gate.

        Raises :class:`Unavailable` if no writer leaves in time.
        """
        if self._places.acquire(timeout=0 if self._stuck else self._patience):
            return
        with self._lock:
            self._stuck = True
        raise Unavailable(LOCKED)

    def __exit__(self, *_failure: object) -> None:
        """Leave the gate, and admit the next writer."""
        with self._lock:
            self._stuck = False
        self._places.release()


class ReadableDatabase(Protocol):
    """Interface of a database, which a scratch transaction can replace."""

    def check(self) -> None:
        """Check the time limit of a simulation.

        Raises :class:`Unavailable` after the limit.
        """

    def read(self) -> AbstractContextManager[Connection]:
        """Open a connection for reading."""


@dataclass(eq=False, slots=True)
class ScratchTransaction:
    """A transaction that is rolled back, with a deadline (monotonic time)."""

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
    """Run ``work`` in a scratch transaction, and return its result.

    The transaction is always rolled back, and is retried if concurrent writers abort it. Raises
    :class:`Unavailable` after ``seconds``, and the exceptions of :meth:`Database.read`.
    """

    def run_once() -> T:
        until = monotonic() + seconds
        try:
            with translate_errors(), _begin(database, seconds, until) as connection:
                return work(ScratchTransaction(connection, until))
        except Unavailable as failure:
            if is_statement_timeout(failure):
                raise Unavailable(_LATE) from failure
            raise

    return database.retry(run_once, max_attempts=_MAX_ATTEMPTS)


def _begin(database: Database, seconds: float, until: float) -> AbstractContextManager[Connection]:
    if database.url.get_backend_name() == "sqlite":
        return _open_copy(database, until)
    return _open_transaction(database.writer, seconds)


@contextmanager
def _open_transaction(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Open a transaction with statement time limits, and roll it back."""
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
        # The setting has different names on MariaDB and MySQL. Each ignores the other's comment.
        yield (
            f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT} "
            f"/*M!100101 , max_statement_time={whole_seconds} */ "
            f"/*!50708 , max_execution_time={whole_seconds * 1000} */"
        )


@contextmanager
def _open_copy(database: Database, until: float) -> Iterator[Connection]:
    """Copy an SQLite database into memory, and open a connection to the copy.

    Statements are interrupted after the monotonic time ``until``.
    """
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
