"""Databases: connections for reading, and transactions that are tried again.

What drivers raise about themselves is raised again in exceptions and sentences of this service.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock, Semaphore
from typing import TypeVar

from sqlalchemy import Connection, Engine, literal, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from placement_sched.db import engine
from placement_sched.db.kept_connections import KeptConnections
from placement_sched.errors import (
    CapacityExceeded,
    Conflict,
    Invalid,
    RoomElsewhere,
    TooComplex,
    Unavailable,
)
from placement_sched.model.retrying import retrying
from placement_sched.settings import Settings

#: Connection is for packages that open transactions but write no SQL: only store, db and candidates
#: may import sqlalchemy.
__all__ = ["Connection", "Database", "WriteGate"]

T = TypeVar("T")

#: Writers that SQLite may have at work or waiting for its lock: half of a server's threads.
PLACES = 2
#: Seconds that one more writer waits for a place, which is long for those that were given one.
PATIENCE = 3.0

# How a connection that commits each statement begins to see one moment.
_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
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
        self.url = engine.database_url(settings)
        #: Whether triggers are to log which providers are written (``db/change_triggers.py``).
        self.logs_changes: bool = settings.placement.providers_in_memory
        self._max_retries: int = settings.placement.allocation_conflict_retry_count
        self.reader: Engine = engine.make_engine(self.url, settings, autocommit=True)
        self.writer: Engine = engine.make_engine(self.url, settings, autocommit=False)
        self._gate: AbstractContextManager[None] = (
            WriteGate() if self.url.get_backend_name() == "sqlite" else nullcontext()
        )
        #: What the current thread has done here since it last called ``tally.reset()``.
        self.tally = engine.Tally()
        engine.count_statements((self.reader, self.writer), self.tally)
        engine.plan_by_value(self.reader)
        options = settings.placement_database
        self._kept = KeptConnections(
            self.reader,
            most=options.max_pool_size or sys.maxsize,
            seconds=options.connection_recycle_time,
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading.

        Raises :class:`Unavailable` where the database does not answer and :class:`TooComplex` for
        a statement too long for it.
        """
        with translated():
            connection = self._kept.take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._kept.give_back(connection)

    def ping(self) -> None:
        """Ask the database for an answer; raise what :meth:`read` raises where it gives none."""
        with self.read() as connection:
            connection.execute(select(literal(1)))

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see the database as it is at one moment.

        Nothing may be written there. Raises what :meth:`read` raises.
        """
        with self.read() as connection:
            for statement in _SNAPSHOT.get(connection.dialect.name, _SNAPSHOT["mysql"]):
                connection.exec_driver_sql(statement)
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction and return what it returned, committed.

        A deadlock or a dropped connection starts a *new* transaction, after a short random pause,
        at most ``[placement] allocation_conflict_retry_count`` times; any other exception rolls
        back and goes up. Raises :class:`Unavailable` when the database stays locked or does not
        answer.
        """

        def once() -> T:
            try:
                with self._gate, translated(), self.writer.begin() as connection:
                    return work(connection)
            except Unavailable as failure:
                if kind := conflict_of(failure):
                    self.tally.conflicts[kind] += 1
                raise

        return retrying(
            once,
            self._max_retries + 1,
            on=Unavailable,
            when=is_worth_retrying,
            between=self._before_retry,
        )

    def _before_retry(self, number: int) -> None:
        self.tally.retries += 1
        time.sleep(random.uniform(0, 0.01 * 2 ** min(number, 5)))  # noqa: S311 - jitter

    def claim(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which allocates, as :meth:`write` does, and tally how it ended.

        It is lost where ``work`` raises :class:`Conflict`, which goes up. It is not lost yet where
        that is :class:`RoomElsewhere`, upon which the caller tries again.
        """
        retries = self.tally.retries
        try:
            done = self.write(work)
        except RoomElsewhere:
            self.tally.claims_retried += 1
            self.tally.conflicts[LOCK_ORDER] += 1
            raise
        except Conflict as failure:
            self.tally.claims_lost += 1
            kind = CAPACITY if isinstance(failure, CapacityExceeded) else CHANGED
            self.tally.conflicts[kind] += 1
            raise
        finally:
            self.tally.claims_retried += self.tally.retries - retries
        self.tally.claims_won += 1
        return done

    @property
    def held(self) -> int:
        """How many connections the threads of this process hold now."""
        checked_out = sum(one.pool.checkedout() for one in (self.reader, self.writer))  # type: ignore[attr-defined]
        return checked_out - len(self._kept)

    def dispose(self) -> None:
        """Close every pooled connection (before a fork, and at the end)."""
        self._kept.close()
        self.reader.dispose()
        self.writer.dispose()


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


#: What a client reads where another writer holds a lock for too long.
LOCKED = "the database is locked by another writer; try again"

# The codes are PostgreSQL's SQLSTATEs and the numbers of MariaDB and MySQL.
# Two writers met and one must start again: serialization failure, deadlock; record changed.
_DEADLOCK, _OTHER_CHANGE = {"40P01", 1213}, {"40001", 1020}
_CONCURRENT = _DEADLOCK | _OTHER_CHANGE
# A lock was not given in time.
_LOCKED = {"55P03", 1205}

#: The kinds of conflicts that are tallied: of claims, what was asked for is taken or was changed;
#: there is room, but the order of locks asks for a new transaction; a claim went on to another
#: host. Of all writes, what the database says.
CAPACITY, CHANGED, LOCK_ORDER, MOVED = "capacity", "changed", "lock_order", "moved"
DEADLOCK, SERIALIZATION, LOCK_TIMEOUT = "deadlock", "serialization", "lock_timeout"
_BY_CODES = ((_DEADLOCK, DEADLOCK), (_OTHER_CHANGE, SERIALIZATION), (_LOCKED, LOCK_TIMEOUT))
# A statement was stopped after [placement_database] read_timeout.
_LATE = {"57014", 1969, 3024, "interrupted"}
_NO_TABLE = {"42P01", 1146}
# A statement that the database does not take for its length.
_TOO_LARGE_SQLSTATE = "54"  # PostgreSQL's class: program limit exceeded
_TOO_LARGE = {1116, 1117, 1153, 1390, 1436}  # tables, columns, packet, placeholders, stack
_TOO_LARGE_WORDS = (
    "too many columns",
    "too many sql variables",
    "expression tree is too large",
    "parser stack overflow",
    "number of parameters must be between",
)
# A character that the database cannot keep, or not compare with what it keeps.
_NOT_KEPT_SQLSTATE = "22P05"  # untranslatable character
_NOT_KEPT_MYSQL = {1267, 1366, 3854, 3988}  # mix of collations, string value; MySQL: conversion
# MariaDB's older utf8, the character set of many databases of OpenStack placement, ends here.
_LAST_OF_UTF8MB3 = "\uffff"


@contextmanager
def translated() -> Iterator[None]:
    """Turn what a driver raises about itself (not about the data) into :class:`Unavailable`.

    A statement too long for the database is the fault of the request, and becomes
    :class:`TooComplex`; a character that the database cannot keep, :class:`Invalid`.
    """
    try:
        yield
    except PoolTimeout as failure:
        raise Unavailable("the database has no free connection just now") from failure
    except UnicodeEncodeError as failure:  # psycopg cannot write it in the database's encoding
        reason = f"its encoding is {failure.encoding}"
        raise Invalid(_cannot_keep(failure.object[failure.start], reason)) from failure
    except DBAPIError as failure:
        _check_characters(failure)
        about_itself = isinstance(failure, OperationalError | InterfaceError)
        if about_itself and _is_too_large(failure):
            raise TooComplex(
                "the request names more than the database takes in one statement"
            ) from failure
        if about_itself or failure.connection_invalidated:
            raise Unavailable(_sentence(failure) or "the database does not answer") from failure
        if sentence := _sentence(failure):
            raise Unavailable(sentence) from failure
        raise


def is_worth_retrying(failure: Exception) -> bool:
    """Return whether a new transaction may succeed where one failed with :class:`Unavailable`."""
    cause = failure.__cause__
    return isinstance(cause, DBAPIError) and (
        cause.connection_invalidated or _code(cause) in _CONCURRENT
    )


def is_late(failure: Exception) -> bool:
    """Return whether :class:`Unavailable` was raised for a statement that took too long."""
    cause = failure.__cause__
    return isinstance(cause, DBAPIError) and _code(cause) in _LATE


def conflict_of(failure: Exception) -> str | None:
    """Return what kind of conflict :class:`Unavailable` was raised for; None for none."""
    cause = failure.__cause__
    if not isinstance(cause, DBAPIError):
        return None
    code = _code(cause)
    return next((kind for codes, kind in _BY_CODES if code in codes), None)


def _sentence(failure: DBAPIError) -> str | None:
    """Return what happened to the database, or None where it is not known."""
    code = _code(failure)
    text = str(code)
    if "file is not a database" in text:
        return "the file is not an SQLite database"
    if code in _NO_TABLE or "no such table" in text:
        return (
            "the database has no schema of this service; run placement-sched db sync, or db adopt "
            "where OpenStack placement made it"
        )
    if code in _LOCKED or "database is locked" in text:
        return LOCKED
    if code in _LATE:
        return "the query took longer than [placement_database] read_timeout; ask for less"
    if code in _CONCURRENT:
        return "the transaction conflicted with concurrent writers; try again"
    return None


def _code(failure: DBAPIError) -> object:
    """Return MariaDB's number (its SQLSTATE says less), PostgreSQL's SQLSTATE, SQLite's text."""
    original = failure.orig
    first = next(iter(getattr(original, "args", ())), None)
    return first if isinstance(first, int) else getattr(original, "sqlstate", None) or first


def _is_too_large(failure: DBAPIError) -> bool:
    code, text = _code(failure), str(failure.orig).lower()
    return (
        code in _TOO_LARGE
        or (isinstance(code, str) and len(code) == 5 and code.startswith(_TOO_LARGE_SQLSTATE))
        or any(words in text for words in _TOO_LARGE_WORDS)
    )


def _check_characters(failure: DBAPIError) -> None:
    """Raise :class:`Invalid` where the failure is about a character that cannot be kept."""
    code = _code(failure)
    if code == _NOT_KEPT_SQLSTATE:
        raise Invalid(
            "a text has a character that the database cannot keep in its character set"
        ) from failure
    if code not in _NOT_KEPT_MYSQL:
        return
    # The same numbers stand for other faults, too, which are not the caller's.
    letters = (letter for text in _texts(failure.params) for letter in text)
    found = next((letter for letter in letters if letter > _LAST_OF_UTF8MB3), None)
    if found is not None:
        raise Invalid(_cannot_keep(found, "its character set is not utf8mb4")) from failure


def _cannot_keep(letter: str, reason: str) -> str:
    return f"the database cannot keep the character {letter} (U+{ord(letter):X}): {reason}"


def _texts(params: object) -> Iterator[str]:
    """Yield every text among the parameters of a statement, or of many."""
    if isinstance(params, str):
        yield params
    elif isinstance(params, Mapping):
        yield from _texts(list(params.values()))
    elif isinstance(params, Iterable) and not isinstance(params, bytes):
        for one in params:
            yield from _texts(one)
