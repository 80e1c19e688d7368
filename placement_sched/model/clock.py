"""Time is handed in: a clock returns the current UTC time without a zone."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utcnow() -> datetime:
    """Return the current time in UTC without a zone, to the second, as the tables keep it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)
