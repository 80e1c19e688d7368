"""What a mirror is brought up to date by: a log of the providers that writers have changed."""

from typing import Any, Protocol

from placement_sched.db.transaction import Connection


class ChangesSeen(Protocol):
    """What has changed since a position: the ids of providers, and whether any name did.

    ``in_doubt``: more may have changed than is said.
    """

    @property
    def providers(self) -> frozenset[int]:
        """The ids of providers that may be different, new or gone."""

    @property
    def names(self) -> bool:
        """Whether resource classes, traits or aggregates came, went or were renamed."""

    @property
    def position(self) -> Any:
        """Up to where this is."""

    @property
    def in_doubt(self) -> bool:
        """Whether everything is to be read again."""


class ChangeLog(Protocol):
    """The log of changes in the writers' own transactions, as the store keeps it."""

    def why_not_kept(self, connection: Connection) -> str | None:
        """Return why the log cannot be relied upon; None where it can."""

    def begin(self, connection: Connection) -> Any:
        """Return a position: all that is committed later will be reported after it."""

    def since(self, connection: Connection, position: Any) -> ChangesSeen:
        """Return all that was committed after a position, in one statement."""
