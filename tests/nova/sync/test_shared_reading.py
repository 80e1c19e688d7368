# SPDX-License-Identifier: Apache-2.0
"""Concurrent callers share a read that starts after their calls."""

import threading

import pytest

from placement_sched.nova.sync.follower import SharedSync


def test_single_caller_runs_its_own_read():
    read = []
    shared = SharedSync(lambda: read.append(1))
    shared.after_now()
    shared.after_now()
    assert len(read) == 2


def test_waiting_callers_share_the_next_read():
    begun, go_on, count = threading.Event(), threading.Event(), []

    def read():
        count.append(1)
        begun.set()
        assert go_on.wait(60)

    shared = SharedSync(read)
    first = threading.Thread(target=shared.after_now)
    first.start()
    assert begun.wait(60)
    # These calls come during the first read, which may be too old for them.
    calls = [threading.Event() for _ in range(5)]

    def call(called):
        called.set()
        shared.after_now()

    others = [threading.Thread(target=call, args=(called,)) for called in calls]
    for thread in others:
        thread.start()
    for called in calls:
        assert called.wait(60)
    go_on.set()
    for thread in (first, *others):
        thread.join(60)
    assert 2 <= len(count) <= 6


def test_failed_read_is_not_shared():
    def read():
        raise ValueError("away")

    shared = SharedSync(read)
    for _ in range(2):
        with pytest.raises(ValueError, match="away"):
            shared.after_now()
