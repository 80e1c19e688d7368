# SPDX-License-Identifier: Apache-2.0
"""The messages of an event, and the queue and the thread that send them."""

import os
import threading

import pytest

from placement_sched import notifications as module
from placement_sched.errors import ConfigurationError
from placement_sched.notifications import END, ERROR, START, Bus, Event, Reason, Sender
from tests.notifications.memory import MEMORY_DRIVER_OPTIONS, read_notifications
from tests.notifications.requests import (
    REQUEST_WITH_ALL_FIELDS,
    REQUEST_WITH_REQUIRED_FIELDS,
    build_request,
)
from tests.support.processes import FORKSERVER
from tests.support.states import build_settings

pytestmark = pytest.mark.slow

UNVERSIONED_PUBLISHER, VERSIONED_PUBLISHER = "scheduler.ctl1", "nova-scheduler:ctl1"
SELECT_EVENT_TYPE, RUN_INSTANCE_EVENT_TYPE = (
    "scheduler.select_destinations",
    "scheduler.run_instance",
)
NO_VALID_HOST_REASON = Reason("scheduler.no_valid_host", "No valid host was found")


def send_event_and_read_messages(event, **options):
    """Send an event, and return publisher, type and priority of each message."""
    bus = Bus(build_settings(**MEMORY_DRIVER_OPTIONS, **options))
    bus.send(event)
    bus.close()
    return [(each.publisher, each.event_type, each.priority) for each in read_notifications()]


@pytest.mark.parametrize(
    ("form", "publishers"),
    [
        (None, [UNVERSIONED_PUBLISHER]),
        ("unversioned", [UNVERSIONED_PUBLISHER]),
        ("versioned", [VERSIONED_PUBLISHER]),
        ("both", [UNVERSIONED_PUBLISHER, VERSIONED_PUBLISHER]),
    ],
)
@pytest.mark.parametrize(("phase", "priority"), [(START, "info"), (END, "info"), (ERROR, "error")])
def test_format_option_selects_versioned_or_unversioned_notifications(
    form, publishers, phase, priority
):
    options = {"notifications__notification_format": form} if form else {}
    event = Event(
        phase,
        build_request(REQUEST_WITH_ALL_FIELDS),
        NO_VALID_HOST_REASON if phase == ERROR else None,
    )
    expected = [(publisher, f"{SELECT_EVENT_TYPE}.{phase}", priority) for publisher in publishers]
    assert send_event_and_read_messages(event, **options) == expected
    assert [each.is_versioned for each in read_notifications()] == [
        publisher == VERSIONED_PUBLISHER for publisher in publishers
    ]


@pytest.mark.parametrize("form", ["unversioned", "versioned", "both"])
@pytest.mark.parametrize(("phase", "is_sent"), [(START, True), (END, True), (ERROR, False)])
def test_run_instance_notification_is_unversioned_and_not_sent_for_errors(form, phase, is_sent):
    event = Event(
        phase,
        build_request(REQUEST_WITH_ALL_FIELDS),
        NO_VALID_HOST_REASON if phase == ERROR else None,
    )
    messages = send_event_and_read_messages(
        event, notifications__notification_format=form, notifications__notify_on_run_instance=True
    )
    run = [(UNVERSIONED_PUBLISHER, f"{RUN_INSTANCE_EVENT_TYPE}.{phase}", "info")]
    assert [each for each in messages if each[1].startswith(RUN_INSTANCE_EVENT_TYPE)] == (
        run if is_sent else []
    )
    assert len(messages) == {"both": 2}.get(form, 1) + is_sent


def test_context_of_a_notification_has_the_user_and_project():
    send_event_and_read_messages(Event(START, build_request(REQUEST_WITH_ALL_FIELDS)))
    assert [each.context for each in read_notifications()] == [
        {"user_id": "u1", "project_id": "p1", "user": "u1", "project": "p1"}
    ]


def test_each_notification_driver_sends_every_message_once():
    options = {"oslo_messaging_notifications__driver": ["test", "log", "noop", "test"]}
    bus = Bus(build_settings(**{**MEMORY_DRIVER_OPTIONS, **options}))
    bus.send(Event(START, build_request(REQUEST_WITH_ALL_FIELDS)))
    assert len(read_notifications()) == 1  # the second "test" is the same driver


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"driver": ["rabbit"]}, "driver: unknown driver 'rabbit'. There are: log, messaging,"),
        ({"transport_url": "rabit://h"}, "transport_url: Failed to load transport driver"),
        ({"transport_url": "nonsense"}, "transport_url: No scheme specified"),
    ],
)
def test_invalid_notification_options_are_reported(options, message):
    values = {f"oslo_messaging_notifications__{name}": value for name, value in options.items()}
    with pytest.raises(ConfigurationError) as failure:
        Bus(build_settings(**{**MEMORY_DRIVER_OPTIONS, **values}))
    assert failure.value.detail.startswith(f"[oslo_messaging_notifications] {message}")


START_EVENT = Event(START, build_request(REQUEST_WITH_REQUIRED_FIELDS))


class BlockedBus:
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
def blocked_bus():
    blocked_bus = BlockedBus()
    yield blocked_bus
    blocked_bus.released.set()


def test_notifications_are_sent_in_order_and_the_bus_is_closed(blocked_bus):
    blocked_bus.released.set()
    sender = Sender(lambda: blocked_bus)
    events = [Event(phase, START_EVENT.spec) for phase in ("a", "b", "c")]
    for event in events:
        sender.put(event)
    sender.close()
    assert blocked_bus.sent == events
    assert blocked_bus.closed


def test_blocked_message_bus_does_not_block_requests(blocked_bus, caplog):
    sender = Sender(lambda: blocked_bus, waiting=2)
    sender.put(START_EVENT)
    assert blocked_bus.called.wait(60)
    for _ in range(5):  # an event is being sent, two are queued, and three are dropped
        sender.put(START_EVENT)
    assert [record.getMessage() for record in caplog.records] == [
        "the message bus accepts no notifications: 2 queued, others dropped"
    ]
    assert not sender.flush(0.01)
    blocked_bus.released.set()
    assert sender.flush(60)
    sender.put(START_EVENT)
    assert caplog.records[-1].getMessage() == (
        "the message bus accepts notifications again: 3 were dropped"
    )
    sender.close()
    assert len(blocked_bus.sent) == 4


def test_failing_message_bus_is_logged_and_used_again(blocked_bus, caplog):
    blocked_bus.broken = True
    blocked_bus.released.set()
    sender = Sender(lambda: blocked_bus)
    sender.put(START_EVENT)
    assert sender.flush(60)
    assert [record.getMessage() for record in caplog.records] == ["a notification was not sent"]
    blocked_bus.broken = False
    sender.put(START_EVENT)
    sender.close()
    assert blocked_bus.sent == [START_EVENT]


def test_message_bus_is_opened_again_for_the_next_notification(blocked_bus, caplog):
    blocked_bus.released.set()
    results = iter([OSError("not yet"), blocked_bus])

    def open_bus_at_second_attempt():
        if isinstance(result := next(results), OSError):
            raise result
        return result

    sender = Sender(open_bus_at_second_attempt)
    sender.put(START_EVENT)
    sender.put(START_EVENT)
    sender.close()
    assert len(blocked_bus.sent) == 1
    assert len(caplog.records) == 1


def test_closing_a_notification_sender_has_a_timeout(blocked_bus, caplog, monkeypatch):
    monkeypatch.setattr(module, "GRACE", 0.01)
    sender = Sender(lambda: blocked_bus)
    sender.put(START_EVENT)
    assert blocked_bus.called.wait(60)
    sender.put(START_EVENT)
    sender.close()
    assert "the message bus accepts no notifications" in caplog.text


def test_unused_notification_sender_does_not_open_the_bus():
    Sender(lambda: pytest.fail("opened for nothing")).close()


def test_pending_notifications_are_sent_at_exit_of_the_process(tmp_path):
    """A worker of a server is also a child of multiprocessing."""
    path = tmp_path / "sent"
    process = FORKSERVER.Process(target=_send_three_events, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert path.read_text() == "start\n" * 3


class _FileWritingBus:
    def __init__(self, path) -> None:
        self._path = path

    def send(self, event: Event) -> None:
        with self._path.open("a") as file:
            file.write(f"{event.phase}\n")

    def close(self) -> None:
        pass


def _send_three_events(path) -> None:
    sender = Sender(lambda: _FileWritingBus(path))
    for _ in range(3):
        sender.put(START_EVENT)


def test_forked_process_does_not_send_notifications_of_its_parent():
    process = FORKSERVER.Process(target=_close_sender_in_forked_child)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def _close_sender_in_forked_child() -> None:
    bus = BlockedBus()
    bus.released.set()
    sender = Sender(lambda: bus)
    sender.put(START_EVENT)
    assert sender.flush(60)
    child = os.fork()
    if child == 0:
        sender.close()  # this process has no thread that sends
        os._exit(0 if sender.flush(0) and not bus.closed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sender.close()
    assert bus.closed
