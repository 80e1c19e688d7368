"""How many seconds each standby lags its primary, as ``/metrics`` shows it.

A standby that has replayed the primary's log up to where that was a moment ago lags 0 seconds. What
another one lacks was committed after the last commit that it has replayed, and after it was last
seen to lack nothing: the later of the two is taken, so that an idle primary makes no lag.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.engine import URL

from placement_sched.db import engine
from placement_sched.db.failures import connected, translated
from placement_sched.db.standby import POSITION, position_of, soon, with_timeout
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.settings import Settings

_OF_PRIMARY = f"{POSITION}, extract(epoch FROM clock_timestamp())::float8"
# After a start, a standby may have replayed no commit yet: it lags at least for as long as it runs.
_LAST_COMMIT = (
    "SELECT extract(epoch FROM coalesce(pg_last_xact_replay_timestamp(), "
    "pg_postmaster_start_time()))::float8"
)
#: What of a URL chooses among its servers.
_CHOOSING = ("host", "port", "target_session_attrs", "load_balance_hosts")
#: The name of the server of a URL without a host.
LOCAL = "local"


class StandbyState(NamedTuple):
    """A standby at one moment; ``lag`` in seconds, None where it does not answer."""

    standby: str
    lag: float | None


class StandbyLags:
    """Asks the primary, and each standby that a URL names."""

    def __init__(
        self,
        url: URL,
        primary: Database,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._primary, self._clock = primary, clock
        self._engines = {
            name: engine.make_engine(with_timeout(one), settings, autocommit=True)
            for name, one in servers_of(url).items()
        }
        #: When each was last seen to lack nothing.
        self._current_at: dict[str, float] = {}

    def read(self) -> list[StandbyState]:
        """Return the state of each standby; raise :class:`Unavailable` where the primary is away.

        It takes 60 ms for one that lags, and the time that a connection may take for one that is
        away.
        """
        now = self._clock()
        with self._primary.read() as connection:
            lsn, time_there = connection.exec_driver_sql(_OF_PRIMARY).one()
        return [
            StandbyState(name, self._lag(name, int(lsn), time_there, now)) for name in self._engines
        ]

    def _lag(self, name: str, wanted: int, time_there: float, now: float) -> float | None:
        try:
            with translated(), connected(self._engines[name]) as connection:
                if soon(lambda: position_of(connection) >= wanted):
                    self._current_at[name] = now
                    return 0.0
                last: float = connection.exec_driver_sql(_LAST_COMMIT).scalar_one()
        except Unavailable:
            return None
        since_current = now - self._current_at[name] if name in self._current_at else float("inf")
        return max(min(time_there - last, since_current), 0.0)

    def dispose(self) -> None:
        """Close every pooled connection."""
        for one in self._engines.values():
            one.dispose()


def servers_of(url: URL) -> dict[str, URL]:
    """Return a URL for each server that the URL of standbys names, by its ``host:port``."""
    _, arguments = url.get_dialect()().create_connect_args(url)
    hosts = str(arguments.get("host") or "").split(",")
    ports = str(arguments.get("port") or "").split(",")
    rest = {key: value for key, value in url.query.items() if key not in _CHOOSING}
    return {
        ":".join(filter(None, (host, port))) or LOCAL: url.set(
            host=host or None, port=int(port) if port else None, query=rest
        )
        for host, port in zip(hosts, ports, strict=True)
    }
