# SPDX-License-Identifier: Apache-2.0
"""Database engines for SQLite, PostgreSQL and MariaDB, with time limits.

Statements can be counted, logged and annotated with the line that sent them.
"""

import logging
import select
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from math import inf
from pathlib import Path
from time import monotonic
from traceback import walk_stack
from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.pool import PoolResetState

from placement_sched.config.options.placement import EMBEDDED
from placement_sched.config.settings import OptionGroup, Settings
from placement_sched.config.sources import list_files
from placement_sched.db.commit_marks import replace_commits
from placement_sched.errors import ConfigurationError, format_one_line
from placement_sched.model.request_stats import get_request_stats

#: MariaDB's error code of a Galera node that has no quorum or is still synchronizing.
NO_QUORUM = 1047
#: Keepalive options of libpq and sockets: a dead server is detected 10 s after data was sent.
KEEPALIVE_OPTIONS = {
    "keepalives_idle": ("TCP_KEEPIDLE", 5),
    "keepalives_interval": ("TCP_KEEPINTVL", 2),
    "keepalives_count": ("TCP_KEEPCNT", 3),
    "tcp_user_timeout": ("TCP_USER_TIMEOUT", 10_000),
}
LIBPQ_KEEPALIVE_OPTIONS = {name: number for name, (_, number) in KEEPALIVE_OPTIONS.items()}

#: Begins a transaction on SQLite. IMMEDIATE takes the write lock before the first read, so that a
#: claim never uses rows that another writer is about to change.
BEGIN = "BEGIN IMMEDIATE"
#: The statements that begin a writer's transaction. They are not counted.
_BEGIN_STATEMENTS = (BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_HERE = str(Path(__file__).resolve().parent)

#: SQLite's virtual machine steps between two checks of the deadline: well below a millisecond.
_SQLITE_STEPS = 10_000
#: The key of a connection's ``info`` for the time when its statement is interrupted.
_DEADLINE = "placement_sched.deadline"
#: The key of a connection's ``info`` for the pool that opened it.
_POOL = "placement_sched.pool"
#: Seconds added to the statement timeout before a silent connection is dropped, because a statement
#: may wait for a lock.
GRACE = 10

# The minimum values of connection_debug that log statements and rows, as in oslo.db.
_MIN_DEBUG_STATEMENTS, _MIN_DEBUG_ROWS = 50, 100

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg2": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+mysqldb": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
#: URL parameters that name files, which must exist.
_FILE_PARAMETERS = frozenset({"ssl_ca", "ssl_cert", "ssl_key", "sslcert", "sslkey"})
_LAST_PORT = 65_535
_SUPPORTED = {"sqlite", "sqlite+pysqlite", "postgresql+psycopg", "mysql+pymysql"}


def use_own_connections(engine: Engine, within: float | None, *, marks: bool = False) -> None:
    """Make an engine open connections of this package's driver classes.

    A connection is closed if the database sends nothing for ``within`` seconds. With ``marks``,
    :func:`~placement_sched.db.commit_marks.replace_commits` can be used.
    """
    driver = _import_driver(engine.dialect.name)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        return driver.connect(arguments, options, within, marks=marks)


def _import_driver(kind: str) -> Any:
    """Import the module for ``postgresql`` or ``mysql``, optional packages."""
    try:
        return import_module(f"placement_sched.db.{kind}")
    except ModuleNotFoundError as missing:
        raise ConfigurationError(
            f"the database driver {missing.name} is not installed: "
            f"pip install 'placement-sched[{kind}]'"
        ) from None


@contextmanager
def limit_connection_silence(connection: Connection, within: float | None) -> Iterator[None]:
    """Drop a connection after a silence of ``within`` seconds (None: never)."""
    driver: Any = connection.connection.driver_connection
    if not hasattr(driver, "limit_silence"):
        yield  # SQLite, or an engine with connections of its own
        return
    previous = driver.limit_silence(within)
    try:
        yield
    finally:
        driver.limit_silence(previous)


def drop_faulty_connections(engine: Engine) -> None:
    """Drop connections to a faulty Galera node.

    A node is faulty if it has no quorum, or if it sends the end of a response twice, as it may do
    when a change through another node aborts a statement.
    """

    @event.listens_for(engine, "handle_error")
    def mark_as_lost(context: ExceptionContext) -> None:
        failure = context.original_exception
        if failure.args[:1] == (NO_QUORUM,) or "Packet sequence" in str(failure):
            context.is_disconnect = True


def count_statements(engines: Iterable[Engine]) -> None:
    """Count the statements of ``engines`` in the request's statistics.

    The listeners are for events of the dialects. Listeners for events of an engine would add a
    dispatcher to each connection, which takes more time than the counting. Counting starts with the
    first connection, after the dialects have read the properties of the database.
    """

    def count_statement(_cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(_BEGIN_STATEMENTS):
            get_request_stats().statements += 1

    def listen(engine: Engine) -> None:
        for event_name in ("do_execute", "do_execute_no_params", "do_executemany"):
            event.listen(engine, event_name, count_statement)

    for engine in engines:
        event.listen(engine, "connect", lambda *_, engine=engine: listen(engine), once=True)


def append_sender_comments(engine: Engine) -> None:
    """Append a comment with the function and line outside ``db`` that sends."""

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def sign(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any
    ) -> tuple[str, Any]:
        for frame, line in walk_stack(None):
            code = frame.f_code
            if code.co_filename.startswith(_PACKAGE) and not code.co_filename.startswith(_HERE):
                path = code.co_filename.removeprefix(_PACKAGE).lstrip("/")
                return f"{statement} /* {path}:{line} {code.co_qualname} */", parameters
        return f"{statement} /* placement_sched */", parameters


def make_engine(url: URL, settings: Settings, *, autocommit: bool) -> Engine:
    """Create an engine for reading (``autocommit``) or for transactions.

    Transactions run at READ COMMITTED, so that a read after a lock returns the rows of the last
    writer. With a snapshot older than the lock, two claims could use the same capacity.
    """
    options = settings.placement_database
    read_timeout: int = options.read_timeout if autocommit else 0
    within = options.read_timeout + GRACE if options.read_timeout else None
    if options.connection_debug >= _MIN_DEBUG_STATEMENTS:
        level = logging.DEBUG if options.connection_debug >= _MIN_DEBUG_ROWS else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)
    pool = {
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
        "pool_recycle": options.connection_recycle_time,
        # The connection used last has the recent statements in its cache.
        "pool_use_lifo": True,
    }
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite_engine(url, options, pool, autocommit=autocommit)
    else:
        is_mysql = url.get_backend_name() == "mysql"
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED" if is_mysql and not autocommit else "AUTOCOMMIT",
            connect_args=_connect_args(url, options, read_timeout),
            # A reader commits each statement and has nothing to roll back.
            skip_autocommit_rollback=autocommit,
            pool_reset_on_return=None,
            **pool,
        )
        replace_closed_connections(engine)
        use_own_connections(engine, within, marks=not autocommit)
        if not autocommit:
            replace_commits(engine)
            _roll_back_on_return(engine)
        if is_mysql:
            _set_session_variables(engine, options, read_timeout)
            drop_faulty_connections(engine)
        else:
            # Insert several rows with each statement. The driver would send row by row.
            engine.dialect.use_insertmanyvalues_wo_returning = True
        if not (is_mysql or autocommit):
            _begin_with(engine, begin_statement(url, settings, "READ COMMITTED", read_timeout=0))
    close_replaced_connections(engine)
    if options.connection_trace:
        append_sender_comments(engine)
    return engine


def _connect_args(url: URL, options: OptionGroup, read_timeout: int) -> dict[str, Any]:
    """Build the connect arguments that the URL does not set itself."""
    is_postgresql = url.get_backend_name() == "postgresql"
    arguments = {
        "connect_timeout": 10,
        "sql_mode": None if is_postgresql else options.mysql_sql_mode,
    }
    if is_postgresql:
        arguments |= LIBPQ_KEEPALIVE_OPTIONS
    arguments = {key: value for key, value in arguments.items() if value and key not in url.query}
    if is_postgresql:
        settings = _build_postgresql_settings(url, options, read_timeout)
        words = [f"-c {name}={value}" for name, value in settings.items()]
        arguments["options"] = " ".join([*words, get_url_options(url)]).rstrip()
        # A pooler may give each transaction another session, without the prepared statements.
        # db/sql.py prepares statements if the connection has its own session.
        arguments["prepare_threshold"] = None
    return arguments


def get_url_options(url: URL) -> str:
    """Return the ``options`` of libpq in a URL, or an empty string."""
    options = url.query.get("options", "")
    return options if isinstance(options, str) else options[-1]


def _build_postgresql_settings(
    url: URL, options: OptionGroup, read_timeout: int
) -> dict[str, object]:
    """Return the settings that the ``options`` in the URL do not set."""
    # PostgreSQL's JIT compilation of queries that expect many rows takes longer than the queries.
    settings = {"lock_timeout": options.lock_timeout * 1000, "jit": "off"}
    if read_timeout:
        settings["statement_timeout"] = read_timeout * 1000
    return {name: value for name, value in settings.items() if name not in get_url_options(url)}


def begin_statement(url: URL, settings: Settings, isolation: str, *, read_timeout: int) -> str:
    """Build the statement that begins a transaction on PostgreSQL.

    It includes settings for the transaction, because a pooler may give each transaction another
    session, and may ignore the settings of the connection.
    """
    values = _build_postgresql_settings(url, settings.placement_database, read_timeout)
    local = (f"SET LOCAL {name} = {value}" for name, value in values.items())
    return "; ".join([f"BEGIN ISOLATION LEVEL {isolation}", *local])


def _set_session_variables(engine: Engine, options: OptionGroup, seconds: int) -> None:
    # Without a limit, MariaDB spends hours on the join order of a request with ten groups.
    # MySQL truncates GROUP_CONCAT after 1024 characters by default, MariaDB after a megabyte.
    text = (
        f"SET SESSION innodb_lock_wait_timeout={options.lock_timeout}, optimizer_search_depth=5, "
        "group_concat_max_len=1048576"
    )
    if seconds:
        # The setting has different names on MariaDB and MySQL. Each ignores the other's comment.
        text += (
            f" /*M!100101 , max_statement_time={seconds} */"
            f" /*!50708 , max_execution_time={seconds * 1000} */"
        )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)


def _begin_with(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


def _roll_back_on_return(engine: Engine) -> None:
    """Roll back an open transaction when the pool gets its connection back.

    If the ROLLBACK fails, for example because a database with a full disk has stopped, the
    connection is discarded without the traceback that the pool would log.
    """

    @event.listens_for(engine, "reset")
    def roll_back(connection: Any, record: Any, state: PoolResetState) -> None:
        if state.transaction_was_reset:
            return
        try:
            connection.rollback()
            connection.commit_with, connection.has_written = None, False
        except engine.dialect.loaded_dbapi.Error as failure:
            record.invalidate(e=failure)


def _create_sqlite_engine(
    url: URL, options: OptionGroup, pool: dict[str, Any], *, autocommit: bool
) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "[placement_database] connection: an in-memory SQLite database cannot be shared by "
            "the connections of a server. Use a file"
        )
    engine = create_engine(url, connect_args={"timeout": options.lock_timeout}, **pool)
    synchronous = "NORMAL" if options.sqlite_synchronous else "OFF"

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # _begin_with begins transactions. sqlite3 would begin them only at the first write.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")

    if autocommit and options.read_timeout:

        @event.listens_for(engine, "connect")
        def watch(connection: Any, record: Any) -> None:
            info = record.info
            info[_DEADLINE] = inf
            connection.set_progress_handler(lambda: monotonic() > info[_DEADLINE], _SQLITE_STEPS)

        @event.listens_for(engine, "before_cursor_execute")
        def begin(connection: Connection, *_statement: object) -> None:
            connection.info[_DEADLINE] = monotonic() + options.read_timeout

    if not autocommit:
        _begin_with(engine, BEGIN)
    return engine


def replace_closed_connections(engine: Engine) -> None:
    """Replace idle connections that the database has closed.

    A restart, an idle timeout or an operator's KILL closes idle connections, and a request on such
    a connection would fail. A ping for every checkout would cost a round trip. Polling the socket
    costs a microsecond: an idle connection has data to read only if it was closed, or if the server
    reports a changed setting. Only in this case the database is pinged.
    """

    @event.listens_for(engine, "checkout")
    def check(connection: Any, _record: object, _proxy: object) -> None:
        if not is_open(engine.dialect, connection):
            # The other connections of the pool were closed for the same reason.
            raise InvalidatePoolError


def close_replaced_connections(engine: Engine) -> None:
    """Close a returned connection if ``engine.dispose()`` replaced its pool."""

    @event.listens_for(engine, "connect")
    def record_pool(_connection: Any, record: Any) -> None:
        record.info[_POOL] = engine.pool

    @event.listens_for(engine, "checkin")
    def close(_connection: Any, record: Any) -> None:
        if record.info.get(_POOL) is not engine.pool:
            record.invalidate()


def is_open(dialect: Dialect, connection: Any) -> bool:
    """Return whether a driver's connection is open (always true on SQLite)."""
    if dialect.name == "sqlite":
        return True
    poll = select.poll()
    try:
        if (descriptor := connection.fileno()) >= 0:
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(0):
                return True
        return dialect.do_ping(connection)
    except (OSError, ValueError, dialect.loaded_dbapi.Error):
        return False


def build_database_url(settings: Settings) -> URL:
    """Return the URL of ``[placement_database]``, with its parameters.

    Without any configuration file it is an SQLite file in the working directory. Raises the errors
    of :func:`parse_url`, and :class:`ConfigurationError` if the files do not set a connection.
    """
    text = settings.placement_database.connection
    if not text and (files := list_files(settings.conf)):
        raise ConfigurationError(
            f"[placement_database] connection is not set in {', '.join(files)}: name a database, "
            f"such as {EMBEDDED}"
        )
    url = parse_url(text or EMBEDDED, "[placement_database] connection")
    if parameters := settings.placement_database.connection_parameters:
        url = url.update_query_pairs(parse_qsl(parameters, keep_blank_values=True))
        _check_parameters(url, "[placement_database] connection_parameters")
    return url


def parse_url(text: str, option: str) -> URL:
    """Parse a database URL and set the driver that this service uses.

    ``postgresql://`` and ``postgresql+psycopg2://`` mean psycopg 3, ``mysql://`` and
    ``mysql+mysqldb://`` PyMySQL. Raises :class:`ConfigurationError`, naming ``option``, for an
    unsupported or malformed URL and for parameters that the driver does not accept.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if text.partition("://")[2].partition("/")[0].count("@") > 1 or (
        url and "@" in (url.host or "")
    ):
        raise ConfigurationError(
            f"{option}: the URL has an @ in the user or the password: write it as %40"
        )
    if url is None:
        raise ConfigurationError(f"{option}: not an SQLAlchemy database URL")
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if url.drivername not in _SUPPORTED:
        raise ConfigurationError(
            f"{option}: {url.drivername!r} is not supported: use sqlite, postgresql or mysql"
        )
    if url.drivername.startswith("mysql") and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    _check_parameters(url, option)
    return url


def _check_parameters(url: URL, option: str) -> None:
    for name in _FILE_PARAMETERS & url.query.keys():
        file = str(url.query[name])
        if not Path(file).is_file():
            raise ConfigurationError(f"{option}: there is no file {file} ({name})")
    try:
        options = dict(url.get_dialect()().create_connect_args(url)[1])
        # PostgreSQL accepts several ports.
        for port in filter(None, str(options.get("port") or "").split(",")):
            if not 0 < int(port) <= _LAST_PORT:
                raise ValueError(f"port {port} is not between 1 and {_LAST_PORT}")  # noqa: TRY301
        if (kind := url.get_backend_name()) == "sqlite":
            sqlite3.connect(":memory:", **options).close()
        else:
            _import_driver(kind).check_parameters(options)
    except ConfigurationError:
        raise
    except Exception as failure:  # noqa: BLE001 - drivers raise exceptions of any type
        raise ConfigurationError(
            f"{option}: the driver does not accept the parameters: {format_one_line(failure)}"
        ) from None
