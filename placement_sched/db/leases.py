# SPDX-License-Identifier: Apache-2.0
"""Leases for work that only a single process of all servers does.

A process holds a lease for some seconds and renews it while it works. When it stops renewing, any
other process may take the lease. Times are from the clock of the database, since clocks of machines
differ. A process that was suspended for longer than its lease may continue its work after another
process has begun the same work. Leases are therefore only for work that may be done twice, such as
deleting rows.
"""

import os
import secrets
import socket
from threading import Lock
from time import monotonic

from oslo_log import log
from sqlalchemy import text

from placement_sched.db import sql
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Error, format_error

LOG = log.getLogger(__name__)

# A lease that expires later than any process could set was taken before the clock of the database
# was set back. A live holder renews it.
_RENEW = (
    "UPDATE sched_leases SET holder = :holder, expires_at = {later} "
    "WHERE name = :name AND (holder = :holder OR expires_at <= {now} OR expires_at > {much_later})"
)
_INSERT = (
    "INSERT{ignore} INTO sched_leases (name, holder, expires_at) "
    "VALUES (:name, :holder, {later}){nothing}"
)
_RELEASE = "UPDATE sched_leases SET expires_at = {now} WHERE name = :name AND holder = :holder"
#: Maximum number of characters of the host name in ``holder``, a column of 255 characters.
_MAX_HOST_NAME = 200


class Lease:
    """A lease that a process takes for ``seconds`` at a time, in any thread."""

    def __init__(self, database: Database, name: str, seconds: int) -> None:
        self._database = database
        self._name, self._seconds = name, seconds
        self._turn = Lock()
        self._holder, self._process = "", 0
        self._until = 0.0

    def is_held(self) -> bool:
        """Take or renew the lease, and return whether this process holds it.

        No statement is sent in the first half of the lease's time. If the database is unavailable
        or read-only, the result is False, and no error is raised.
        """
        with self._turn:
            if self._process != os.getpid():  # forked: the parent's lease does not count
                self._process, self._until = os.getpid(), 0.0
                host = socket.gethostname()[:_MAX_HOST_NAME]
                self._holder = f"{host}/{self._process}/{secrets.token_hex(8)}"
            started = monotonic()
            if started + self._seconds / 2 < self._until:
                return True
            try:
                with self._database.read() as connection:
                    # The first process finds no row to renew.
                    is_held = self._run(connection, _RENEW) or self._run(connection, _INSERT)
            except Error as failure:
                LOG.debug("lease %s: %s", self._name, format_error(failure))
                is_held = False
            # Counted from before the statement, so that it ends before the lease in the database.
            self._until = started + self._seconds if is_held else 0.0
            return is_held

    def release(self) -> None:
        """Release the lease for other processes, and only log errors."""
        with self._turn:
            if not self._until or self._process != os.getpid():
                return
            self._until = 0.0
            try:
                with self._database.read() as connection:
                    self._run(connection, _RELEASE)
            except Error as failure:
                LOG.debug("lease %s: %s", self._name, format_error(failure))

    def _run(self, connection: Connection, statement: str) -> bool:
        ignores = connection.dialect.name == "mysql"
        query = statement.format(
            now=sql.build_time(connection),
            later=sql.build_time(connection, self._seconds),
            # A smaller change of the clock must not take the lease from a live holder.
            much_later=sql.build_time(connection, 2 * self._seconds),
            ignore=" IGNORE" * ignores,
            nothing=" ON CONFLICT DO NOTHING" * (not ignores),
        )
        parameters = {"name": self._name, "holder": self._holder}
        return connection.execute(text(query), parameters).rowcount > 0
