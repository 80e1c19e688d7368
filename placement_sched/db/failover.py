# SPDX-License-Identifier: Apache-2.0
"""Server epochs: the periods between failovers and restarts of servers.

Caches of a process compare versions and generations. Equal numbers prove that nothing has changed
only while no committed write is lost. A server that takes over may lack the last commits of the
failed server, and a restarted server may have lost its own last commits (``synchronous_commit``,
``innodb_flush_log_at_trx_commit``). The next writer then reuses the same numbers for other data.
Each cache therefore stores the epoch of the connection that read its data, fetched *before* the
data, so that data of an earlier epoch is never used as current.

The epoch is the start time of the server. Each new connection reads it, and open connections read
it again every few seconds, since a pooler may change the server of an open connection. Requests
never read it. A server must restart before it can lose committed data, and any user may query the
start time. PostgreSQL's timeline is not enough: it does not change if a server loses data that it
had not flushed. With ``synchronous_commit = off`` PostgreSQL may lose data when one of its
processes crashes without a restart, which is not detected. The nodes of a Galera cluster (or of
MySQL's group replication) share the epoch of the cluster, since a proxy may lead each connection to
another node.
"""

from collections.abc import Hashable
from typing import Any

from oslo_log import log
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

LOG = log.getLogger(__name__)

#: An epoch as a comparable value. None for SQLite, which has a single epoch.
ServerEpoch = Hashable | None

#: The key of a connection's ``info`` for its epoch.
EPOCH_KEY = "placement_sched.epoch"

_POSTGRESQL_QUERY = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, "
    # The oid distinguishes a database that was restored from a dump under its old name.
    "(SELECT oid::text FROM pg_database WHERE datname = current_database()), pg_backend_pid()"
)
#: Executions after which psycopg prepares a statement automatically: never.
_NEVER = 1 << 30
# A node without a quorum accepts no statement but SHOW.
_GALERA = "wsrep_cluster_state_uuid"
_CLUSTER_QUERIES = (
    f"SHOW GLOBAL STATUS LIKE '{_GALERA}'",
    "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'",
)
# UUID_SHORT() begins with the server id and the second of the last start. Many servers have the id
# 1, so that host and port are needed.
_MARIADB_QUERY = "SELECT UUID_SHORT() >> 24, @@hostname, @@port"


def get_epoch(connection: Connection) -> ServerEpoch:
    """Return the epoch that was read last on a connection."""
    epoch: ServerEpoch = connection.info.get(EPOCH_KEY)
    return epoch


def is_cluster_node(epoch: ServerEpoch) -> bool:
    """Return whether the epoch is that of a Galera cluster."""
    return isinstance(epoch, tuple) and epoch[0] == _GALERA


def wait_until_current(connection: Connection) -> None:
    """Wait until a Galera node has applied all commits of the cluster.

    Call it before the first statement of a transaction, because the node does not wait within a
    transaction. The driver's error for a lock timeout is raised if the node takes too long
    (``repl.causal_read_timeout``).
    """
    previous = connection.exec_driver_sql("SELECT @@SESSION.wsrep_sync_wait").scalar_one()
    connection.exec_driver_sql("SET SESSION wsrep_sync_wait = 1")
    try:
        connection.exec_driver_sql("SELECT 1")
    finally:
        connection.exec_driver_sql(f"SET SESSION wsrep_sync_wait = {previous}")


class EpochTracker:
    """Tracker of the current epoch that closes connections of earlier epochs.

    A server that was declared dead may still answer. Connections to it must not be used once
    another server has taken over.
    """

    def __init__(self) -> None:
        #: The epoch that was read last on any connection. None before the first connection.
        self.current: ServerEpoch = None

    def follow(self, engine: Engine) -> None:
        """Track the epochs of connections, and replace outdated connections."""
        kind = engine.dialect.name
        if kind == "sqlite":  # a file has a single epoch
            return

        @event.listens_for(engine, "connect")
        def record_epoch(connection: Any, record: Any) -> None:
            self.read_again(kind, connection, record.info)
            connection.rollback()  # a statement may have begun a transaction

        @event.listens_for(engine, "checkout")
        def check_epoch(_connection: Any, record: Any, _proxy: object) -> None:
            if record.info.get(EPOCH_KEY, self.current) != self.current:
                raise DisconnectionError

    def read_again(self, kind: str, driver: Any, info: dict[Any, Any]) -> None:
        """Read the epoch again, as a pooler may have changed the server."""
        with driver.cursor() as cursor:
            if kind == "postgresql":
                cursor.execute(_POSTGRESQL_QUERY)
                *values, process_id = cursor.fetchone()
                # A pooler reports a process id of its own for each client.
                driver.has_own_session = process_id == driver.info.backend_pid
                driver.prepare_threshold = _NEVER if driver.has_own_session else None
            else:
                for query in (*_CLUSTER_QUERIES, _MARIADB_QUERY):
                    cursor.execute(query)
                    values = cursor.fetchone()
                    if values and values[1]:
                        break
        epoch = info[EPOCH_KEY] = tuple(values)
        previous, self.current = self.current, epoch
        if previous not in {None, epoch}:
            LOG.warning(
                "the database was restarted, or another server has taken over: the caches of this "
                "process are reloaded"
            )
