"""Engines for SQLite, PostgreSQL and MariaDB, each set up so that it waits, but not for ever."""

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from placement_sched.config.placement_database import EMBEDDED
from placement_sched.config.settings import Settings
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
    if url.drivername.startswith("mysql") and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url


def make_engine(url: URL, settings: Settings, *, autocommit: bool) -> Engine:
    """Return an engine: one that commits each statement (for reading), or one for transactions.

    Transactions run at READ COMMITTED, so that what is read after a lock is what the last writer
    left: a snapshot older than the lock would let two claims both see the same free space.
    """
    options = settings.placement_database
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, options.lock_timeout, autocommit=autocommit)
    return create_engine(
        url,
        isolation_level="AUTOCOMMIT" if autocommit else "READ COMMITTED",
        pool_size=options.max_pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=options.connection_recycle_time,
        connect_args=_connect_args(url, options.lock_timeout),
    )


def _connect_args(url: URL, lock_timeout: int) -> dict[str, Any]:
    if url.get_backend_name() == "postgresql":
        return {"connect_timeout": 10, "options": f"-c lock_timeout={lock_timeout * 1000}"}
    return {
        "connect_timeout": 10,
        "init_command": f"SET SESSION innodb_lock_wait_timeout={lock_timeout}",
    }


def _sqlite_engine(url: URL, lock_timeout: int, *, autocommit: bool) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "[placement_database] connection: an in-memory SQLite database cannot be shared by "
            "the connections of a server; name a file"
        )
    engine = create_engine(url, connect_args={"timeout": lock_timeout})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # The sqlite3 module opens transactions late and only for writes; we open them ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    if not autocommit:

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            # IMMEDIATE takes the write lock before anything is read, so a claim never
            # decides on a picture that another writer is about to change.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
