# SPDX-License-Identifier: Apache-2.0
"""Several processes that do the same thing at the same moment."""

import multiprocessing
from collections.abc import Callable
from queue import Empty
from typing import Any

#: A process is started from one that has imported everything already, and has no connections.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["placement_sched.app", "tests.conftest"])


def run_in_processes(number: int, work: Callable[..., list[Any]], *arguments: object) -> list[Any]:
    """Run ``work(barrier, which, *arguments)`` in that many processes; return all they return."""
    barrier, results = PROCESSES.Barrier(number), PROCESSES.Queue()
    processes = [
        PROCESSES.Process(target=_report_result, args=(results, work, barrier, which, *arguments))
        for which in range(number)
    ]
    for process in processes:
        process.start()
    told: list[Any] = []
    for _ in processes:
        told.extend(_next_result(results, processes))
    for process in processes:
        process.join(timeout=60)
    return told


def _next_result(results, processes) -> list[Any]:
    """Return what the next process tells; fail at once when one dies without telling."""
    while True:
        try:
            return results.get(timeout=1)
        except Empty:
            assert not any(process.exitcode for process in processes), "a process died"


def _report_result(results, work, *arguments):
    results.put(work(*arguments))
