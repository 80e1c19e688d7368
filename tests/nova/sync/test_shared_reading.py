# SPDX-License-Identifier: Apache-2.0
"""Callers that come at the same time share a reading, but none that began before they called."""

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
    # These call while the first reading is under way: what it saw may be too old for them.
    asked = [threading.Event() for _ in range(5)]

    def call(called):
        called.set()
        shared.after_now()

    others = [threading.Thread(target=call, args=(called,)) for called in asked]
    for one in others:
        one.start()
    for called in asked:
        assert called.wait(60)
    go_on.set()
    for one in (first, *others):
        one.join(60)
    assert 2 <= len(count) <= 6


def test_failed_read_is_not_shared():
    def read():
        raise ValueError("away")

    shared = SharedSync(read)
    for _ in range(2):
        with pytest.raises(ValueError, match="away"):
            shared.after_now()
