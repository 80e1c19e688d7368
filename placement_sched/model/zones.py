"""Availability zones as requests and aggregates name them: commas mean any of several.

Source: nova's "Filter Scheduler", Stein, on AvailabilityZoneFilter.
"""


def zones(text: str | None) -> frozenset[str]:
    """Return the zones named, separated by commas, in a request or in aggregate metadata."""
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())
