"""Engines for SQLite, PostgreSQL and MariaDB, each set up so that it waits, but not for ever.

Each statement that an engine sends can be counted, planned for its values, logged and signed.
"""

import logging
import select
import socket
import sqlite3
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import signature
from math import inf
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any
from urllib.parse import parse_qsl

import psycopg
import pymysql.connections
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, TransactionStatus
from pymysql.constants import CLIENT, CR
from pymysql.err import InternalError, MySQLError, OperationalError
from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, InvalidatePoolError
from sqlalchemy.pool import PoolResetState

from placement_sched.config.options.placement import EMBEDDED
from placement_sched.config.settings import OptionGroup, Settings
from placement_sched.config.sources import files_read
from placement_sched.errors import ConfigurationError, one_line
from placement_sched.model.request_stats import request_stats

#: The error of a Galera node that does not see most of the others, or has not caught up with them.
NO_QUORUM = 1047
#: Options of libpq and sockets that give up a vanished machine 10 s after something was sent.
SIGNS_OF_LIFE = {
    "keepalives_idle": ("TCP_KEEPIDLE", 5),
    "keepalives_interval": ("TCP_KEEPINTVL", 2),
    "keepalives_count": ("TCP_KEEPCNT", 3),
    "tcp_user_timeout": ("TCP_USER_TIMEOUT", 10_000),
}


def connect_by_own_drivers(engine: Engine, within: float | None, *, marks: bool = False) -> None:
    """Connect an engine by these classes; ``marks`` lets MariaDB take COMMIT with a statement."""

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        if engine.dialect.name == "postgresql":
            postgresql = PostgreSQLConnection.connect(*arguments, **options)
            postgresql.limit_silence(within)
            return postgresql
        if marks:
            options["client_flag"] = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS
        limit = options.pop("read_timeout", within)
        # PyMySQL would wait for the server's greeting for ever.
        greeting = options.get("connect_timeout")
        mariadb = MariaDBConnection(*arguments, read_timeout=greeting, **options)
        mariadb.limit_silence(limit)
        ask_for_signs_of_life(mariadb)
        return mariadb


@contextmanager
def answering(connection: Connection, within: float | None) -> Iterator[None]:
    """Give up ``connection`` after ``within`` seconds of silence; None: never."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, PostgreSQLConnection | MariaDBConnection):
        yield  # a file, or an engine of others
        return
    before = driver.limit_silence(within)
    try:
        yield
    finally:
        driver.limit_silence(before)


def leave_nodes_without_quorum(engine: Engine) -> None:
    """Treat a connection as lost if its node of a Galera cluster has stopped to serve."""

    @event.listens_for(engine, "handle_error")
    def note(context: ExceptionContext) -> None:
        if context.original_exception.args[:1] == (NO_QUORUM,):
            context.is_disconnect = True


def ask_for_signs_of_life(connection: Any) -> None:
    """Set the socket options of :data:`SIGNS_OF_LIFE` for PyMySQL, which has none of its own."""
    sock = connection._sock  # noqa: SLF001 - PyMySQL has no option for it
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, number in SIGNS_OF_LIFE.values():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), number)


class PostgreSQLConnection(psycopg.Connection[Any]):
    """psycopg's connection, with a limit of silence and a query that replaces COMMIT."""

    _within: float | None = None
    #: Whether the session belongs to the connection, with no pooler between (db/failover.py).
    has_own_session = False
    #: The query that commits the next transaction: statements and COMMIT.
    commit_with: str | None = None

    def limit_silence(self, within: float | None) -> float | None:
        """Give up the connection after ``within`` seconds of silence; return the former limit."""
        before, self._within = self._within, within
        return before

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait as psycopg does, which wakes up every 0.1 s."""
        return super().wait(self._limited(gen), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        ready, heard = None, monotonic()
        while True:
            try:
                ready = yield gen.send(ready)
            except StopIteration as end:
                return end.value
            if ready:
                heard = monotonic()
            elif self._within is not None and monotonic() - heard > self._within:
                self.close()
                message = f"the database has said nothing for {self._within:g} seconds"
                raise psycopg.OperationalError(message) from TimeoutError()

    def commit(self) -> None:
        """Commit the transaction, by :attr:`commit_with` if it is set."""
        query, self.commit_with = self.commit_with, None
        if query is None or self.info.transaction_status != TransactionStatus.INTRANS:
            super().commit()
            return
        try:
            self.execute(query.encode())
        except psycopg.Error:  # no later statement was run, such as COMMIT
            with suppress(psycopg.Error):
                self.rollback()
            raise

    def rollback(self) -> None:
        """Roll the transaction back."""
        self.commit_with = None
        super().rollback()


class MariaDBConnection(pymysql.connections.Connection):
    """PyMySQL's connection, with limits of silence and a query that replaces COMMIT."""

    _result: Any  # which the type stubs lack, like the next three
    _force_close: Any
    _read_timeout: float | None
    _write_timeout: float | None
    #: The query that commits the next transaction, if it has written: statements and COMMIT.
    commit_with: str | None = None
    _has_written = False

    def limit_silence(self, within: float | None) -> float | None:
        """Give up the connection after ``within`` seconds of silence; return the former limit."""
        before, self._read_timeout, self._write_timeout = self._read_timeout, within, within
        return before

    def _read_packet(self, *arguments: Any) -> Any:
        try:
            return super()._read_packet(*arguments)  # type: ignore[no-untyped-call]
        except InternalError as failure:
            if self.open:  # an error of the database
                raise
            raise self._lost(failure) from failure

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        """Read an answer; one that makes no sense is treated as a lost connection.

        A Galera node may cut an answer short, or say twice how a statement ended, if a change
        through another node ended it. The rest would be read as the next answer.
        """
        try:
            affected = super()._read_query_result(unbuffered)  # type: ignore[misc]
        except MySQLError:
            raise
        except Exception as failure:
            raise self._lost(failure) from failure
        if affected and self._result.description is None:
            self._has_written = True
        return affected

    def _lost(self, failure: Exception) -> OperationalError:
        self._force_close()
        return OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server ({failure})")

    def commit(self) -> None:
        """Commit the transaction, by :attr:`commit_with` if it is set and anything was written."""
        query = self.commit_with if self._has_written else None
        self._has_written, self.commit_with = False, None
        if query is None:
            super().commit()
            return
        try:
            self.query(query)
            while self._result.has_next:
                self.next_result()
        except MySQLError:  # no later statement was run, such as COMMIT
            with suppress(MySQLError):
                self.rollback()
            raise

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._has_written, self.commit_with = False, None
        super().rollback()


#: How a transaction begins on SQLite. IMMEDIATE takes the write lock before anything is read, so
#: a claim never decides on a picture that another writer is about to change.
BEGIN = "BEGIN IMMEDIATE"
#: The statements that begin a transaction of a writer, which are not counted.
_BEGINNINGS = (BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_HERE = str(Path(__file__).resolve().parent)


def count_statements(engines: Iterable[Engine]) -> None:
    """Count each statement of ``engines`` in the statistics of the request that sends it.

    It listens to the dialects: an engine with listeners gives each connection a dispatcher of
    its own, which takes longer than all that is counted. It listens from the first connection on,
    when the dialects have asked what they want to know of the database.
    """

    def note(_cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(_BEGINNINGS):
            request_stats().statements += 1

    def begin(engine: Engine) -> None:
        for done in ("do_execute", "do_execute_no_params", "do_executemany"):
            event.listen(engine, done, note)

    for engine in engines:
        event.listen(engine, "connect", lambda *_, engine=engine: begin(engine), once=True)


def sign_statements(engine: Engine) -> None:
    """Append to each statement of ``engine`` a comment with the function and line that sent it."""

    def sign(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any
    ) -> tuple[str, Any]:
        return f"{statement} /* {_sender(sys._getframe(1))} */", parameters  # noqa: SLF001 - what inspect.currentframe() is, one frame up

    event.listen(engine, "before_cursor_execute", sign, retval=True)


def _sender(frame: FrameType | None) -> str:
    """Return where in this package, outside of ``db``, the call came from."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE) and not code.co_filename.startswith(_HERE):
            path = code.co_filename.removeprefix(_PACKAGE).lstrip("/")
            return f"{path}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
    return "placement_sched"


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


_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg2": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+mysqldb": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
#: The parameters of a URL that name files which have to exist.
_FILES = frozenset({"ssl_ca", "ssl_cert", "ssl_key", "sslcert", "sslkey"})
_TLS = "TLS is set by ssl_ca, ssl_cert, ssl_key, ssl_verify_cert and ssl_verify_identity"
#: What lets PyMySQL check its parameters without connecting.
_DEFERRED = "defer_connect"
#: Parameters of PyMySQL that no text can be.
_OBJECTS = frozenset({_DEFERRED, "auth_plugin_map", "conv", "cursorclass"})
_LAST_PORT = 65_535
#: Numbers that libpq does not check for the socket of a folder.
_NUMBERS = frozenset(
    {
        "connect_timeout",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "tcp_user_timeout",
    }
)
#: A folder in which no PostgreSQL has its socket.
_NOWHERE = "/nonexistent"
_KNOWN = {"sqlite", "sqlite+pysqlite", "postgresql+psycopg", "mysql+pymysql"}


def database_url(settings: Settings) -> URL:
    """Return the configured URL, with its ``connection_parameters``, as :func:`served_url` does.

    Without any configuration file it is a file in the working directory.
    """
    text = settings.placement_database.connection
    if not text and (files := files_read(settings.conf)):
        raise ConfigurationError(
            f"[placement_database] connection is not set in {', '.join(files)}: name a database, "
            f"such as {EMBEDDED}"
        )
    url = served_url(text or EMBEDDED, "[placement_database] connection")
    if parameters := settings.placement_database.connection_parameters:
        url = url.update_query_pairs(parse_qsl(parameters, keep_blank_values=True))
        _check_parameters(url, "[placement_database] connection_parameters")
    return url


def served_url(text: str, place: str) -> URL:
    """Return the database URL that stands in ``place``, with the drivers this service uses.

    ``postgresql://`` and ``postgresql+psycopg2://`` mean psycopg 3, ``mysql://`` and
    ``mysql+mysqldb://`` PyMySQL. Raises :class:`ConfigurationError` for what is not the URL of a
    supported database, or has parameters with which its driver cannot connect.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(f"{place}: not an SQLAlchemy database URL") from None
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if url.drivername not in _KNOWN:
        raise ConfigurationError(
            f"{place}: {url.drivername!r} is not served; use sqlite, postgresql or mysql"
        )
    if url.drivername.startswith("mysql") and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    _check_parameters(url, place)
    return url


def _check_parameters(url: URL, place: str) -> None:
    """Raise :class:`ConfigurationError` for URL parameters with which no connection can be made."""
    for name in _files_of(url) & url.query.keys():
        file = str(url.query[name])
        if not Path(file).is_file():
            raise ConfigurationError(f"{place}: there is no file {file} ({name})")
    kind = url.get_backend_name()
    # A certificate needs its key, and SQLite reads all parameters as parts of one file name.
    together = {name for name in url.query if kind == "sqlite" or name.startswith("ssl")}
    for names in (together, *({name} for name in url.query if name not in together)):
        some = url.set(query={name: url.query[name] for name in names})
        try:
            options = dict(some.get_dialect()().create_connect_args(some)[1])
            _check_ports(options)
            _CHECKS[kind](options)
        except Exception as wrong:  # noqa: BLE001 - drivers raise what they like
            named = "".join(f"{name}: " for name in sorted(names))
            raise ConfigurationError(f"{place}: {named}{one_line(wrong)}") from None


def _check_ports(options: Mapping[str, Any]) -> None:
    # PostgreSQL takes several.
    for port in filter(None, str(options.get("port") or "").split(",")):
        if not 0 < int(port) <= _LAST_PORT:
            raise ValueError(f"port {port} is not between 1 and {_LAST_PORT}")


def _check_sqlite(options: dict[str, Any]) -> None:
    sqlite3.connect(":memory:", **options).close()


def _check_postgresql(options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name != "context"}
    for name in _NUMBERS & options.keys():
        int(options[name])
    # libpq checks the values before it connects, and there is no server at this address.
    elsewhere = {"host": _NOWHERE, "hostaddr": None, "port": None}
    tried = PGconn.connect_start(make_conninfo(**options | elsewhere).encode())
    said = tried.error_message.decode(errors="replace")
    tried.finish()
    if _NOWHERE not in said and "local socket" not in said:  # gssencmode=require needs TCP
        raise ValueError(said)


def _check_mysql(options: dict[str, Any]) -> None:
    known = signature(pymysql.connections.Connection.__init__).parameters.keys()
    if options.keys() - known or _OBJECTS & options.keys():
        raise ValueError(f"PyMySQL has no such parameter; remove it ({_TLS})")
    try:
        pymysql.connections.Connection(**options | {_DEFERRED: True})
    except (TypeError, AttributeError, KeyError):
        raise ValueError(f"PyMySQL does not take this value ({_TLS})") from None


_CHECKS = {"sqlite": _check_sqlite, "postgresql": _check_postgresql, "mysql": _check_mysql}


def _files_of(url: URL) -> frozenset[str]:
    """Return the names of the parameters that name files which have to exist."""
    verifies = str(url.query.get("sslmode", "")).startswith("verify")
    if verifies and url.query.get("sslrootcert") != "system":
        return _FILES | {"sslrootcert"}
    return _FILES
