"""Time is handed in: a clock returns the current UTC time without a zone."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter

from placement_sched.errors import Invalid

Clock = Callable[[], datetime]
#: A time as people write it: how long ago it is.
AGE = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
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


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Add to ``seconds`` how long a stage takes, whatever becomes of it."""
    began = perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - began
