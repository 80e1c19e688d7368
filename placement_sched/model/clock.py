# SPDX-License-Identifier: Apache-2.0
"""Clocks, ages and durations."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from time import perf_counter

from placement_sched.errors import Invalid

#: Returns the current time in naive UTC.
Clock = Callable[[], datetime]
#: An age: a number and a unit, such as ``30m``.
AGE = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
#: Units for shown durations: the duration up to which it is used, its name and its seconds.
_SHOWN_UNITS = (
    (600, "s", 1),
    (2 * 3600, "minutes", 60),
    (2 * 86_400, "hours", 3600),
    (730 * 86_400, "days", 86_400),
    (inf, "years", 31_556_952),
)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def utcnow() -> datetime:
    """Return the naive UTC time in whole seconds, as in the tables."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def read_timestamp(seconds: int) -> datetime:
    """Convert seconds since 1970 to naive UTC."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def parse_time(text: str, now: datetime, name: str) -> str:
    """Convert an age such as ``7d`` to an ISO 8601 time, or keep a time.

    Raises :class:`Invalid` if the text is neither an age nor an ISO 8601 time, or if the time is
    before year 1. ``name`` is the name of the value in the error.
    """
    age = AGE.fullmatch(text)
    if age is None:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(
                f"{name}: {text!r} is neither an age (30m, 2h, 7d) nor an ISO 8601 time"
            ) from None
        return text
    try:
        return (now - timedelta(**{_UNITS[age[2]]: int(age[1])})).isoformat()
    except OverflowError:
        raise Invalid(f"{name}: {text} is before year 1: use a shorter age") from None


def read_duration(text: str) -> float:
    """Convert an age such as ``90s`` to seconds, or raise ValueError."""
    age = AGE.fullmatch(text)
    if age is None:
        raise ValueError(text)
    return timedelta(**{_UNITS[age[2]]: int(age[1])}).total_seconds()


def format_duration(seconds: float) -> str:
    """Format a duration in a readable unit, as ``93 s`` or ``30 days``."""
    unit, length = next((unit, length) for limit, unit, length in _SHOWN_UNITS if seconds < limit)
    return f"{seconds / length:.0f} {unit}"


@contextmanager
def measure(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Add the duration of a ``with`` block to ``seconds[stage]``."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - start
