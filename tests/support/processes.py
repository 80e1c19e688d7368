# SPDX-License-Identifier: Apache-2.0
"""Functions that run at the same moment, each in its own process."""

import multiprocessing
from collections.abc import Callable
from queue import Empty
from typing import Any

#: Processes are forked from a process that has imported all modules and has no connections.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["placement_sched.app", "tests.conftest"])


def run_in_processes(number: int, work: Callable[..., list[Any]], *arguments: object) -> list[Any]:
    """Run ``work(barrier, index, *arguments)`` in processes and return their results together."""
    barrier, results = FORKSERVER.Barrier(number), FORKSERVER.Queue()
    processes = [
        FORKSERVER.Process(target=_put_result, args=(results, work, barrier, index, *arguments))
        for index in range(number)
    ]
    for process in processes:
        process.start()
    rows: list[Any] = []
    for _ in processes:
        rows.extend(_wait_for_next_result(results, processes))
    for process in processes:
        process.join(timeout=60)
    return rows


def _wait_for_next_result(results, processes) -> list[Any]:
    """Return the next result, or fail if a process dies without a result."""
    while True:
        try:
            return results.get(timeout=1)
        except Empty:
            assert not any(process.exitcode for process in processes), "a process died"


def _put_result(results, work, *arguments):
    results.put(work(*arguments))
