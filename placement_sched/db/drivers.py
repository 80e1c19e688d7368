"""Connections of psycopg and PyMySQL that give up a silent database and mark their commits.

The drivers do everything else. With a pooler like PgBouncer each transaction may have another
session of PostgreSQL: a connection keeps prepared statements only in a session of its own.
"""

import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
import pymysql.connections
from psycopg.pq import TransactionStatus
from pymysql.constants import CLIENT, CR
from pymysql.err import InternalError, MySQLError, OperationalError
from sqlalchemy import Connection, Engine, ExceptionContext, event

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
    #: Whether the session belongs to the connection, with no pooler between (db/histories.py).
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
