"""Leases: work that one process of all servers does, as long as it is alive.

A process that takes a lease holds it for some seconds, renews it while it is at work, and loses it
to any other once it no longer does. Times are the database's, as clocks of machines differ. A
process that stands still for longer than its lease may go on with a piece of work after another has
begun the same: so leases are for work that is only a waste if it is done twice, such as deleting
what is old, never for what must not be.
"""

import os
import secrets
import socket
from threading import Lock
from time import monotonic

from oslo_log import log
from sqlalchemy import text

from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Error, sentence

LOG = log.getLogger(__name__)

_NOW = {
    "postgresql": "timezone('UTC', clock_timestamp())",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
    "mysql": "UTC_TIMESTAMP(6)",
}
_LATER = {
    "postgresql": "timezone('UTC', clock_timestamp()) + make_interval(secs => {})",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '+{} seconds')",
    "mysql": "UTC_TIMESTAMP(6) + INTERVAL {} SECOND",
}
# A lease that ends later than any process can have set it was taken before the clock of the
# database went back: its holder, if it lives, renews it.
_RENEW = (
    "UPDATE sched_leases SET holder = :holder, expires_at = {later} "
    "WHERE name = :name AND (holder = :holder OR expires_at <= {now} OR expires_at > {much_later})"
)
_INSERT = (
    "INSERT{ignore} INTO sched_leases (name, holder, expires_at) "
    "VALUES (:name, :holder, {later}){nothing}"
)
_RELEASE = "UPDATE sched_leases SET expires_at = {now} WHERE name = :name AND holder = :holder"
_MOST_OF_HOST = 200


class Lease:
    """The lease ``name``, for ``seconds`` at a time, as one process takes it; for any thread."""

    def __init__(self, database: Database, name: str, seconds: int) -> None:
        self._database = database
        self._name, self._seconds = name, seconds
        self._turn = Lock()
        self._holder, self._process = "", 0
        self._until = 0.0

    def is_held(self) -> bool:
        """Return whether this process holds the lease: takes one that is free, renews its own.

        Where it was taken or renewed less than half its time ago, that costs no statement. Where
        the database does not answer, or takes no writes, it is not held; nothing is raised.
        """
        with self._turn:
            if self._process != os.getpid():  # never what a process before a fork had
                self._process, self._until = os.getpid(), 0.0
                host = socket.gethostname()[:_MOST_OF_HOST]
                self._holder = f"{host}/{self._process}/{secrets.token_hex(8)}"
            begun = monotonic()
            if begun + self._seconds / 2 < self._until:
                return True
            try:
                with self._database.read() as connection:
                    held = self._take(connection)
            except Error as failure:
                LOG.debug("lease %s: %s", self._name, sentence(failure))
                held = False
            # Counted from before the database did.
            self._until = begun + self._seconds if held else 0.0
            return held

    def release(self) -> None:
        """Let another process take the lease at once; nothing is raised where that fails."""
        with self._turn:
            if not self._until or self._process != os.getpid():
                return
            self._until = 0.0
            try:
                with self._database.read() as connection:
                    self._run(connection, _RELEASE)
            except Error as failure:
                LOG.debug("lease %s: %s", self._name, sentence(failure))

    def _take(self, connection: Connection) -> bool:
        # The first time, there is no row to be renewed.
        return self._run(connection, _RENEW) or self._run(connection, _INSERT)

    def _run(self, connection: Connection, statement: str) -> bool:
        """Return whether a statement changed a row, on a connection that commits each statement."""
        dialect = connection.dialect.name
        ignores = dialect == "mysql"
        words = statement.format(
            now=_NOW[dialect],
            later=_LATER[dialect].format(self._seconds),
            # A clock that is set by less gives no reason to take a lease from a process at work.
            much_later=_LATER[dialect].format(2 * self._seconds),
            ignore=" IGNORE" * ignores,
            nothing=" ON CONFLICT DO NOTHING" * (not ignores),
        )
        named = {"name": self._name, "holder": self._holder}
        return connection.execute(text(words), named).rowcount > 0
