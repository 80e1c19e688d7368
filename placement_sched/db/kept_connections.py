"""Connections for reading that stay open, with all of SQLAlchemy's around them, between requests.

To take a connection out of SQLAlchemy's pool and to give it back takes as long as PostgreSQL takes
for a short statement (doc/decisions/0014). The pool's bounds hold: what is kept here counts there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine

from placement_sched.db.engine import is_open
from placement_sched.db.failures import connected

#: Where a connection's ``info`` has when it was opened, and how often all were closed before.
_OPENED, _CLOSINGS = "placement_sched.opened", "placement_sched.closings"
#: Where it has when it was last checked, and the seconds until it is checked again.
_CHECKED = "placement_sched.checked"
CHECK_AGAIN = 5.0


class KeptConnections:
    """The idle connections of an engine that commits each statement; the last used comes first."""

    def __init__(
        self,
        engine: Engine,
        *,
        most: int,
        seconds: float,
        serves: Callable[[Any], bool] | None = None,
        is_past: Callable[[dict[Any, Any]], bool] = lambda _info: False,
    ) -> None:
        """Keep up to ``most`` connections, each for so many seconds (below 0: without an end).

        ``serves``, if any, is asked from time to time whether a driver's connection does. Those
        whose ``info`` ``is_past`` are closed, like those that were taken before all were.
        """
        self._engine, self._serves, self._is_past = engine, serves, is_past
        self._most, self._seconds = most, seconds
        self._idle: list[Connection] = []
        self._process = os.getpid()
        self._closings = 0
        #: Those of the process that this one was forked from, whose sockets are not to be closed.
        self._of_parent: list[Connection] = []

    def __len__(self) -> int:
        """Return how many are idle."""
        return len(self._idle)

    def take(self) -> Connection:
        """Return an open connection, which no other thread uses until it is given back.

        Raises :class:`Unavailable` where the database closes each at once.
        """
        if self._process != os.getpid():
            self._of_parent, self._idle, self._process = self._idle, [], os.getpid()
        if self._may_keep:
            while self._idle:
                try:
                    connection = self._idle.pop()
                except IndexError:  # another thread was faster
                    break
                if self._is_usable(connection):
                    return connection
                connection.invalidate()
                connection.close()
        closings = self._closings  # if all are closed meanwhile, this one is as well
        connection = connected(self._engine)
        connection.info.setdefault(_OPENED, monotonic())
        connection.info[_CLOSINGS] = closings
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection on which all went well for the next."""
        if connection.closed or connection.invalidated or self._is_to_be_closed(connection):
            self.discard(connection)
            return
        if connection.in_transaction():  # which is only SQLAlchemy's word for it
            connection.rollback()
        if self._may_keep and len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()

    def discard(self, connection: Connection) -> None:
        """Give a connection to the pool, or close it if all were closed since it was taken."""
        if not (connection.closed or connection.invalidated) and self._is_to_be_closed(connection):
            # The pool that it is of may be disposed of, which would keep it open.
            connection.invalidate()
        connection.close()

    def _is_to_be_closed(self, connection: Connection) -> bool:
        """Return whether an open connection was taken before all were closed, or is of the past."""
        info = connection.info
        return bool(info[_CLOSINGS] != self._closings) or self._is_past(info)

    @property
    def _may_keep(self) -> bool:
        """Whether older connections serve: listeners of the engine do not hear them."""
        return not self._engine._has_events  # noqa: SLF001 - no other way to know

    def close(self) -> None:
        """Close those that are idle now, and the others when they are given back."""
        self._closings += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            self.discard(connection)

    def _is_usable(self, connection: Connection) -> bool:
        if self._is_to_be_closed(connection):  # given back while all were closed
            return False
        pooled = connection.connection
        if 0 <= self._seconds < monotonic() - pooled.info[_OPENED]:
            return False
        if not is_open(connection.dialect, pooled.driver_connection):
            return False
        if self._serves is None:
            return True
        now = monotonic()
        if now - (pooled.info.get(_CHECKED) or pooled.info[_OPENED]) < CHECK_AGAIN:
            return True
        pooled.info[_CHECKED] = now
        return self._serves(pooled.driver_connection)


@contextmanager
def answering(connection: Connection, within: float | None) -> Iterator[None]:
    """Wait for each answer on a connection for so many seconds; None for as long as it takes.

    Files answer at once.
    """
    if connection.dialect.name == "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    # Of engines that are not of this service, the drivers do not know it.
    before, driver.answers_within = getattr(driver, "answers_within", None), within
    try:
        yield
    finally:
        driver.answers_within = before
