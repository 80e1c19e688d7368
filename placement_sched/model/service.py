"""A service of a host, and whether it is up."""

from dataclasses import dataclass
from datetime import datetime, timedelta

#: The service that makes a host able to take instances.
COMPUTE_BINARY = "nova-compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
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

    def is_up(self, now: datetime, down_time: int) -> bool:
        """Return whether it reported less than ``down_time`` seconds ago and is not forced down."""
        if self.forced_down or self.last_seen_up is None:
            return False
        return now - self.last_seen_up <= timedelta(seconds=down_time)
