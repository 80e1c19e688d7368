"""Begin, retry, give up: the one place where transactions are opened and tried again."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from placement_sched.config.settings import Settings
from placement_sched.db.characters import unkept, unsent
from placement_sched.db.engine import database_url, make_engine
from placement_sched.db.plans import plan_by_value
from placement_sched.db.tally import Tally, count_statements
from placement_sched.db.write_gate import LOCKED, WriteGate
from placement_sched.errors import Conflict, Invalid, TooComplex, Unavailable

T = TypeVar("T")

# What a database says when two writers met and one must start again.
_RIVALRY_SQLSTATES = {"40001", "40P01"}  # PostgreSQL: serialization failure, deadlock
_RIVALRY_MYSQL = {1213, 1020}  # deadlock; record changed since last read
# What it says when a lock was not given in time.
_LOCKED_SQLSTATES = {"55P03"}
_LOCKED_MYSQL = {1205}
# What it says of a statement that it stopped after [placement_database] read_timeout.
_LATE_SQLSTATES = {"57014"}
_LATE_MYSQL = {1969, 3024}  # MariaDB, MySQL
_MISSING_SQLSTATES = {"42P01"}
_MISSING_MYSQL = {1146}
# What it says of a statement that it does not take for its length.
_TOO_LARGE_SQLSTATE = "54"  # PostgreSQL's class: program limit exceeded
_TOO_LARGE_MYSQL = {1116, 1117, 1153, 1390, 1436}  # tables, columns, packet, placeholders, stack
_TOO_LARGE_WORDS = (
    "too many columns",
    "too many sql variables",
    "expression tree is too large",
    "parser stack overflow",
    "number of parameters must be between",
)


#: How a connection that commits each statement is told to look at one moment.
_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}


class Database:
    """A database as the faces and the claim use it: read, or write all or nothing.

    Two pools stand on it: one commits each statement (reads need no transaction of their own and
    save its round trips), the other opens transactions at READ COMMITTED.
    """

    def __init__(self, settings: Settings) -> None:
        self.url = database_url(settings)
        self._max_retries: int = settings.placement.allocation_conflict_retry_count
        self.reader: Engine = make_engine(self.url, settings, autocommit=True)
        self.writer: Engine = make_engine(self.url, settings, autocommit=False)
        self._gate: AbstractContextManager[None] = (
            WriteGate() if self.url.get_backend_name() == "sqlite" else nullcontext()
        )
        #: What the current thread has done here since it last called ``tally.reset()``.
        self.tally = Tally()
        count_statements((self.reader, self.writer), self.tally)
        plan_by_value(self.reader)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading.

        Raises :class:`Unavailable` where the database does not answer and :class:`TooComplex` for
        a statement too long for it.
        """
        with _plain_words(), self.reader.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see the database as it is at one moment.

        Nothing is to be written there. Raises what :meth:`read` raises.
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
        boundedly often; any other exception rolls back and goes up. Raises :class:`Unavailable`
        when the database stays locked or does not answer.
        """
        attempt = 0
        while True:
            try:
                with self._gate, _plain_words(), self.writer.begin() as connection:
                    return work(connection)
            except Unavailable as failure:
                attempt += 1
                if attempt > self._max_retries or not _worth_retrying(failure.__cause__):
                    raise
                self.tally.retries += 1
                time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 5)))  # noqa: S311 - jitter

    def claim(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which allocates, as :meth:`write` does, and tally how it ended.

        It is lost where ``work`` raises :class:`Conflict`, which goes up.
        """
        retries = self.tally.retries
        try:
            done = self.write(work)
        except Conflict:
            self.tally.claims_lost += 1
            raise
        finally:
            self.tally.claims_retried += self.tally.retries - retries
        self.tally.claims_won += 1
        return done

    def dispose(self) -> None:
        """Close every pooled connection (before a fork, and at the end)."""
        self.reader.dispose()
        self.writer.dispose()


@contextmanager
def _plain_words() -> Iterator[None]:
    """Turn what a driver raises about itself (not about the data) into :class:`Unavailable`.

    A statement that no database takes for its length is the fault of who asked so much, and
    becomes :class:`TooComplex`; a character that the database cannot keep, :class:`Invalid`.
    """
    try:
        yield
    except PoolTimeout as failure:
        raise Unavailable("the database has no free connection just now") from failure
    except (OperationalError, InterfaceError) as failure:
        _refuse_unkept(failure)
        if _is_too_large(failure):
            raise TooComplex(_TOO_LARGE) from failure
        raise Unavailable(_sentence(failure)) from failure
    except UnicodeEncodeError as failure:
        raise Invalid(unsent(failure)) from failure
    except DBAPIError as failure:
        _refuse_unkept(failure)
        unusable = failure.connection_invalidated or _is_no_database(failure)
        if unusable or _is_missing(failure) or _rivalry(failure):
            raise Unavailable(_sentence(failure)) from failure
        raise


def _refuse_unkept(failure: DBAPIError) -> None:
    if told := unkept(failure, _code(failure)):
        raise Invalid(told) from failure


_TOO_LARGE = "the request names more than the database takes in one statement"


def _is_too_large(failure: DBAPIError) -> bool:
    code, told = _code(failure), str(failure.orig).lower()
    return (
        code in _TOO_LARGE_MYSQL
        or (isinstance(code, str) and len(code) == 5 and code.startswith(_TOO_LARGE_SQLSTATE))
        or any(words in told for words in _TOO_LARGE_WORDS)
    )


def _sentence(failure: DBAPIError) -> str:
    if _is_no_database(failure):
        return "the file is no SQLite database"
    if _is_missing(failure):
        return (
            "the database has no schema of this service; run placement-sched db sync, or db adopt "
            "where OpenStack placement made it"
        )
    if _locked(failure):
        return LOCKED
    if _late(failure):
        return "the database needed longer than [placement_database] read_timeout; ask for less"
    if _rivalry(failure):
        return "the database was too busy with rival writers; try again"
    return "the database does not answer"


def _code(failure: DBAPIError) -> object:
    """Return MariaDB's number (its SQLSTATE tells less), PostgreSQL's SQLSTATE, SQLite's text."""
    original = failure.orig
    first = next(iter(getattr(original, "args", ())), None)
    return first if isinstance(first, int) else getattr(original, "sqlstate", None) or first


def _rivalry(failure: DBAPIError) -> bool:
    code = _code(failure)
    return code in _RIVALRY_SQLSTATES or code in _RIVALRY_MYSQL


def _locked(failure: DBAPIError) -> bool:
    code = _code(failure)
    return code in _LOCKED_SQLSTATES or code in _LOCKED_MYSQL or "database is locked" in str(code)


def _late(failure: DBAPIError) -> bool:
    code = _code(failure)
    return code in _LATE_SQLSTATES or code in _LATE_MYSQL or code == "interrupted"


def _is_missing(failure: DBAPIError) -> bool:
    code = _code(failure)
    return code in _MISSING_SQLSTATES or code in _MISSING_MYSQL or "no such table" in str(code)


def _is_no_database(failure: DBAPIError) -> bool:
    return "file is not a database" in str(_code(failure))


def _worth_retrying(cause: BaseException | None) -> bool:
    if not isinstance(cause, DBAPIError):
        return False
    return _rivalry(cause) or cause.connection_invalidated
