# SPDX-License-Identifier: Apache-2.0
"""Functions that run at the same moment, each in its own thread."""

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from sqlalchemy import event

from placement_sched.db.transaction import Database


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


def run_before_each_statement(
    database: Database, work: Callable[[], Any], write: Callable[[], Any]
) -> Iterator[Any]:
    """Run ``work`` with another writer before statement 1, 2 and so on.

    Yields the result after each pair. Ends after a run of ``work`` that has fewer statements. Only
    statements of transactions count. A write that waits for a lock ends after ``work``.
    """
    for number in count(1):
        thread, executed = threading.Thread(target=write), []

        def start_write(*_, number=number, thread=thread, executed=executed):
            executed.append(number)
            if len(executed) == number:
                thread.start()
                thread.join(timeout=0.5)

        event.listen(database.writer, "before_cursor_execute", start_write)
        try:
            result = work()
        finally:
            event.remove(database.writer, "before_cursor_execute", start_write)
        if len(executed) < number:
            return
        thread.join(timeout=60)
        yield result
