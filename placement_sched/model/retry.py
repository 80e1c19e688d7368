"""The one loop that tries again what failed because of a concurrent writer."""

from collections.abc import Callable
from typing import TypeVar

from placement_sched.errors import ConcurrentUpdate

T = TypeVar("T")


def retrying(
    work: Callable[[], T],
    times: int,
    *,
    on: type[Exception] | tuple[type[Exception], ...] = ConcurrentUpdate,
    when: Callable[[Exception], bool] = lambda _failure: True,
    between: Callable[[int], object] = lambda _number: None,
) -> T:
    """Return what ``work`` returns, trying at most so many times while it raises ``on``.

    What it raises at the last attempt, or where ``when`` says that another is useless, goes up.
    Before each attempt but the first, ``between`` is called with the attempt's number, from 1 on:
    to pause, or to count.
    """
    for number in range(1, times):
        try:
            return work()
        except on as failure:
            if not when(failure):
                raise
        between(number)
    return work()
