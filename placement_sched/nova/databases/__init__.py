# SPDX-License-Identifier: Apache-2.0
"""Read-only connections to nova's API database and cell databases."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from placement_sched.config.settings import Settings, is_explicit
from placement_sched.db.engine import (
    LIBPQ_KEEPALIVE_OPTIONS,
    get_url_options,
    parse_url,
    replace_closed_connections,
    use_own_connections,
)
from placement_sched.db.errors import connect, lacks_table
from placement_sched.errors import ConfigurationError, Unavailable, format_one_line

#: Seconds to wait for a connection, and for the result of a statement.
CONNECT_SECONDS = 5
READ_SECONDS = 15
#: Maximum length of an aggregated string on MariaDB and MySQL, in characters.
_MAX_GROUP_CONCAT = 1 << 30
#: Connections of a process to a database: kept open, and opened in addition under load.
_POOL_SIZE, _MAX_OVERFLOW = 2, 6


#: Messages for missing connection options that this service needs to follow nova.
_UNSET_MESSAGES = {
    "api_database": "[api_database] connection is not set: name nova's nova.conf with "
    "--config-file",
    "placement_database": "[placement_database] connection is not set: name this service's "
    "database in a second --config-file",
}


class NovaDatabaseUnavailable(Unavailable):
    """A database of nova does not answer, or lacks nova's tables."""


class WrongNovaDatabase(NovaDatabaseUnavailable):
    """A database that lacks a table of nova."""


class NovaDatabase:
    """A database of nova, opened read-only on first use, named ``title``."""

    def __init__(self, title: str, url: URL | ConfigurationError) -> None:
        """Store an URL, or the error of an invalid URL for :meth:`read`."""
        self.title = title
        self.url = url
        self._engine: Engine | None = None
        # Threads that open the database at the same time share an engine.
        self._opening = Lock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only connection, or raise NovaDatabaseUnavailable."""
        if isinstance(self.url, ConfigurationError):
            raise NovaDatabaseUnavailable(self.url.detail)
        with self._opening:
            if self._engine is None:
                file = self.url.database or ""
                # Opening would create a missing file.
                is_file = self.url.get_backend_name() == "sqlite" and file != ":memory:"
                if is_file and not Path(file).is_file():
                    raise NovaDatabaseUnavailable(f"there is no database {file}")
                self._engine = make_reader(self.url)
            engine = self._engine
        try:
            with connect(engine) as connection:
                yield connection
        except PoolTimeout as failure:
            raise NovaDatabaseUnavailable("all connections to it are in use") from failure
        except SQLAlchemyError as failure:
            if lacks_table(failure):
                raise WrongNovaDatabase(
                    f"the configured database is not {self.title}: {_format_error(failure)}"
                ) from failure
            raise NovaDatabaseUnavailable(_format_error(failure)) from failure
        except Unavailable as failure:  # from a driver, for example if it is not installed
            raise NovaDatabaseUnavailable(failure.detail) from failure

    def close(self) -> None:
        """Close all connections."""
        if self._engine is not None:
            self._engine.dispose()


def check_databases_set(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` if a required connection is not set."""
    for group, message in _UNSET_MESSAGES.items():
        if not is_explicit(settings.conf, group, "connection"):
            raise ConfigurationError(message)


def get_api_database(settings: Settings) -> NovaDatabase:
    """Return nova's API database, or raise :class:`ConfigurationError`."""
    text = settings.api_database.connection
    if not text:
        raise ConfigurationError(_UNSET_MESSAGES["api_database"])
    return NovaDatabase("nova's API database", parse_url(text, "[api_database] connection"))


def get_cell_database(title: str, connection: str | None, settings: Settings) -> NovaDatabase:
    """Return a cell's database for the URL or template in its cell mapping."""
    try:
        url = parse_url(
            fill_template(connection or "", settings.database.connection), "database_connection"
        )
    except ConfigurationError as error:
        return NovaDatabase(title, error)
    return NovaDatabase(f"the database of {title}", url)


def fill_template(template: str, default: str | None) -> str:
    """Fill in the URL template of a cell mapping.

    ``default`` is the URL ``[database] connection``. Source: nova's guide, "Cells", "Template URLs
    in cell mappings". Raises :class:`ConfigurationError` if ``default`` lacks a part.
    """
    if "{" not in template:
        return template
    if not default:
        raise ConfigurationError(
            "database_connection is a template, but [database] connection is not set"
        )
    try:
        return template.format(**_build_template_parts(default))
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigurationError(
            f"database_connection is a template that cannot be filled in: {format_one_line(error)}"
        ) from None


def _format_error(failure: SQLAlchemyError) -> str:
    """Return the driver's message, without error number and statement."""
    original = getattr(failure, "orig", None) or failure
    error_number, *details = original.args or (None,)
    return format_one_line(details[0] if isinstance(error_number, int) and details else original)


def _build_template_parts(url: str) -> Mapping[str, Any]:
    """Return the values for a template, from the parts of a URL.

    Each host of a URL with several hosts has numbered values: ``hostname1``, ``port2``. Values
    without a number are from the first host.
    """
    split = urlsplit(url)
    parts: dict[str, Any] = {
        "scheme": split.scheme,
        "path": split.path.lstrip("/"),
        "query": split.query,
        "fragment": split.fragment,
    }
    hosts = split.netloc.split(",")
    for index, host in enumerate(hosts, 1):
        parsed = urlsplit(f"//{host}")
        for name in ("username", "password", "hostname", "port"):
            parts[f"{name}{index}"] = getattr(parsed, name)
            parts.setdefault(name, getattr(parsed, name))
    return parts


def make_reader(url: URL) -> Engine:
    """Create an engine with read-only sessions and a limit for each wait."""
    kind = url.get_backend_name()
    begin: tuple[str, ...] = ()
    if kind == "sqlite":
        arguments: dict[str, Any] = {"timeout": READ_SECONDS}
        begin = ("PRAGMA query_only = ON",)
    elif kind == "postgresql":
        options = (
            f"-c default_transaction_read_only=on -c statement_timeout={READ_SECONDS * 1000} "
            f"-c jit=off {get_url_options(url)}"
        )
        arguments = {
            "options": options.rstrip(),
            # A pooler may run each statement in another session, without prepared statements.
            "prepare_threshold": None,
            # A host that has vanished sends nothing: only keepalive probes detect it.
            **LIBPQ_KEEPALIVE_OPTIONS,
        }
    else:
        arguments = {"read_timeout": READ_SECONDS, "write_timeout": READ_SECONDS}
        # By default, aggregated strings are cut off at 1 MiB (MariaDB) or 1024 characters (MySQL).
        begin = (
            "SET SESSION TRANSACTION READ ONLY",
            f"SET SESSION group_concat_max_len = {_MAX_GROUP_CONCAT}",
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
        pool_size=_POOL_SIZE,
        max_overflow=_MAX_OVERFLOW,
        pool_timeout=CONNECT_SECONDS,
        pool_recycle=3600,
        pool_use_lifo=True,
    )
    if kind != "sqlite":
        replace_closed_connections(engine)
    if engine.dialect.driver == "pymysql":
        use_own_connections(engine, READ_SECONDS)
    if begin:

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            cursor = connection.cursor()
            for statement in begin:
                cursor.execute(statement)
            cursor.close()

    return engine
