# SPDX-License-Identifier: Apache-2.0
"""MariaDB and MySQL connections by PyMySQL."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pymysql.connections
from pymysql.constants import CLIENT, CR
from pymysql.err import InternalError, MySQLError, OperationalError

from placement_sched.db.engine import KEEPALIVE_OPTIONS


def connect(
    arguments: Sequence[Any], options: dict[str, Any], within: float | None, *, marks: bool
) -> "MariaDBConnection":
    """Open a connection with keepalive, and with a limit on silence in seconds.

    With ``marks`` the server accepts a query of several statements.
    """
    if marks:
        options["client_flag"] = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS
    limit = options.pop("read_timeout", within)
    # PyMySQL sets no timeout for the server's greeting.
    greeting = options.get("connect_timeout")
    connection = MariaDBConnection(*arguments, read_timeout=greeting, **options)
    connection.limit_silence(limit)
    enable_keepalive(connection)
    return connection


def enable_keepalive(connection: Any) -> None:
    """Set :data:`KEEPALIVE_OPTIONS` on the socket of a PyMySQL connection."""
    sock = connection._sock  # noqa: SLF001 - PyMySQL has no option for it
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, number in KEEPALIVE_OPTIONS.values():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), number)


class MariaDBConnection(pymysql.connections.Connection):
    """PyMySQL connection with a limit on silence and with a replaceable COMMIT."""

    _result: Any  # missing in the type stubs, as the next three
    _force_close: Any
    _read_timeout: float | None
    _write_timeout: float | None
    #: The query that replaces the next COMMIT if the transaction has written.
    commit_with: str | None = None
    _has_written = False

    def limit_silence(self, within: float | None) -> float | None:
        """Limit silence to ``within`` seconds (None: no limit), and return the old limit."""
        previous, self._read_timeout, self._write_timeout = self._read_timeout, within, within
        return previous

    def _read_packet(self, *arguments: Any) -> Any:
        try:
            return super()._read_packet(*arguments)  # type: ignore[no-untyped-call]
        except InternalError as failure:
            if self.open:  # an error of the database
                raise
            raise self._lost(failure) from failure

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        """Read a response, treating a malformed response as a lost connection.

        If a change through another node aborts a statement, a Galera node may truncate the response
        or send its end twice. The remainder would be read as the next response.
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
        """Commit the transaction, by :attr:`commit_with` if it is set."""
        query = self.commit_with if self._has_written else None
        self._has_written, self.commit_with = False, None
        if query is None:
            super().commit()
            return
        try:
            self.query(query)
            while self._result.has_next:
                self.next_result()
        except MySQLError:  # COMMIT was not executed
            with suppress(MySQLError):
                self.rollback()
            raise

    def rollback(self) -> None:
        """Roll back the transaction."""
        self._has_written, self.commit_with = False, None
        super().rollback()


def check_parameters(options: dict[str, Any]) -> None:
    """Reject URL parameters that PyMySQL does not accept.

    Raises an exception of any type.
    """
    pymysql.connections.Connection(**options, defer_connect=True)
