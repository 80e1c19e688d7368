"""Engines for SQLite, PostgreSQL and MariaDB, each set up so that it waits, but not for ever."""

from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from placement_sched.config.placement_database import EMBEDDED
from placement_sched.config.settings import Group, Settings
from placement_sched.db.closed import replace_closed_connections
from placement_sched.db.deadline import stop_late_statements
from placement_sched.db.sql_log import log_statements, sign_statements
from placement_sched.errors import ConfigurationError

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg2": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+mysqldb": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
_KNOWN = {"sqlite", "sqlite+pysqlite", "postgresql+psycopg", "mysql+pymysql"}

#: How a transaction begins on SQLite. IMMEDIATE takes the write lock before anything is read, so
#: a claim never decides on a picture that another writer is about to change.
BEGIN = "BEGIN IMMEDIATE"


def database_url(settings: Settings) -> URL:
    """Return the configured database URL, with the drivers this service uses.

    ``postgresql://`` and ``postgresql+psycopg2://`` mean psycopg 3, ``mysql://`` and
    ``mysql+mysqldb://`` PyMySQL. Raises :class:`ConfigurationError` for what is no URL of a
    database served here.
    """
    text = settings.placement_database.connection or EMBEDDED
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigurationError(
            "[placement_database] connection: not an SQLAlchemy database URL"
        ) from None
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if url.drivername not in _KNOWN:
        raise ConfigurationError(
            f"[placement_database] connection: {url.drivername!r} is not served; "
            "use sqlite, postgresql or mysql"
        )
    if parameters := settings.placement_database.connection_parameters:
        url = url.update_query_pairs(parse_qsl(parameters, keep_blank_values=True))
    if url.drivername.startswith("mysql") and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url


def make_engine(url: URL, settings: Settings, *, autocommit: bool) -> Engine:
    """Return an engine: one that commits each statement (for reading), or one for transactions.

    Transactions run at READ COMMITTED, so that what is read after a lock is what the last writer
    left: a snapshot older than the lock would let two claims both see the same free space.
    """
    options = settings.placement_database
    read_timeout: int = options.read_timeout if autocommit else 0
    log_statements(options.connection_debug)
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
        engine = create_engine(
            url,
            isolation_level="AUTOCOMMIT" if autocommit else "READ COMMITTED",
            connect_args=_connect_args(url, options, read_timeout),
            # Where each statement is committed there is nothing to roll back, which MariaDB would
            # be asked to do all the same.
            skip_autocommit_rollback=True,
            **pool,
        )
        replace_closed_connections(engine)
        if url.get_backend_name() == "mysql":
            _begin_with(engine, _mysql_session(options, read_timeout))
    if options.connection_trace:
        sign_statements(engine)
    return engine


def _connect_args(url: URL, options: Group, read_timeout: int) -> dict[str, Any]:
    """Return what a connection is made with beside what the URL says, which comes first."""
    arguments: dict[str, Any] = {"connect_timeout": 10}
    if url.get_backend_name() != "postgresql" and options.mysql_sql_mode:
        arguments["sql_mode"] = options.mysql_sql_mode
    arguments = {key: value for key, value in arguments.items() if key not in url.query}
    if url.get_backend_name() == "postgresql":
        told = _postgresql_options(options, read_timeout)
        # Of two, PostgreSQL heeds the second.
        arguments["options"] = f"{told} {_said(url, 'options')}".rstrip()
    return arguments


def _begin_with(engine: Engine, statement: str) -> None:
    """Let each connection begin with a statement, after the URL's ``init_command``."""

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)


def _said(url: URL, key: str) -> str:
    """Return what the URL says under a key, the last of several."""
    said = url.query.get(key, "")
    return said if isinstance(said, str) else said[-1]


def _postgresql_options(options: Group, seconds: int) -> str:
    # What is asked takes milliseconds; compiling it first, as PostgreSQL does where it expects
    # many rows, takes more.
    told = f"-c lock_timeout={options.lock_timeout * 1000} -c jit=off"
    return f"{told} -c statement_timeout={seconds * 1000}" if seconds else told


def _mysql_session(options: Group, seconds: int) -> str:
    # To try the joins of a request of ten groups in every order takes MariaDB hours.
    # MySQL cuts what it joins together after 1024 characters; MariaDB after a megabyte.
    told = (
        f"SET SESSION innodb_lock_wait_timeout={options.lock_timeout}, optimizer_search_depth=5, "
        "group_concat_max_len=1048576"
    )
    if not seconds:
        return told
    # MariaDB and MySQL call it differently; each passes over the other's comment.
    return (
        f"{told} /*M!100101 , max_statement_time={seconds} */"
        f" /*!50708 , max_execution_time={seconds * 1000} */"
    )


def _sqlite_engine(url: URL, options: Group, pool: dict[str, Any], *, autocommit: bool) -> Engine:
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
        stop_late_statements(engine, options.read_timeout)
    if not autocommit:

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql(BEGIN)

    return engine
