# SPDX-License-Identifier: Apache-2.0
"""The number of writers that wait for SQLite's lock is limited."""

import time
from threading import Semaphore

import pytest

from placement_sched.db.transaction import Database, WriteGate
from placement_sched.errors import Unavailable
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


def seconds_until_rejected(gate) -> float:
    start = time.monotonic()
    with pytest.raises(Unavailable, match="locked by another writer"), gate:
        pass
    return time.monotonic() - start


def test_writer_beyond_the_limit_waits_and_is_rejected():
    gate = WriteGate(places=1, patience=0.3)
    with gate:
        assert seconds_until_rejected(gate) >= 0.3


class RecordingGate(Semaphore):
    """A semaphore that records the timeout of each wait."""

    def __init__(self, value):
        super().__init__(value)
        self.timeouts = []

    def acquire(self, blocking=True, timeout=None):
        self.timeouts.append(timeout)
        return super().acquire(blocking, timeout)


def test_next_writer_is_rejected_at_once_after_a_timeout(monkeypatch):
    gate = WriteGate(places=1, patience=0.3)
    monkeypatch.setattr(gate, "_places", RecordingGate(1))
    with gate:
        seconds_until_rejected(gate)
        seconds_until_rejected(gate)
    assert gate._places.timeouts == [0.3, 0.3, 0]


def test_writers_wait_again_after_a_slot_is_free():
    gate = WriteGate(places=2, patience=0.3)
    with gate:
        with gate:
            seconds_until_rejected(gate)
        with gate:
            assert seconds_until_rejected(gate) >= 0.3


def test_failed_writer_releases_its_slot():
    gate = WriteGate(places=1, patience=0.1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), gate:
            raise ZeroDivisionError
    with gate:
        pass


@pytest.mark.parametrize("url", ["postgresql://u@db/placement", "mysql://u@db/placement"])
def test_database_servers_need_no_gate(url):
    database = Database(make_settings(url))
    assert not isinstance(database._gate, WriteGate)
    database.dispose()
