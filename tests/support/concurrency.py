# SPDX-License-Identifier: Apache-2.0
"""Functions that run at the same moment, each in its own thread."""

import threading
from collections.abc import Callable
from typing import Any


def run_concurrently(*works: Callable[[], Any]) -> list[Any]:
    """Run functions at the same moment and return their results in order."""
    start, results = threading.Barrier(len(works)), [None] * len(works)

    def run_function(index: int, work: Callable[[], Any]) -> None:
        start.wait(timeout=60)
        results[index] = work()

    threads = [threading.Thread(target=run_function, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return results


def join_threads(name: str) -> None:
    """Wait for the background threads of this name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(timeout=60)
