# SPDX-License-Identifier: Apache-2.0
"""MariaDB and MySQL connections by PyMySQL."""

import socket
from collections.abc import Callable, Sequence
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import CLIENT, CR
from pymysql.err import MySQLError, OperationalError

from placement_sched.db.engine import KEEPALIVE_OPTIONS


def connect(
    arguments: Sequence[Any], options: dict[str, Any], within: float | None, *, marks: bool = False
) -> "MariaDBConnection":
    """Open a connection with keepalive and a limit on silence, in seconds."""
    if marks:
        options["client_flag"] = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS
    options.setdefault("write_timeout", within)
    limit = options.pop("read_timeout", within)
    # PyMySQL sets no timeout for the server's greeting.
    greeting = options.get("connect_timeout")
    connection = MariaDBConnection(*arguments, read_timeout=greeting, **options)
    connection.limit_silence(limit)
    return connection


class MariaDBConnection(Connection):
    """PyMySQL connection with a limit on silence."""

    #: Whether the transaction has written (``commit_marks.replace_commits`` resets it).
    has_written = False
    _read_timeout: float | None  # missing in the type stubs
    _descriptor = -1

    def connect(self, sock: socket.socket | None = None) -> None:
        """Connect, by TCP with :data:`KEEPALIVE_OPTIONS`."""
        if not self.unix_socket:
            source = (self.bind_address, 0) if self.bind_address else None
            try:
                sock = socket.create_connection(
                    (self.host, self.port), self.connect_timeout, source
                )
            except OSError as failure:
                message = f"Can't connect to MySQL server on {self.host!r} ({failure})"
                raise OperationalError(CR.CR_CONN_HOST_ERROR, message) from failure
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, number in KEEPALIVE_OPTIONS.values():
                if hasattr(socket, option):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), number)
            self._descriptor = sock.fileno()  # TLS replaces the object, but not its descriptor
        super().connect(sock)

    def fileno(self) -> int:
        """Return the socket's descriptor, or -1 if closed or for a Unix socket."""
        return self._descriptor if self.open else -1

    def limit_silence(self, within: float | None) -> float | None:
        """Set the limit of silence (None: unlimited), and return the old limit."""
        previous, self._read_timeout = self._read_timeout, within
        return previous

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Execute a query, and set ``has_written`` if it changed rows."""
        affected = int(self._execute(super().query, sql, unbuffered))
        if affected and not (isinstance(sql, str) and sql.startswith(("SELECT", "SHOW"))):
            self.has_written = True
        return affected

    def next_result(self, unbuffered: bool = False) -> int:
        """Read the next result of a query of several statements."""
        return int(self._execute(super().next_result, unbuffered))

    def commit(self) -> None:
        """Commit the transaction."""
        self._execute(super().commit)

    def rollback(self) -> None:
        """Roll back the transaction."""
        self._execute(super().rollback)

    def _execute(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method, and treat a malformed response as a lost connection.

        If a change through another node aborts a statement, a Galera node may truncate the
        response. The remainder would be read as the next response.
        """
        try:
            return method(*arguments)
        except (MySQLError, UnicodeEncodeError):
            raise
        except Exception as failure:
            self.close()
            message = f"Lost connection to MySQL server ({failure})"
            raise OperationalError(CR.CR_SERVER_LOST, message) from failure

    def close(self) -> None:
        """Close the connection, unless it is closed."""
        if self.open:
            super().close()


def check_parameters(options: dict[str, Any]) -> None:
    """Raise any exception for URL parameters that PyMySQL does not accept."""
    Connection(**options, defer_connect=True)
