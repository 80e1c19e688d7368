"""Histories of a database: within one, what has once been read of it is never undone.

Caches of a process compare versions and generations, which say that nothing has changed only as
long as they go on from where they were. A server that takes over may lack what another one had
committed last, and one that was started again may have lost it (``synchronous_commit``,
``innodb_flush_log_at_trx_commit``). The next writer then gives the same numbers to other contents.
So whatever is remembered of the database is remembered with the history of the connection that it
was read by, asked *before* it is read: what a request under way has read of another history is
never taken for what the database says now.

Each new connection is asked for the start of its server, and again every few seconds, because a
pooler keeps a connection open while it changes the server; no request is. A server has to start
before it can lack what it has shown, and any user may ask for it. PostgreSQL's timeline says less:
it stays where a server lost what it had not written yet. With ``synchronous_commit = off`` even a
server that goes on after one of its processes crashed may lack it, which is not seen. The nodes of
a Galera cluster (or of MySQL's group replication) share one history, that of the cluster, since a
proxy may lead each connection to another node.
"""

from collections.abc import Hashable
from typing import Any

from oslo_log import log
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

LOG = log.getLogger(__name__)

#: A history as it is compared; None where there is but one, as of a file.
History = Hashable | None

#: Where a connection's ``info`` has the history that it is of.
HISTORY = "placement_sched.history"

_OF_POSTGRESQL = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, "
    # A database that was restored from a dump under its old name.
    "(SELECT oid::text FROM pg_database WHERE datname = current_database()), pg_backend_pid()"
)
#: How often psycopg sends a statement before it prepares it without being asked to.
_NEVER = 1 << 30
# A node without a quorum answers SHOW, and nothing else.
_OF_CLUSTERS = (
    "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'",
    "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'",
)
# UUID_SHORT() begins with the server's number and the second of its last start; many servers have
# the number 1.
_OF_MARIADB = "SELECT UUID_SHORT() >> 24, @@hostname, @@port"


def history_of(connection: Connection) -> History:
    """Return the history that is read by a connection: asked when it was opened, no statement."""
    found: History = connection.info.get(HISTORY)
    return found


def _ask(kind: str, driver: Any) -> History:
    with driver.cursor() as cursor:
        return _of_postgresql(cursor) if kind == "postgresql" else _of_mariadb(cursor)


class Histories:
    """The history that the connections of a process lead to now, after which others are closed.

    A server that was taken for dead may still answer: connections to it must not serve once another
    has taken over.
    """

    def __init__(self) -> None:
        #: That of the connection opened last; None before there is one.
        self.current: History = None

    def follow(self, engine: Engine) -> None:
        """Note the history of each new connection of an engine, and replace those of others."""
        kind = engine.dialect.name
        if kind == "sqlite":  # a file has but one
            return

        @event.listens_for(engine, "connect")
        def ask(connection: Any, record: Any) -> None:
            self.ask_again(kind, connection, record.info)
            connection.rollback()  # a statement may have begun a transaction

        @event.listens_for(engine, "checkout")
        def check(_connection: Any, record: Any, _proxy: object) -> None:
            if self.is_past(record.info):
                raise DisconnectionError

    def ask_again(self, kind: str, driver: Any, info: dict[Any, Any]) -> None:
        """Note the history that an open connection has now: a pooler may have replaced its server.

        Raises the driver's own error.
        """
        self._note(info, _ask(kind, driver))

    def is_past(self, info: dict[Any, Any]) -> bool:
        """Return whether a connection with this ``info`` is of another history than the current."""
        return bool(info.get(HISTORY, self.current) != self.current)

    def _note(self, info: dict[Any, Any], found: History) -> None:
        info[HISTORY] = found
        before, self.current = self.current, found
        if before not in {None, found}:
            LOG.warning(
                "the database was started again, or another server has taken over: what this "
                "process remembers of it is read again"
            )


def _of_postgresql(cursor: Any) -> History:
    cursor.execute(_OF_POSTGRESQL)
    *history, process = cursor.fetchone()
    driver = cursor.connection
    # A pooler has a number of its own for each client.
    driver.has_own_session = process == driver.info.backend_pid
    driver.prepare_threshold = _NEVER if driver.has_own_session else None
    return tuple(history)


def _of_mariadb(cursor: Any) -> History:
    for question in _OF_CLUSTERS:
        cursor.execute(question)
        if (row := cursor.fetchone()) and row[1]:
            return tuple(row)
    cursor.execute(_OF_MARIADB)
    return tuple(cursor.fetchone())
