# SPDX-License-Identifier: Apache-2.0
"""The retry loop for conflicts with concurrent writers."""

from collections.abc import Callable
from typing import TypeVar

from placement_sched.errors import ConcurrentUpdate

T = TypeVar("T")

#: Default number of attempts. It suffices, because few writers change the same rows concurrently.
MAX_ATTEMPTS = 10


def call_with_retries(
    work: Callable[[], T],
    times: int = MAX_ATTEMPTS,
    *,
    on: type[Exception] | tuple[type[Exception], ...] = ConcurrentUpdate,
    when: Callable[[Exception], bool] = lambda _failure: True,
    between: Callable[[int], object] = lambda _number: None,
) -> T:
    """Call ``work`` until it succeeds, at most ``times`` times.

    An exception of type ``on`` causes another attempt, unless ``when`` returns false for it.
    ``between`` is called before each further attempt with the number of failed attempts.
    """
    for number in range(1, times):
        try:
            return work()
        except on as error:
            if not when(error):
                raise
        between(number)
    return work()
