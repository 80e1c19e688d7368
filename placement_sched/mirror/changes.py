"""What keeps the mirror current: a log of the providers that writers have changed."""

from typing import Any, Protocol

from placement_sched.db.transaction import Connection
from placement_sched.store.placement.change_log import Changes


class ChangeLog(Protocol):
    """The change log, as the store keeps it."""

    def why_not_kept(self, connection: Connection) -> str | None:
        """Return why the log cannot be relied on; None if it can."""

    def begin(self, connection: Connection) -> Any:
        """Return a position, after which everything that is committed later is reported."""

    def read(self, connection: Connection, position: Any) -> Changes:
        """Return what was committed after a position, with one statement."""

    def read_late_rows(self, connection: Connection, position: Any) -> Changes:
        """Return what :meth:`read` did not find because its transaction took too long."""
