"""Hot standbys of PostgreSQL: connections for reading that have replayed all that they must.

A standby lags its primary by some milliseconds. Before a request is answered from one, the
primary is asked for its position in the write-ahead log, and the standby for how far it has come:
what was committed before is then seen. ``[placement_database] max_replica_lag`` allows older
answers, but never older than the last write of the same token.

Sources: PostgreSQL's documentation, "Hot Standby" and "Backup Control Functions".
"""

import mmap
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from zlib import crc32

from oslo_log import log
from sqlalchemy import Connection
from sqlalchemy.engine import URL

from placement_sched.db import engine
from placement_sched.db.failures import is_late, translated
from placement_sched.db.kept_connections import KeptConnections
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable, sentence
from placement_sched.settings import Settings

LOG = log.getLogger(__name__)

#: Seconds until a standby is given up to which no connection can be made.
CONNECT_TIMEOUT = 2
#: Seconds until a standby that did not answer is asked again; meanwhile the primary answers.
PAUSE = 5.0
#: Seconds between the looks at a standby that has not come far enough yet: after the last one, the
#: primary answers.
LOOKS = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
#: How many tokens are distinguished; those that share a place see each other's writes, too.
_PLACES = 1 << 16
_BYTES = 8

#: What is flushed is what commits wait for, and what is sent to standbys.
OF_PRIMARY = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
# One that was promoted is a primary itself, and follows none.
_OF_STANDBY = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn"
)
#: How far a connection's server was known to have come.
_REPLAYED = "placement_sched.replayed"


class StandbyUnfit(Unavailable):
    """The standby cannot answer now; the primary can."""


class PrimaryPosition(NamedTuple):
    """Where the primary's log was at a time of the monotonic clock."""

    time: float
    lsn: int


class LastWrites:
    """When each token last wrote, by the monotonic clock; shared by the workers of a server.

    They share a file of ``directory``. Without one, each process knows its own writes alone.
    """

    def __init__(self, directory: str | None = None) -> None:
        if directory is None:
            self._bytes = mmap.mmap(-1, _PLACES * _BYTES)
        else:
            with Path(directory, "last_writes").open("ab+") as file:
                os.truncate(file.fileno(), _PLACES * _BYTES)
                self._bytes = mmap.mmap(file.fileno(), _PLACES * _BYTES)
        # One number is written at once: there is no half of it to be read.
        self._times = memoryview(self._bytes).cast("Q")

    def note(self, token: str) -> None:
        """Note that a request with this token has written."""
        self._times[_place(token)] = time.monotonic_ns()

    def of(self, token: str) -> float:
        """Return when a request with this token last wrote, in seconds; 0 where none did."""
        return self._times[_place(token)] / 1e9


def _place(token: str) -> int:
    return crc32(token.encode(errors="surrogatepass")) % _PLACES


def with_timeout(url: URL) -> URL:
    """Return the URL of standbys with the time that a connection to one may take."""
    if "connect_timeout" in url.query:
        return url
    return url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT)})


def position_of(connection: Connection) -> int:
    """Return up to where the server of a connection has replayed the primary's log."""
    return int(connection.exec_driver_sql(_OF_STANDBY).scalar_one() or 0)


def reaches(wanted: int, look: Callable[[], int]) -> bool:
    """Return whether ``look`` finds the position ``wanted``; it looks for 60 ms."""
    for pause in LOOKS:
        if pause:
            time.sleep(pause)
        if look() >= wanted:
            return True
    return False


class Standby:
    """The standbys at ``[placement_database] slave_connection``, read as a database is.

    What is read of them within :meth:`recent_enough` has all that it promises.
    """

    def __init__(
        self,
        url: URL,
        primary: Database,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options = settings.placement_database
        self._primary, self._clock = primary, clock
        self._lag: float = options.max_replica_lag
        self.tally = primary.tally
        self.reader = engine.make_engine(with_timeout(url), settings, autocommit=True)
        engine.count_statements((self.reader,), self.tally)
        engine.plan_by_value(self.reader)
        self._kept = KeptConnections(
            self.reader,
            most=options.max_pool_size or sys.maxsize,
            seconds=options.connection_recycle_time,
        )
        self._positions: deque[PrimaryPosition] = deque()
        self._lock = Lock()
        self._not_before = -PAUSE
        self._wanted: ContextVar[int] = ContextVar("wanted", default=0)

    @contextmanager
    def recent_enough(self, written: float = 0.0) -> Iterator[None]:
        """Let what is read here have what was committed when it began, less the lag allowed.

        ``written`` is when the caller last wrote: that it has in any case. Raises
        :class:`StandbyUnfit` while the standby is away.
        """
        if self._clock() < self._not_before:
            raise StandbyUnfit("the standby did not answer a moment ago")
        token = self._wanted.set(self._position(written).lsn)
        try:
            yield
        finally:
            self._wanted.reset(token)

    def check(self) -> None:
        """Return: what is read here has no end of its own, as a trial has."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading; raise :class:`StandbyUnfit` where there is none.

        Raises :class:`Unavailable` for a statement that took too long, as the primary's would.
        """
        try:
            with translated(self.tally):
                connection = self._kept.take()
                try:
                    self._wait_for(connection, self._wanted.get())
                    yield connection
                except BaseException:
                    self._kept.discard(connection)
                    raise
                self._kept.give_back(connection)
        except StandbyUnfit:
            raise
        except Unavailable as failure:
            if is_late(failure):
                raise
            self._not_before = self._clock() + PAUSE
            LOG.warning("the primary answers in place of the standby: %s", sentence(failure))
            raise StandbyUnfit(failure.detail) from failure

    def _position(self, written: float) -> PrimaryPosition:
        """Return a position of the primary that is as old as may be, or the present one."""
        now = self._clock()
        since = max(now - self._lag, written)
        with self._lock:
            while self._positions and self._positions[0].time < now - self._lag:
                self._positions.popleft()
            known = next((one for one in self._positions if one.time >= since), None)
        if known is not None:
            return known
        with self._primary.read() as connection:
            lsn = int(connection.exec_driver_sql(OF_PRIMARY).scalar_one())
        # What was committed by ``now`` is before this position.
        position = PrimaryPosition(now, lsn)
        with self._lock:
            self._positions.append(position)
        return position

    def _wait_for(self, connection: Connection, wanted: int) -> None:
        """Return when the server has replayed the log up to ``wanted``; raise where it does not."""
        info = connection.info
        if info.get(_REPLAYED, -1) >= wanted:
            return

        def look() -> int:
            info[_REPLAYED] = found = position_of(connection)
            return found

        if not reaches(wanted, look):
            raise StandbyUnfit("the standby lags")

    def dispose(self) -> None:
        """Close every pooled connection."""
        self._kept.close()
        self.reader.dispose()
