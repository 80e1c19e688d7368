"""Connections to nova's databases: small pools, read only, that give up after seconds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from placement_sched.config.opts import is_explicit
from placement_sched.config.settings import Settings
from placement_sched.db.engine import replace_closed_connections, served_url
from placement_sched.db.errors import connected
from placement_sched.errors import ConfigurationError, Unavailable, one_line

#: Seconds to wait for a connection, and for the answer to one statement.
CONNECT_SECONDS = 5
READ_SECONDS = 15
#: The most characters that MariaDB and MySQL join together: a gigabyte.
_LONGEST = 1 << 30
#: Connections that one process keeps to one database, and how many more it may open for a while.
_KEPT, _MORE = 2, 6


#: What is said where a database is not configured that one needs to follow a nova.
_UNSET = {
    "api_database": "[api_database] connection is not set: name nova's nova.conf with "
    "--config-file",
    "placement_database": "[placement_database] connection is not set: name this service's "
    "database in a second --config-file",
}


class NovaAway(Unavailable):
    """A database of nova does not answer, or has not what nova keeps there."""


class NovaDatabase:
    """One of nova's databases, opened for reading when first asked.

    ``title`` is what messages call it.
    """

    def __init__(self, title: str, url: URL | ConfigurationError) -> None:
        """Take a URL, or what is wrong with it: the database is away then."""
        self.title = title
        self.url = url
        self._engine: Engine | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading; raises :class:`NovaAway`."""
        if isinstance(self.url, ConfigurationError):
            raise NovaAway(self.url.detail)
        if self._engine is None:
            _refuse_absent_file(self.url)
            self._engine = make_reader(self.url)
        try:
            with connected(self._engine) as connection:
                yield connection
        except PoolTimeout as failure:
            raise NovaAway("all connections to it are in use") from failure
        except SQLAlchemyError as failure:
            raise NovaAway(_said(failure)) from failure
        except Unavailable as failure:  # of a driver, such as for a package that is not installed
            raise NovaAway(failure.detail) from failure

    def close(self) -> None:
        """Close its connections."""
        if self._engine is not None:
            self._engine.dispose()


def refuse_unset_databases(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` where no database of nova, or of this service, is named."""
    for group, unset in _UNSET.items():
        if not is_explicit(settings.conf, group, "connection"):
            raise ConfigurationError(unset)


def api_database(settings: Settings) -> NovaDatabase:
    """Return nova's API database; raises :class:`ConfigurationError` where it cannot be one."""
    text = settings.api_database.connection
    if not text:
        raise ConfigurationError(_UNSET["api_database"])
    return NovaDatabase("nova's API database", served_url(text, "[api_database] connection"))


def cell_database(title: str, connection: str | None, settings: Settings) -> NovaDatabase:
    """Return the database of a cell, of the URL or template that its mapping has."""
    try:
        url = served_url(
            filled_in(connection or "", settings.database.connection), "database_connection"
        )
    except ConfigurationError as wrong:
        return NovaDatabase(title, wrong)
    return NovaDatabase(title, url)


def filled_in(template: str, default: str | None) -> str:
    """Return the URL that a cell mapping's template makes of ``[database] connection``.

    Source: nova's guide, "Cells", "Template URLs in cell mappings". Raises
    :class:`ConfigurationError` where the template names what that URL has not.
    """
    if "{" not in template:
        return template
    if not default:
        raise ConfigurationError(
            "database_connection is a template, but [database] connection is not set"
        )
    try:
        return template.format(**_parts(default))
    except (KeyError, IndexError, ValueError) as wrong:
        raise ConfigurationError(
            f"database_connection is a template that cannot be filled in: {one_line(wrong)}"
        ) from None


def _refuse_absent_file(url: URL) -> None:
    """Raise :class:`NovaAway` for an SQLite file that does not exist: opening would create it."""
    file = url.database or ""
    if url.get_backend_name() == "sqlite" and file != ":memory:" and not Path(file).is_file():
        raise NovaAway(f"there is no database {file}")


def _said(failure: SQLAlchemyError) -> str:
    """Return what the driver says, without its error number, the statement and its values."""
    original = getattr(failure, "orig", None) or failure
    number, *rest = original.args or (None,)
    return one_line(rest[0] if isinstance(number, int) and rest else original)


def _parts(url: str) -> Mapping[str, Any]:
    """Return what a template may name; of several hosts, each with its number too."""
    split = urlsplit(url)
    parts: dict[str, Any] = {
        "scheme": split.scheme,
        "path": split.path.lstrip("/"),
        "query": split.query,
        "fragment": split.fragment,
    }
    hosts = split.netloc.split(",")
    for number, host in enumerate(hosts, 1):
        one = urlsplit(f"//{host}")
        for name in ("username", "password", "hostname", "port"):
            parts[f"{name}{number}"] = getattr(one, name)
            parts.setdefault(name, getattr(one, name))
    return parts


def make_reader(url: URL) -> Engine:
    """Return an engine whose sessions cannot write, wherever the database offers that."""
    kind = url.get_backend_name()
    begin: tuple[str, ...] = ()
    if kind == "sqlite":
        arguments: dict[str, Any] = {"timeout": READ_SECONDS}
        begin = ("PRAGMA query_only = ON",)
    elif kind == "postgresql":
        given = url.query.get("options", "")
        options = (
            f"-c default_transaction_read_only=on -c statement_timeout={READ_SECONDS * 1000} "
            f"-c jit=off {given if isinstance(given, str) else given[-1]}"
        )
        arguments = {
            "options": options.rstrip(),
            # A pooler may give each statement another session, which lacks what was prepared.
            "prepare_threshold": None,
            "tcp_user_timeout": READ_SECONDS * 1000,
            # A host that has vanished says nothing: it is asked for a sign of life.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
        }
    else:
        arguments = {"read_timeout": READ_SECONDS, "write_timeout": READ_SECONDS}
        # It cuts what it joins together after a megabyte, MySQL after 1024 characters.
        begin = (
            "SET SESSION TRANSACTION READ ONLY",
            f"SET SESSION group_concat_max_len = {_LONGEST}",
        )
    if kind != "sqlite":
        arguments = {"connect_timeout": CONNECT_SECONDS, **arguments}
        arguments = {
            key: value
            for key, value in arguments.items()
            if key not in url.query or key == "options"
        }
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        connect_args=arguments,
        pool_size=_KEPT,
        max_overflow=_MORE,
        pool_timeout=CONNECT_SECONDS,
        pool_recycle=3600,
        pool_use_lifo=True,
    )
    if kind != "sqlite":
        replace_closed_connections(engine)
    if begin:

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            cursor = connection.cursor()
            for statement in begin:
                cursor.execute(statement)
            cursor.close()

    return engine
