# SPDX-License-Identifier: Apache-2.0
"""Functions that run at the same moment, each in its own thread."""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any


def run_concurrently(*works: Callable[[], Any]) -> list[Any]:
    """Run functions at the same moment and return their results in order."""
    start, results = Barrier(len(works)), [None] * len(works)

    def run_function(index: int, work: Callable[[], Any]) -> None:
        start.wait(timeout=60)
        results[index] = work()

    threads = [Thread(target=run_function, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return results
