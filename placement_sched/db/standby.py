"""Hot standbys of PostgreSQL: connections for reading that have replayed all that they must.

A standby lags its primary by some milliseconds. Before a request is answered from one, the
primary is asked for its position in the write-ahead log, and the standby for how far it has come:
what was committed before is then seen. ``[placement_database] max_replica_lag`` allows older
answers, but never older than the last write of the same token, through whatever server: each
transaction that writes counts for its token (``db/commit_marks.py``), the primary is asked for
these counts, and the standby must have them. A server that does not follow the primary, such as a
former primary, answers nothing, however far it is: positions compare only within one history, and
a former primary may have written what no other server has before a standby was promoted. So each
primary leaves a mark in the database when it is first seen, as the holder of a lease that has no
end. A server that has replayed the mark follows it.

Sources: PostgreSQL's documentation, "Hot Standby", "Backup Control Functions" and ``pg_rewind``.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from oslo_log import log
from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.engine import URL

from placement_sched.db import engine, tally
from placement_sched.db.failures import connected, is_late, translated
from placement_sched.db.histories import HISTORY, History, history_of, note_servers
from placement_sched.db.tables import last_writes
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
#: So many starts of standbys are distinguished.
SERVERS = 64
#: How many tokens are distinguished; those that share a place see each other's writes, too.
_PLACES = 1 << 12
_LAST_WRITES = select(last_writes.c.share, last_writes.c.version).where(
    last_writes.c.place == bindparam("at")
)

#: The name of the lease whose holder is the primary's mark.
_PRIMARY = "primary"
_ASK_MARK = text("SELECT holder FROM sched_leases WHERE name = :name")
# Another process may have left the mark of the same server meanwhile; then that stays.
_LEAVE_MARK = text(
    "INSERT INTO sched_leases (name, holder, expires_at) VALUES (:name, :mark, '9999-12-31') "
    "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder "
    "WHERE left(sched_leases.holder, length(:server)) != :server"
)

#: Of a primary what is flushed: commits wait for that, and it is sent to standbys. With
#: synchronous_commit off they do not wait, and what is inserted counts. A standby that was promoted
#: is a primary; and ``connection`` may lead to a standby, whose own position counts.
POSITION = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn() "
    "ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn"
)
#: How far a server has come, and whether it still follows another.
_STANDING = f"{POSITION}, pg_is_in_recovery()"
#: Which server a connection leads to, how far that was known to have come, and the mark it has.
_SERVER, _REPLAYED = "placement_sched.server", "placement_sched.replayed"
_MARK = "placement_sched.primary_mark"
#: What was wanted last of a connection, and was there.
_MET = "placement_sched.met"


class StandbyUnfit(Unavailable):
    """The standby cannot answer now; the primary can."""


class PrimaryPosition(NamedTuple):
    """Where the log of which primary was at a time of the monotonic clock."""

    time: float
    lsn: int
    history: History = None
    mark: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """What a standby must have: the primary's log up to here, and what was counted for a place.

    ``history`` and ``mark`` are the primary's.
    """

    lsn: int = 0
    history: History = None
    mark: str = ""
    place: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)


_ANYTHING = _Wanted()


def place_of(token: str) -> int:
    """Return the place at which what is written with a token is counted."""
    return crc32(token.encode(errors="surrogatepass")) % _PLACES


def _counts(connection: Connection, place: int) -> dict[int, int]:
    return dict(map(tuple, connection.execute(_LAST_WRITES, {"at": place})))


def with_timeout(url: URL) -> URL:
    """Return the URL of standbys with the time that a connection to one may take."""
    if "connect_timeout" in url.query:
        return url
    return url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT)})


def position_of(connection: Connection) -> int:
    """Return where the server of a connection is in the primary's log."""
    return int(connection.exec_driver_sql(POSITION).scalar_one() or 0)


def mark_of(primary: Connection) -> str:
    """Return the mark of the server that a connection leads to; leave one where there is none.

    The connection commits each statement. A server in recovery, to which ``connection`` may lead
    for a while, cannot leave a mark: its mark is empty, which every server has.
    """
    if primary.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one():
        return ""
    server = f"{history_of(primary)} "
    found = _mark_on(primary)
    if not found.startswith(server):
        mark = server + secrets.token_hex(8)
        primary.execute(_LEAVE_MARK, {"name": _PRIMARY, "mark": mark, "server": server})
        found = _mark_on(primary)
    return found


def has_mark(standby: Connection, mark: str) -> bool:
    """Return whether the server of a connection follows the primary of this mark."""
    return not mark or _mark_on(standby) == mark


def _mark_on(connection: Connection) -> str:
    return connection.execute(_ASK_MARK, {"name": _PRIMARY}).scalar() or ""


def soon(look: Callable[[], bool]) -> bool:
    """Return whether ``look`` finds what is wanted; it looks for 60 ms."""
    for pause in LOOKS:
        if pause:
            time.sleep(pause)
        if look():
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
        tally.count_statements((self.reader,), self.tally)
        #: The standbys that were read, each as it was started. One that was started again may have
        #: been rewound: then it lacks what it has shown.
        self._servers = frozenset[History]()
        note_servers(self.reader, self._note_server)
        self._known: PrimaryPosition | None = None
        self._not_before = -PAUSE
        self._wanted: ContextVar[_Wanted] = ContextVar("wanted", default=_ANYTHING)

    @contextmanager
    def counting(self, token: str) -> Iterator[None]:
        """Let what is written to the primary with a token be known by all servers."""
        # Where no answer lags, no server asks for it.
        before = self._primary.counted_for.set(place_of(token) if self._lag else None)
        try:
            yield
        finally:
            self._primary.counted_for.reset(before)

    @contextmanager
    def recent_enough(self, token: str = "") -> Iterator[None]:
        """Let what is read here have what was committed when it began, less the lag allowed.

        What was written with ``token`` it has in any case, but for what was written where no answer
        may lag. Raises :class:`StandbyUnfit` while the standby is away.
        """
        if self._clock() < self._not_before:
            raise StandbyUnfit("the standby did not answer a moment ago")
        with self._primary.read() as connection:
            wanted = self._wanted_by(token, connection)
        before = self._wanted.set(wanted)
        try:
            yield
        finally:
            self._wanted.reset(before)

    def _note_server(self, info: dict[Any, Any], server: History) -> None:
        info[_SERVER] = server
        if server not in self._servers:
            known = self._servers if len(self._servers) < SERVERS else frozenset[History]()
            self._servers = known | {server}

    def check(self) -> None:
        """Return: what is read here has no end of its own, as a trial has."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading; raise :class:`StandbyUnfit` where there is none.

        Raises :class:`Unavailable` for a statement that took too long, as the primary's would.
        """
        try:
            with translated(self.tally), connected(self.reader) as connection:
                wanted = self._wanted.get()
                # Not its own: a URL may name several standbys, which lag the same primary.
                connection.info[HISTORY] = (wanted.history, self._servers)
                self._wait_for(connection, wanted)
                yield connection
        except StandbyUnfit:
            raise
        except Unavailable as failure:
            if is_late(failure):
                raise
            self._not_before = self._clock() + PAUSE
            LOG.warning("the primary answers in place of the standby: %s", sentence(failure))
            raise StandbyUnfit(failure.detail) from failure

    def _wanted_by(self, token: str, primary: Connection) -> _Wanted:
        now, known, history = self._clock(), self._known, history_of(primary)
        is_same = known is not None and known.history == history
        if known is None or not is_same or known.time < now - self._lag:
            mark = (known.mark if known and is_same else "") or mark_of(primary)
            # What was committed by ``now``, and the mark, are before this position.
            known = self._known = PrimaryPosition(now, position_of(primary), history, mark)
        if not self._lag:
            return _Wanted(known.lsn, history, known.mark)
        place = place_of(token)
        return _Wanted(known.lsn, history, known.mark, place, _counts(primary, place))

    def _wait_for(self, connection: Connection, wanted: _Wanted) -> None:
        """Return when the server has what is wanted; raise :class:`StandbyUnfit` if it has not."""
        info = connection.info
        if info.get(_MET) is wanted:
            return

        def look() -> bool:
            if info.get(_REPLAYED, -1) < wanted.lsn:
                position, follows = connection.exec_driver_sql(_STANDING).one()
                info[_REPLAYED] = int(position or 0)
                if not follows and info.get(_SERVER) != wanted.history:
                    raise self._other_history()
            return info[_REPLAYED] >= wanted.lsn and _has(connection, wanted)

        if not soon(look):
            raise StandbyUnfit("the standby lags")
        if info.get(_MARK) != wanted.mark:
            if not has_mark(connection, wanted.mark):
                raise self._other_history()
            info[_MARK] = wanted.mark
        info[_MET] = wanted

    def _other_history(self) -> StandbyUnfit:
        """Return the failure of a server that does not follow the primary: it pauses."""
        self._not_before = self._clock() + PAUSE
        failure = StandbyUnfit("the server at slave_connection does not follow the primary")
        LOG.warning("the primary answers in place of the standby: %s", failure.detail)
        return failure

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.reader.dispose()


def _has(connection: Connection, wanted: _Wanted) -> bool:
    if not wanted.counts:
        return True
    there = _counts(connection, wanted.place)
    return all(there.get(share, 0) >= count for share, count in wanted.counts.items())
