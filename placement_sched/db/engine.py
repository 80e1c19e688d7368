"""Engines for SQLite, PostgreSQL and MariaDB, each set up so that it waits, but not for ever.

Each statement that an engine sends can be counted, planned for its values, logged and signed.
"""

import logging
import select
from math import inf
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError
from sqlalchemy.pool import PoolResetState

from placement_sched.db.drivers import (
    SIGNS_OF_LIFE,
    connect_by_own_drivers,
    leave_nodes_without_quorum,
)
from placement_sched.db.statements import BEGIN, sign_statements
from placement_sched.errors import ConfigurationError
from placement_sched.settings.view import OptionGroup, Settings

# How many steps SQLite's machine makes between two looks at the clock: well below a millisecond.
_SQLITE_STEPS = 10_000
_DEADLINE = "placement_sched.deadline"
#: The key of a connection's ``info`` for the number of :class:`Replaceable` when it was opened.
_NUMBER = "placement_sched.number"
#: Seconds for which a database that has stopped a statement is waited for: it may wait for a lock.
GRACE = 10

# From these values of connection_debug on statements and rows are logged, as oslo.db has it.
_STATEMENTS, _ROWS = 50, 100


def make_engine(url: URL, settings: Settings, *, autocommit: bool) -> Engine:
    """Return an engine: one that commits each statement (for reading), or one for transactions.

    Transactions run at READ COMMITTED, so that what is read after a lock is what the last writer
    left: a snapshot older than the lock would let two claims both see the same free space.
    """
    options = settings.placement_database
    read_timeout: int = options.read_timeout if autocommit else 0
    within = options.read_timeout + GRACE if options.read_timeout else None
    if options.connection_debug >= _STATEMENTS:
        level = logging.DEBUG if options.connection_debug >= _ROWS else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)
    pool = {
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
        "pool_recycle": options.connection_recycle_time,
        # The connection used last knows the statements asked last.
        "pool_use_lifo": True,
    }
    if url.get_backend_name() == "sqlite":
        engine = _sqlite_engine(url, options, pool, autocommit=autocommit)
    else:
        is_mysql = url.get_backend_name() == "mysql"
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED" if is_mysql and not autocommit else "AUTOCOMMIT",
            connect_args=_connect_args(url, options, read_timeout),
            # Each statement of a reader is committed, so that there is nothing to roll back.
            skip_autocommit_rollback=autocommit,
            pool_reset_on_return=None,
            **pool,
        )
        replace_closed_connections(engine)
        connect_by_own_drivers(engine, within, marks=not autocommit)
        if not autocommit:
            _roll_back_on_return(engine)
        if is_mysql:
            _set_session(engine, options, read_timeout)
            leave_nodes_without_quorum(engine)
        elif not autocommit:
            _begin_with(engine, begin_statement(url, settings, "READ COMMITTED", read_timeout=0))
    if options.connection_trace:
        sign_statements(engine)
    return engine


def _connect_args(url: URL, options: OptionGroup, read_timeout: int) -> dict[str, Any]:
    """Return what a connection is made with beside what the URL says, which comes first."""
    postgresql = url.get_backend_name() == "postgresql"
    arguments = {"connect_timeout": 10, "sql_mode": None if postgresql else options.mysql_sql_mode}
    if postgresql:
        arguments |= {name: number for name, (_, number) in SIGNS_OF_LIFE.items()}
    arguments = {key: value for key, value in arguments.items() if value and key not in url.query}
    if postgresql:
        settings = _postgresql_settings(url, options, read_timeout)
        words = [f"-c {name}={value}" for name, value in settings.items()]
        arguments["options"] = " ".join([*words, _url_options(url)]).rstrip()
        # A pooler may give each transaction another session, which lacks what was prepared. What is
        # prepared in a session of one's own is in db/frequent_statements.py.
        arguments["prepare_threshold"] = None
    return arguments


def _url_options(url: URL) -> str:
    options = url.query.get("options", "")
    return options if isinstance(options, str) else options[-1]


def _postgresql_settings(url: URL, options: OptionGroup, read_timeout: int) -> dict[str, object]:
    """Return the settings of each session, or transaction, that the URL's options do not name."""
    # A query takes milliseconds. PostgreSQL compiles it first if it expects many rows: that takes
    # more.
    settings = {"lock_timeout": options.lock_timeout * 1000, "jit": "off"}
    if read_timeout:
        settings["statement_timeout"] = read_timeout * 1000
    return {name: value for name, value in settings.items() if name not in _url_options(url)}


def begin_statement(url: URL, settings: Settings, isolation: str, *, read_timeout: int) -> str:
    """Return the statement that begins a transaction on PostgreSQL, with its settings.

    They are the transaction's: a pooler gives each transaction a session, and may ignore the
    settings of a connection.
    """
    values = _postgresql_settings(url, settings.placement_database, read_timeout)
    local = (f"SET LOCAL {name} = {value}" for name, value in values.items())
    return "; ".join([f"BEGIN ISOLATION LEVEL {isolation}", *local])


def _set_session(engine: Engine, options: OptionGroup, seconds: int) -> None:
    """Let each connection to MariaDB begin with our settings, after the URL's ``init_command``."""
    # To try the joins of a request of ten groups in every order takes MariaDB hours.
    # MySQL cuts what it joins together after 1024 characters; MariaDB after a megabyte.
    text = (
        f"SET SESSION innodb_lock_wait_timeout={options.lock_timeout}, optimizer_search_depth=5, "
        "group_concat_max_len=1048576"
    )
    if seconds:
        # MariaDB and MySQL name it differently; each ignores the other's comment.
        text += (
            f" /*M!100101 , max_statement_time={seconds} */"
            f" /*!50708 , max_execution_time={seconds * 1000} */"
        )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)


def _begin_with(engine: Engine, statement: str) -> None:
    """Begin each transaction of an engine with ``statement``."""

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


def _roll_back_on_return(engine: Engine) -> None:
    """Roll back what a connection still has open when it comes back to the pool.

    A database that refuses a COMMIT may end before the ROLLBACK, as on a full disk. Then there is
    nothing to roll back, and the connection is given up; the pool itself would log a traceback.
    """

    @event.listens_for(engine, "reset")
    def roll_back(connection: Any, record: Any, state: PoolResetState) -> None:
        if state.transaction_was_reset:
            return
        try:
            connection.rollback()
        except engine.dialect.loaded_dbapi.Error as failure:
            record.invalidate(e=failure)


def _sqlite_engine(
    url: URL, options: OptionGroup, pool: dict[str, Any], *, autocommit: bool
) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "[placement_database] connection: an in-memory SQLite database cannot be shared by "
            "the connections of a server; name a file"
        )
    engine = create_engine(url, connect_args={"timeout": options.lock_timeout}, **pool)
    synchronous = "NORMAL" if options.sqlite_synchronous else "OFF"

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # The sqlite3 module opens transactions late and only for writes; we open them ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")

    if autocommit and options.read_timeout:
        _stop_late_statements(engine, options.read_timeout)
    if not autocommit:
        _begin_with(engine, BEGIN)
    return engine


def _stop_late_statements(engine: Engine, seconds: int) -> None:
    """Interrupt each statement of an SQLite engine after so many seconds; no option does it."""

    @event.listens_for(engine, "connect")
    def watch(connection: Any, record: Any) -> None:
        info = record.info
        info[_DEADLINE] = inf
        connection.set_progress_handler(lambda: monotonic() > info[_DEADLINE], _SQLITE_STEPS)

    @event.listens_for(engine, "before_cursor_execute")
    def begin(connection: Connection, *_statement: object) -> None:
        connection.info[_DEADLINE] = monotonic() + seconds


def replace_closed_connections(engine: Engine) -> None:
    """Let the pool of ``engine`` replace connections that the database has closed meanwhile.

    A restart, an idle timeout or an operator's KILL closes connections that wait here for the
    next request, which would fail on each of them. To ask the database each time costs a round
    trip; to look whether the socket has something to read costs a microsecond, and a connection
    at rest has nothing unless it is closed (or the server reports a changed setting: then the
    database is asked).
    """

    @event.listens_for(engine, "checkout")
    def check(connection: Any, _record: object, _proxy: object) -> None:
        if not is_open(engine.dialect, connection):
            # What closed this one has closed the others.
            raise InvalidatePoolError


class Replaceable:
    """An engine whose connections can all be replaced, while threads use some of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._number = engine, 0
        event.listen(engine, "connect", self._note)
        event.listen(engine, "checkout", self._check)
        event.listen(engine, "checkin", self._close)

    def replace_all(self) -> None:
        """Close each connection: idle ones at the next checkout, others when they are returned."""
        self._number += 1
        if self._engine.dialect.name == "sqlite":  # opens the file again only if none is open
            self._engine.dispose()

    def dispose(self) -> None:
        """Close each connection: idle ones now, others when they are returned."""
        self._number += 1
        self._engine.dispose()

    def _note(self, _connection: Any, record: Any) -> None:
        record.info[_NUMBER] = self._number

    def _check(self, _connection: Any, record: Any, _fairy: object) -> None:
        if record.info[_NUMBER] != self._number:
            raise DisconnectionError

    def _close(self, _connection: Any, record: Any) -> None:
        if record.info.get(_NUMBER, self._number) != self._number:
            record.invalidate()


def is_open(dialect: Dialect, connection: Any) -> bool:
    """Return whether a driver's connection is still open, which SQLite's always are."""
    if dialect.name == "sqlite":
        return True
    # PyMySQL's socket has no public name; it is None where the connection was closed here.
    sock = connection if dialect.name == "postgresql" else connection._sock  # noqa: SLF001
    waiting = select.poll()
    try:
        if sock is None:
            return False
        waiting.register(sock.fileno(), select.POLLIN)
        return not waiting.poll(0) or dialect.do_ping(connection)
    except (OSError, ValueError, dialect.loaded_dbapi.Error):
        return False
