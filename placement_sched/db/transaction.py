"""Databases: connections for reading, and transactions that are tried again.

What drivers raise about themselves is raised again in exceptions of this service (``failures``).
"""

import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import datetime, timedelta
from threading import Lock, Semaphore
from typing import Any, TypeVar

from oslo_log import log
from sqlalchemy import Connection, Engine, delete, event, literal, select, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, InvalidatePoolError

from placement_sched.config.settings import Settings
from placement_sched.db import engine, triggers
from placement_sched.db import engine as engine_module
from placement_sched.db.engine import answering, count_statements
from placement_sched.db.errors import (
    CAPACITY,
    CHANGED,
    LOCKED,
    READ_ONLY,
    conflict_of,
    connected,
    is_read_only,
    is_worth_retrying,
    refuses_writes,
    translated,
)
from placement_sched.db.failover import Histories, History
from placement_sched.db.tables import commit_marks
from placement_sched.errors import CapacityExceeded, CommitUnknown, Conflict, Unavailable
from placement_sched.model.request_stats import request_stats
from placement_sched.model.retry import retrying

#: Seconds for which the database is asked whether a transaction is done, before that is given up.
COMMIT_MARKS_PATIENCE = 10.0
#: The longest pause between two questions, in seconds.
_PAUSE = 0.5
#: Minutes for which marks are kept: of what is done, and of what never will be.
KEPT, REFUSED_KEPT = 15, 24 * 60
#: Marks that one statement deletes, and the most statements of one call.
_BATCH, _BATCHES = 5000, 20

_INTO = "INTO sched_commit_marks (id, created_at, done)"
# Marks are short-lived and their keys ascend, so that inserts stay at one end of the index.
_MARKED = {
    # What has no number has written nothing: it may be done again.
    "postgresql": f"INSERT {_INTO} SELECT '%s', timezone('UTC', now()), 1 "
    "WHERE txid_current_if_assigned() IS NOT NULL",
    "mysql": f"INSERT {_INTO} VALUES ('%s', UTC_TIMESTAMP(6), 1)",  # noqa: S608 - new_mark
}
_REFUSED = {
    # It writes in any case, so that its own COMMIT waits for a synchronous standby, which may lack
    # the mark that is there: the server was restarted while the mark's COMMIT waited.
    "postgresql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, timezone('UTC', now()), 0) "
    "ON CONFLICT (id) DO UPDATE SET done = sched_commit_marks.done",
    # Where a row stays as it is, MariaDB logs no event by ROW, and waits for no replica.
    "mysql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, UTC_TIMESTAMP(6), 0) "
    "ON DUPLICATE KEY UPDATE created_at = created_at + INTERVAL 1 MICROSECOND",
}
_DONE = text("SELECT done FROM sched_commit_marks WHERE id = :mark")
# A mark that is older than the limit is of yesterday, or made before the clock of the database was
# set forward; what is dated far ahead was made before it was set back. What may be asked for was
# made since the last look: so the times of both looks must say that a mark is not of these moments.
_OF_OLD = text(
    "SELECT id FROM sched_commit_marks WHERE created_at < :last AND "
    "(created_at < :done AND done = 1 OR created_at < :refused) OR created_at > :ahead "
    "ORDER BY id LIMIT :most"
)
_NOW = {"postgresql": "SELECT timezone('UTC', now())", "mysql": "SELECT UTC_TIMESTAMP(6)"}

#: Gives a connection that commits each statement.
_Read = Callable[[], AbstractContextManager[Connection]]


def new_mark() -> str:
    """Return a key that no other transaction has; later ones sort after it."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def mark_commit(connection: Connection, mark: str) -> None:
    """Let the transaction of a connection leave ``mark`` when it is committed."""
    driver: Any = connection.connection.driver_connection
    driver.commit_with = f"{_MARKED[connection.dialect.name] % mark}; COMMIT"


def is_done(read: _Read, mark: str) -> bool:
    """Return whether the transaction of this mark is done; where not, it never will be.

    Raises :class:`CommitUnknown` where the database does not say so in time.
    """
    until = time.monotonic() + COMMIT_MARKS_PATIENCE
    pause = 0.01
    while True:
        try:
            with read() as connection:
                return _settled(connection, mark)
        except Unavailable as failure:
            if time.monotonic() >= until:
                raise CommitUnknown(
                    "the connection to the database was lost while the write was committed, so "
                    f"that it is not known whether it was done: {failure.detail}"
                ) from failure
        time.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311 - jitter
        pause = min(2 * pause, _PAUSE)


def _settled(connection: Connection, mark: str) -> bool:
    refuse = text(_REFUSED[connection.dialect.name])
    connection.execute(refuse, {"mark": mark})
    return bool(connection.execute(_DONE, {"mark": mark}).scalar_one())


def forget_old_marks(connection: Connection, last: datetime | None) -> datetime:
    """Delete marks that are not asked for any more, some at a time; return the database's time.

    For upkeep between requests, on a connection that commits each statement. ``last`` is what was
    returned a minute ago or more; at the first time, None, nothing is deleted.
    """
    now: datetime = connection.exec_driver_sql(_NOW[connection.dialect.name]).scalar_one()
    if last is None:
        return now
    kept, refused_kept = timedelta(minutes=KEPT), timedelta(minutes=REFUSED_KEPT)
    times = {"last": last, "done": now - kept, "refused": now - refused_kept}
    times["ahead"] = max(now, last) + refused_kept
    for _ in range(_BATCHES):
        # Found first, without a lock, so that no transaction at work is waited for.
        ids = connection.execute(_OF_OLD, {**times, "most": _BATCH}).scalars().all()
        if ids:
            connection.execute(delete(commit_marks).where(commit_marks.c.id.in_(ids)))
        if len(ids) < _BATCH:
            break
    return now


#: Connection is for packages that open transactions but write no SQL: only store, db and candidates
#: may import sqlalchemy.
__all__ = ["Connection", "Database", "WriteGate"]

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: Writers that SQLite may have at work or waiting for its lock: half of a server's threads.
PLACES = 2
#: Seconds between two times at which the connections for reading to a database that takes no writes
#: are closed.
PAUSE = 1.0
#: Seconds in which a database answers that is asked whether it does.
SOON = 10.0
#: Seconds that one more writer waits for a place, which is long for those that were given one.
PATIENCE = 3.0

#: Seconds after which a transaction marks its end in the change log. Readers find the rows of
#: shorter transactions without a mark (``store/placement/change_log.py``).
LONG_TRANSACTION = 2.0

#: A write that changes nothing.
_OF_NONE = text("DELETE FROM sched_commit_marks WHERE id = ''")

#: Seconds after which a connection for reading is checked again when it is taken from the pool.
CHECK_AGAIN = 5.0
#: The key of a connection's ``info`` for the time of its last check.
_CHECKED = "placement_sched.checked"

# How a connection that commits each statement begins to see one moment; on PostgreSQL it is
# engine.begin_statement.
_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}


class Database:
    """A database as the APIs and the claim use it: read, or write all or nothing.

    It has two pools: one commits each statement (reads need no transaction of their own and
    save its round trips), the other opens transactions at READ COMMITTED.
    """

    def __init__(self, settings: Settings) -> None:
        self.url = engine_module.database_url(settings)
        #: Whether triggers are to log which providers are written (``db/triggers.py``).
        self.logs_changes: bool = settings.placement.providers_in_memory
        self._max_retries: int = settings.placement.allocation_conflict_retry_count
        self.reader: Engine = engine.make_engine(self.url, settings, autocommit=True)
        self.writer: Engine = engine.make_engine(self.url, settings, autocommit=False)
        self._readers = engine.Replaceable(self.reader)
        self._writers = engine.Replaceable(self.writer)
        self._histories = Histories()
        for one in (self.reader, self.writer):
            self._histories.follow(one)
        self._gate: AbstractContextManager[None] = (
            WriteGate() if self.url.get_backend_name() == "sqlite" else nullcontext()
        )
        #: Whether transactions leave marks: once the schema is known to be this release's.
        self.marks_commits = False
        count_statements((self.reader, self.writer))
        self._may_leave = 0.0
        #: Whether connections for reading may lead to a database that takes no writes.
        self._refused = False
        read_timeout: int = settings.placement_database.read_timeout
        isolation = "REPEATABLE READ READ ONLY"
        self._snapshot = _SNAPSHOT | {
            "postgresql": (
                engine.begin_statement(self.url, settings, isolation, read_timeout=read_timeout),
            )
        }
        # A reader of a file waits for no writer, so whether it takes writes is checked elsewhere.
        if self.url.get_backend_name() != "sqlite":
            event.listen(self.reader, "checkout", self._check_connection)

    @property
    def history(self) -> History:
        """The history of the database that its newest connection leads to (``db/failover.py``)."""
        return self._histories.current

    def check(self) -> None:
        """Return: what is read of the database itself has no end of its own, as a trial has."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading.

        Raises :class:`Unavailable` where the database does not answer and :class:`TooComplex` for
        a statement too long for it.
        """
        with translated(), connected(self.reader) as connection:
            yield connection

    def ping(self) -> None:
        """Ask the database whether it answers and takes writes.

        Raises what :meth:`read` raises where it does not.
        """
        if self.url.get_backend_name() == "sqlite":
            with self.read() as connection:
                connection.execute(select(literal(1)))
            if not self._file_takes_writes() and not self._takes_writes_elsewhere():
                raise Unavailable(READ_ONLY)
            return
        try:
            # To know it has to be tried: some users may write where others may not.
            with self.read() as connection, answering(connection, SOON):
                connection.execute(_OF_NONE)
        except Unavailable as failure:
            if is_read_only(failure):
                # The next may lead to another, or begin after the setting was taken back.
                self._close_at_times()
            raise

    def _check_connection(self, driver: Any, record: Any, _fairy: object) -> None:
        """Replace a connection for reading to a server that takes no writes, or is another now.

        A worker that only reads would else not notice that its connections lead to an old standby,
        or that a pooler has connected them to the server that took over.
        """
        now = time.monotonic()
        if now - record.info.setdefault(_CHECKED, now) < CHECK_AGAIN:
            return
        record.info[_CHECKED] = now
        try:
            with closing(driver.cursor()) as cursor:
                cursor.execute(str(_OF_NONE))
            self._histories.ask_again(self.reader.dialect.name, driver, record.info)
        except self.reader.dialect.loaded_dbapi.Error as failure:
            if refuses_writes(failure):
                self._refused = True
                self._writers.replace_all()
                raise InvalidatePoolError from failure
            # Else the schema may not be there yet.
            if not engine.is_open(self.reader.dialect, driver):
                raise DisconnectionError from failure

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see the database as it is at one moment.

        Nothing may be written there. Raises what :meth:`read` raises.
        """
        with self.read() as connection:
            for statement in self._snapshot[connection.dialect.name]:
                connection.exec_driver_sql(statement)
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction and return what it returned, committed.

        A deadlock or a dropped connection starts a *new* transaction, after a short random pause,
        at most ``[placement] allocation_conflict_retry_count`` times; any other exception rolls
        back and goes up. Where only the answer to COMMIT is lost, it is found out whether the
        transaction is done. Raises :class:`Unavailable` when the database stays locked or does not
        answer, :class:`CommitUnknown` when it does not say whether the transaction is done.
        """

        def once() -> T:
            try:
                with self._gate, translated():
                    done = self._committed(work)
            except Unavailable as failure:
                if kind := conflict_of(failure):
                    request_stats().conflicts[kind] += 1
                raise
            if self._refused:
                # Those for reading may still lead to where writes were refused.
                self._refused = False
                self._readers.replace_all()
            return done

        return self.retried(once, self._is_worth_retrying)

    def retried(
        self, work: Callable[[], T], when: Callable[[Exception], bool] = is_worth_retrying
    ) -> T:
        """Return what ``work`` returns, begun again where a concurrent writer ended it.

        A change of tables through another node of a Galera cluster ends what only reads, too, as a
        deadlock. It is tried as often as by :meth:`write`; ``work`` must be such that it may be
        done twice. ``when`` says of a failure whether another try is worth it.
        """
        return retrying(
            work, self._max_retries + 1, on=Unavailable, when=when, between=self._before_retry
        )

    def _committed(self, work: Callable[[Connection], T]) -> T:
        mark: str | None = None
        worked, begun = False, time.monotonic()
        try:
            with connected(self.writer) as connection, connection.begin():
                done = work(connection)
                worked = True
                if self.marks_commits:
                    if self.logs_changes and time.monotonic() - begun > LONG_TRANSACTION:
                        triggers.note(connection, triggers.LONG)
                    mark = new_mark()
                    mark_commit(connection, mark)
        except DBAPIError as failure:
            if not (worked and failure.connection_invalidated):
                raise
            if mark is None:
                raise CommitUnknown(
                    "the connection to the database was lost while the write was committed"
                ) from failure
            # By a new connection: what has lost this one may have lost the others.
            self._readers.replace_all()
            known = is_done(self.read, mark)
            LOG.warning("the answer to COMMIT was lost; it was %s", "done" if known else "not done")
            if not known:
                raise
        return done

    def _is_worth_retrying(self, failure: Exception) -> bool:
        if is_read_only(failure):
            return self._takes_writes_elsewhere()
        return is_worth_retrying(failure)

    def _takes_writes_elsewhere(self) -> bool:
        """Close all connections to a database that takes no writes; the next may lead to another.

        Return whether it is a file that takes writes by now: connections to a file stay as the
        first of them was opened, whatever its permissions are since.
        """
        if self.url.get_backend_name() == "sqlite":
            self._writers.replace_all()
            self._readers.replace_all()
            return self._file_takes_writes()
        self._close_at_times()
        return False

    def _close_at_times(self) -> None:
        """Close connections for writing; those for reading unless that was done a moment ago."""
        self._refused = True
        self._writers.replace_all()
        # A standby may be read for long: its connections are not closed at each request.
        if time.monotonic() >= self._may_leave:
            self._may_leave = time.monotonic() + PAUSE
            self._readers.replace_all()

    def _file_takes_writes(self) -> bool:
        given, named = self.writer.dialect.create_connect_args(self.url)
        # It waits for no writer: where one is at work, the file takes writes.
        connect: Any = sqlite3.connect
        try:
            with closing(connect(*given, **{**named, "timeout": 0})) as connection:
                connection.execute(str(_OF_NONE))
        except sqlite3.OperationalError as failure:
            return "readonly" not in str(failure)
        return True

    def _before_retry(self, number: int) -> None:
        request_stats().retries += 1
        time.sleep(random.uniform(0, 0.01 * 2 ** min(number, 5)))  # noqa: S311 - jitter

    def schema_is_ours(self) -> None:
        """Note that the schema is that of this release, so that transactions may leave marks."""
        # An SQLite database is a file: what it says to COMMIT cannot be lost.
        self.marks_commits = self.url.get_backend_name() != "sqlite"

    def claim(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which allocates, as :meth:`write` does, and count how it ended.

        It is lost if ``work`` raises :class:`Conflict`, which goes up.
        """
        stats = request_stats()
        retries = stats.retries
        try:
            done = self.write(work)
        except Conflict as failure:
            stats.claims_lost += 1
            kind = CAPACITY if isinstance(failure, CapacityExceeded) else CHANGED
            stats.conflicts[kind] += 1
            raise
        finally:
            stats.claims_retried += stats.retries - retries
        stats.claims_won += 1
        return done

    @property
    def held(self) -> int:
        """How many connections the threads of this process hold now."""
        engines = (self.reader, self.writer)
        return sum(engine.pool.checkedout() for engine in engines)  # type: ignore[attr-defined]

    def dispose(self) -> None:
        """Close every pooled connection (before a fork, and at the end)."""
        self._readers.dispose()
        self._writers.dispose()


class WriteGate:
    """Lets few writers in at a time; a context manager for any number of threads.

    Readers of SQLite never wait for writers, but a server's threads may all be taken by writers
    that wait for one of another process. Once one has waited here without success, the next are
    rejected at once, until one that was let in leaves.
    """

    def __init__(self, places: int = PLACES, patience: float = PATIENCE) -> None:
        self._places = Semaphore(places)
        self._patience = patience
        self._lock = Lock()
        self._stuck = False

    def __enter__(self) -> None:
        """Enter; raise :class:`Unavailable` where the writers inside do not finish in time."""
        if self._places.acquire(timeout=0 if self._stuck else self._patience):
            return
        with self._lock:
            self._stuck = True
        raise Unavailable(LOCKED)

    def __exit__(self, *_failure: object) -> None:
        """Leave, and let the next in."""
        with self._lock:
            self._stuck = False
        self._places.release()
