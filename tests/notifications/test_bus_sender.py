# SPDX-License-Identifier: Apache-2.0
"""The queue of notifications, and the thread that sends them."""

import os
import threading

import pytest

from placement_sched.notifications import bus as module
from placement_sched.notifications.bus import Sender
from placement_sched.notifications.event import START, Event
from tests.support.notification_requests import BARE, build_request
from tests.support.processes import PROCESSES

pytestmark = pytest.mark.slow

EVENT = Event(START, build_request(BARE))


class SlowBus:
    """A bus that blocks until it is released, and may fail."""

    def __init__(self) -> None:
        self.released, self.called = threading.Event(), threading.Event()
        self.sent: list[Event] = []
        self.broken = self.closed = False

    def send(self, event: Event) -> None:
        self.called.set()
        self.released.wait(60)
        if self.broken:
            raise OSError("the bus is down")
        self.sent.append(event)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bus():
    bus = SlowBus()
    yield bus
    bus.released.set()


def test_events_are_sent_in_order_and_the_bus_is_closed(bus):
    bus.released.set()
    sender = Sender(lambda: bus)
    events = [Event(phase, EVENT.spec) for phase in ("a", "b", "c")]
    for event in events:
        sender.put(event)
    sender.close()
    assert bus.sent == events
    assert bus.closed


def test_blocked_bus_does_not_block_senders(bus, caplog):
    sender = Sender(lambda: bus, waiting=2)
    sender.put(EVENT)
    assert bus.called.wait(60)
    for _ in range(5):  # an event is being sent, two are queued, and three are dropped
        sender.put(EVENT)
    assert [record.getMessage() for record in caplog.records] == [
        "the message bus accepts no notifications: 2 queued, others dropped"
    ]
    assert not sender.flush(0.01)
    bus.released.set()
    assert sender.flush(60)
    sender.put(EVENT)
    assert caplog.records[-1].getMessage() == (
        "the message bus accepts notifications again: 3 were dropped"
    )
    sender.close()
    assert len(bus.sent) == 4


def test_failing_bus_is_logged_and_used_again(bus, caplog):
    bus.broken = True
    bus.released.set()
    sender = Sender(lambda: bus)
    sender.put(EVENT)
    assert sender.flush(60)
    assert [record.getMessage() for record in caplog.records] == ["a notification was not sent"]
    bus.broken = False
    sender.put(EVENT)
    sender.close()
    assert bus.sent == [EVENT]


def test_bus_is_opened_again_for_the_next_event(bus, caplog):
    bus.released.set()
    results = iter([OSError("not yet"), bus])

    def open_bus():
        if isinstance(result := next(results), OSError):
            raise result
        return result

    sender = Sender(open_bus)
    sender.put(EVENT)
    sender.put(EVENT)
    sender.close()
    assert len(bus.sent) == 1
    assert len(caplog.records) == 1


def test_close_has_a_timeout(bus, caplog, monkeypatch):
    monkeypatch.setattr(module, "GRACE", 0.01)
    sender = Sender(lambda: bus)
    sender.put(EVENT)
    assert bus.called.wait(60)
    sender.put(EVENT)
    sender.close()
    assert "the message bus accepts no notifications" in caplog.text


def test_unused_sender_does_not_open_the_bus():
    Sender(lambda: pytest.fail("opened for nothing")).close()


def test_pending_events_are_sent_at_exit(tmp_path):
    """A worker of a server is also a child of multiprocessing."""
    path = tmp_path / "sent"
    process = PROCESSES.Process(target=_put_and_exit, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert path.read_text() == "start\n" * 3


class _FileBus:
    def __init__(self, path) -> None:
        self._path = path

    def send(self, event: Event) -> None:
        with self._path.open("a") as file:
            file.write(f"{event.phase}\n")

    def close(self) -> None:
        pass


def _put_and_exit(path) -> None:
    sender = Sender(lambda: _FileBus(path))
    for _ in range(3):
        sender.put(EVENT)


def test_forked_child_does_not_use_the_sender_of_its_parent():
    process = PROCESSES.Process(target=_fork_and_close)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def _fork_and_close() -> None:
    bus = SlowBus()
    bus.released.set()
    sender = Sender(lambda: bus)
    sender.put(EVENT)
    assert sender.flush(60)
    child = os.fork()
    if child == 0:
        sender.close()  # this process has no thread that sends
        os._exit(0 if sender.flush(0) and not bus.closed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sender.close()
    assert bus.closed
