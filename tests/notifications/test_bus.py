# SPDX-License-Identifier: Apache-2.0
"""The messages of an event: form, publisher, type and priority."""

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.notifications.bus import Bus
from placement_sched.notifications.event import END, ERROR, START, Event, Reason
from tests.support.notification_memory import IN_MEMORY, clear_notifications, read_notifications
from tests.support.notification_requests import WHOLE, build_request
from tests.support.states import settings_with

pytestmark = pytest.mark.slow

PLAIN, VERSIONED = "scheduler.ctl1", "nova-scheduler:ctl1"
SELECT, RUN = "scheduler.select_destinations", "scheduler.run_instance"
REASON = Reason("scheduler.no_valid_host", "No valid host was found")


@pytest.fixture(autouse=True)
def clear_sent_notifications():
    clear_notifications()
    yield
    clear_notifications()


def messages(event, **options):
    """Send an event, and return publisher, type and priority of each message."""
    bus = Bus(settings_with(**IN_MEMORY, **options))
    bus.send(event)
    bus.close()
    return [(each.publisher, each.event_type, each.priority) for each in read_notifications()]


@pytest.mark.parametrize(
    ("form", "publishers"),
    [
        (None, [PLAIN]),
        ("unversioned", [PLAIN]),
        ("versioned", [VERSIONED]),
        ("both", [PLAIN, VERSIONED]),
    ],
)
@pytest.mark.parametrize(("phase", "priority"), [(START, "info"), (END, "info"), (ERROR, "error")])
def test_format_option_selects_the_forms_of_each_phase(form, publishers, phase, priority):
    options = {"notifications__notification_format": form} if form else {}
    event = Event(phase, build_request(WHOLE), REASON if phase == ERROR else None)
    expected = [(publisher, f"{SELECT}.{phase}", priority) for publisher in publishers]
    assert messages(event, **options) == expected
    assert [each.is_versioned for each in read_notifications()] == [
        publisher == VERSIONED for publisher in publishers
    ]


@pytest.mark.parametrize("form", ["unversioned", "versioned", "both"])
@pytest.mark.parametrize(("phase", "is_sent"), [(START, True), (END, True), (ERROR, False)])
def test_run_instance_is_optional_and_unversioned(form, phase, is_sent):
    event = Event(phase, build_request(WHOLE), REASON if phase == ERROR else None)
    found = messages(
        event, notifications__notification_format=form, notifications__notify_on_run_instance=True
    )
    run = [(PLAIN, f"{RUN}.{phase}", "info")]
    assert [each for each in found if each[1].startswith(RUN)] == (run if is_sent else [])
    assert len(found) == {"both": 2}.get(form, 1) + is_sent


def test_context_has_the_user_and_project():
    messages(Event(START, build_request(WHOLE)))
    assert [each.context for each in read_notifications()] == [
        {"user_id": "u1", "project_id": "p1", "user": "u1", "project": "p1"}
    ]


def test_each_driver_sends_every_message_once():
    options = {"oslo_messaging_notifications__driver": ["test", "log", "noop", "test"]}
    bus = Bus(settings_with(**{**IN_MEMORY, **options}))
    bus.send(Event(START, build_request(WHOLE)))
    assert len(read_notifications()) == 1  # the second "test" is the same driver


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"driver": ["rabbit"]}, "driver: unknown driver 'rabbit'; there are log, messaging,"),
        ({"transport_url": "rabit://h"}, "transport_url: Failed to load transport driver"),
        ({"transport_url": "nonsense"}, "transport_url: No scheme specified"),
    ],
)
def test_invalid_options_are_reported(options, message):
    values = {f"oslo_messaging_notifications__{name}": value for name, value in options.items()}
    with pytest.raises(ConfigurationError) as failure:
        Bus(settings_with(**{**IN_MEMORY, **values}))
    assert failure.value.detail.startswith(f"[oslo_messaging_notifications] {message}")
