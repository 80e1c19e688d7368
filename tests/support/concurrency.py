# SPDX-License-Identifier: Apache-2.0
"""Things done at the same moment, each in a thread of its own."""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any


def run_concurrently(*works: Callable[[], Any]) -> list[Any]:
    """Do these at the same moment; return what each returns, in their order."""
    start, told = Barrier(len(works)), [None] * len(works)

    def run_at_once(index: int, work: Callable[[], Any]) -> None:
        start.wait(timeout=60)
        told[index] = work()

    threads = [Thread(target=run_at_once, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return told
