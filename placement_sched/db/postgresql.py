# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL connections by psycopg."""

from collections.abc import Generator, Sequence
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus


def connect(
    arguments: Sequence[Any], options: dict[str, Any], within: float | None, **_: bool
) -> "PostgreSQLConnection":
    """Open a connection with a limit on silence, in seconds."""
    connection = PostgreSQLConnection.connect(*arguments, **options)
    connection.limit_silence(within)
    return connection


class PostgreSQLConnection(psycopg.Connection[Any]):
    """psycopg connection that fails if the database is silent for too long."""

    _within: float | None = None
    #: Whether the connection has its own session, without a pooler (db/failover.py).
    has_own_session = False

    def limit_silence(self, within: float | None) -> float | None:
        """Set the limit of silence (None: unlimited), and return the old limit."""
        previous, self._within = self._within, within
        return previous

    @property
    def is_idle(self) -> bool:
        """Return whether the connection is in no transaction."""
        return self.info.transaction_status == TransactionStatus.IDLE

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait like psycopg, which wakes up every 0.1 s, with the limit."""
        return super().wait(self._limit_waits(gen), *arguments, **options)

    def _limit_waits(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        ready, last_data = None, monotonic()
        while True:
            try:
                ready = yield gen.send(ready)
            except StopIteration as end:
                return end.value
            if ready:
                last_data = monotonic()
            elif self._within is not None and monotonic() - last_data > self._within:
                self.close()
                message = f"the database has sent nothing for {self._within:g} seconds"
                raise psycopg.OperationalError(message) from TimeoutError()


def check_parameters(options: dict[str, Any]) -> None:
    """Raise any exception for URL parameters that libpq does not have."""
    make_conninfo(**{name: value for name, value in options.items() if name != "context"})
