"""The URLs of databases: the drivers they mean, and whether these can connect with them."""

import sqlite3
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pymysql.connections
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from placement_sched.errors import ConfigurationError, one_line
from placement_sched.settings.options.placement import EMBEDDED
from placement_sched.settings.sources import files_read
from placement_sched.settings.view import Settings

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
