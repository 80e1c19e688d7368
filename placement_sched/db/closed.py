"""Connections that the database has closed meanwhile, found when one is taken from the pool.

A restart, an idle timeout or an operator's KILL closes connections that wait here for the next
request, which would fail on each of them. To ask the database each time costs a round trip; to
look whether the socket has something to say costs a microsecond, and a connection at rest has
nothing to say unless it is closed (or a server tells that its settings changed: then it is asked).
"""

import select
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError


def replace_closed_connections(engine: Engine) -> None:
    """Let ``engine`` connect anew in place of connections that were closed by the other side."""
    dialect = engine.dialect
    socket_of = _of_psycopg if dialect.name == "postgresql" else _of_pymysql

    @event.listens_for(engine, "checkout")
    def check(connection: Any, _record: object, _proxy: object) -> None:
        try:
            alive = not _has_something(socket_of(connection)) or dialect.do_ping(connection)
        except (OSError, ValueError, dialect.loaded_dbapi.Error):
            alive = False
        if not alive:
            # What closed this one has closed the others.
            raise InvalidatePoolError


def _has_something(number: int) -> bool:
    waiting = select.poll()
    waiting.register(number, select.POLLIN)
    return bool(waiting.poll(0))


def _of_psycopg(connection: Any) -> int:
    number: int = connection.fileno()
    return number


def _of_pymysql(connection: Any) -> int:
    # It has no public name; None where the connection was closed here.
    sock = connection._sock  # noqa: SLF001
    if sock is None:
        raise OSError("closed")
    number: int = sock.fileno()
    return number
