"""How the compute API writes times, which are in UTC."""

from datetime import datetime


def in_microseconds(moment: datetime | None) -> str | None:
    """Return a time as aggregates and services have it."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def in_seconds(moment: datetime | None) -> str | None:
    """Return a time as servers have it."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
