"""Time is handed in: a clock returns the current UTC time without a zone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter

Clock = Callable[[], datetime]


def utcnow() -> datetime:
    """Return the current time in UTC without a zone, to the second, as the tables keep it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Add to ``seconds`` how long a stage takes, whatever becomes of it."""
    began = perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - began
