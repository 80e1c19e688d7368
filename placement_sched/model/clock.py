"""Time is handed in: a clock returns the current UTC time without a zone."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from time import perf_counter

from placement_sched.errors import Invalid

Clock = Callable[[], datetime]
#: A time as people write it: how long ago it is.
AGE = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
#: Up to which number of seconds a duration is shown in a unit, and the seconds of the unit.
_SHOWN_UNITS = (
    (600, "s", 1),
    (2 * 3600, "minutes", 60),
    (2 * 86_400, "hours", 3600),
    (730 * 86_400, "days", 86_400),
    (inf, "years", 31_556_952),
)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def utcnow() -> datetime:
    """Return the current time in UTC without a zone, to the second, as the tables keep it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def moment_of(text: str, now: datetime, called: str) -> str:
    """Return a time as it is, and an age (``90s``, ``2h``, ``7d``) as the time so long ago.

    Raises :class:`Invalid`, opening with what the text is ``called``, for what is neither, and for
    an age from before there were dates.
    """
    age = AGE.fullmatch(text)
    if age is None:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(
                f"{called}: {text!r} is neither an age (30m, 2h, 7d) nor an ISO 8601 time"
            ) from None
        return text
    try:
        return (now - timedelta(**{_UNITS[age[2]]: int(age[1])})).isoformat()
    except OverflowError:
        raise Invalid(f"{called}: {text} is longer ago than any decision") from None


def shown_duration(seconds: float) -> str:
    """Return a duration in one unit that keeps the number short: ``93 s``, ``30 days``."""
    unit, length = next((unit, length) for limit, unit, length in _SHOWN_UNITS if seconds < limit)
    return f"{seconds / length:.0f} {unit}"


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Add to ``seconds`` how long a stage takes, whatever becomes of it."""
    began = perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - began
