# SPDX-License-Identifier: Apache-2.0
"""Work that a process repeats."""

from threading import Event, Thread

import pytest

from placement_sched.operations import periodic
from placement_sched.operations.periodic import PeriodicTask


class CountingTask(PeriodicTask):
    """A task that counts its rounds, and lets a test hold a caller before its round."""

    failure = "counting failed"

    def __init__(self, held=()):
        super().__init__()
        self.rounds = 0
        self._held = list(held)

    def is_due(self):
        if self._held:
            reached, go_on = self._held.pop()
            reached.set()
            assert go_on.wait(30)
        return True

    def run_round(self):
        self.rounds += 1


class CountingTaskInThread(CountingTask):
    thread_name = "counting"


def test_delayed_caller_does_not_repeat_a_round_of_a_periodic_task():
    reached, go_on = Event(), Event()
    task = CountingTask([(reached, go_on)])
    late = Thread(target=task)
    late.start()
    assert reached.wait(30)
    task()
    go_on.set()
    late.join(30)
    assert task.rounds == 1


def test_round_of_a_periodic_task_runs_after_a_failed_start_of_its_thread(monkeypatch):
    task = CountingTaskInThread()

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(periodic.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            task()
    threads = record_started_threads(monkeypatch)
    task()
    threads.pop().join(30)
    assert task.rounds == 1


def record_started_threads(monkeypatch):
    """Return a list that receives the threads of tasks."""
    threads = []

    class Recorded(Thread):
        def start(self):
            threads.append(self)
            super().start()

    monkeypatch.setattr(periodic, "Thread", Recorded)
    return threads
