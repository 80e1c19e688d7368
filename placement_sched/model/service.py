"""A service of a host, and whether it is up."""

from datetime import datetime, timedelta
from typing import NamedTuple

#: The service that makes a host able to take instances.
COMPUTE_BINARY = "nova-compute"


class Service(NamedTuple):
    """One service of one host, as nova's os-services shows it."""

    id: int
    uuid: str
    host: str
    binary: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    last_seen_up: datetime | None
    updated_at: datetime | None

    @property
    def is_compute(self) -> bool:
        """Return whether it is what makes its host able to take instances."""
        return self.binary == COMPUTE_BINARY

    def is_up(self, now: datetime, down_time: int) -> bool:
        """Return whether it reported within ``down_time`` seconds and is not forced down."""
        return seen_lately(self.last_seen_up, self.forced_down, now, down_time)


def seen_lately(
    last_seen_up: datetime | None, forced_down: bool, now: datetime, down_time: int
) -> bool:
    """Return whether a service that was last seen then counts as up: THE rule of up and down."""
    if forced_down or last_seen_up is None:
        return False
    return now - last_seen_up <= timedelta(seconds=down_time)


def why_disabled(disabled_reason: str | None) -> str:
    """Return how a refusal tells of a disabled service, with the operator's reason if given."""
    return f"disabled: {disabled_reason}" if disabled_reason else "disabled"
