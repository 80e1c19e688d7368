# SPDX-License-Identifier: Apache-2.0
"""The notifications that a request sends, and their order."""

import sys

import pytest

from placement_sched.config.options.services import MESSAGING_GROUP
from placement_sched.notifications import END, ERROR, SILENT, START, Notifier, create_notifier
from tests.conftest import make_settings
from tests.notifications.memory import MEMORY_DRIVER_OPTIONS, read_notifications
from tests.support.commands import run_captured
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.states import build_settings

pytestmark = pytest.mark.slow

SELECT_DESTINATIONS_PATH = "/scheduler/v1/select_destinations"
EXPLAIN_PATH = "/scheduler/v1/explain"


@pytest.fixture
def app_with_host(sqlite_url, make_app):
    """A service with a host that keeps its notifications in memory."""
    app = make_app(make_settings(sqlite_url, **MEMORY_DRIVER_OPTIONS))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    return app


def list_sent_event_types(app):
    """Return event types and priorities after all notifications are sent."""
    app.app.services.scheduler.notifier.close()
    prefix = "scheduler.select_destinations."
    return [(each.event_type.removeprefix(prefix), each.priority) for each in read_notifications()]


def test_start_and_end_of_a_request_are_notified(app_with_host):
    app_with_host.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1))})
    assert list_sent_event_types(app_with_host) == [("start", "info"), ("end", "info")]
    properties = [
        each.payload["request_spec"]["instance_properties"] for each in read_notifications()
    ]
    assert {each["uuid"] for each in properties} == {make_uuid(1)}
    assert {each["project_id"] for each in properties} == {"p1"}


def test_generated_instance_uuid_is_notified(app_with_host):
    body = {"request_spec": {"flavor": make_flavor(), "image": None}}
    app_with_host.post_json(SELECT_DESTINATIONS_PATH, body)
    assert list_sent_event_types(app_with_host) == [("start", "info"), ("end", "info")]
    (uuid,) = {
        each.payload["request_spec"]["instance_properties"]["uuid"] for each in read_notifications()
    }
    listed = app_with_host.get("/scheduler/v1/instances").json["instances"]
    assert [each["uuid"] for each in listed] == [uuid]


def test_error_notification_of_a_failed_request_has_the_reason(app_with_host):
    body = {"request_spec": make_spec(make_uuid(1), flavor=make_flavor(memory_mb=999999))}
    error = app_with_host.post_json(SELECT_DESTINATIONS_PATH, body, status=409).json["errors"][0]
    assert list_sent_event_types(app_with_host) == [("start", "info"), ("error", "error")]
    payload = read_notifications()[1].payload
    assert payload["code"] == "scheduler.no_valid_host"
    assert payload["reason"] == error["detail"]


def test_request_for_an_instance_that_has_a_host_is_notified_as_an_error(app_with_host):
    app_with_host.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1))})
    other = make_spec(make_uuid(1), flavor=make_flavor(vcpus=2))
    app_with_host.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": other}, status=409)
    assert list_sent_event_types(app_with_host)[2:] == [("start", "info"), ("error", "error")]
    assert read_notifications()[3].payload["code"] == "scheduler.instance_placed"


@pytest.mark.parametrize("claim", [True, False])
def test_notifications_of_a_repeated_request_are_sent_again(app_with_host, claim):
    for _ in range(2):
        app_with_host.post_json(
            SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1)), "claim": claim}
        )
    assert list_sent_event_types(app_with_host) == [("start", "info"), ("end", "info")] * 2


def test_explanation_sends_no_notification(app_with_host):
    app_with_host.post_json(EXPLAIN_PATH, {"request_spec": make_spec(make_uuid(1))})
    app_with_host.post_json(
        EXPLAIN_PATH, {"request_spec": make_spec(flavor=make_flavor(memory_mb=999999))}
    )
    assert list_sent_event_types(app_with_host) == []


@pytest.mark.parametrize("request_spec", [{"flavor": 1}, {"flavor": "no-such-flavor"}])
def test_invalid_request_sends_no_notification(app_with_host, request_spec):
    app_with_host.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": request_spec}, status="4*")
    assert list_sent_event_types(app_with_host) == []


def test_request_succeeds_while_the_message_bus_is_unavailable(sqlite_url, make_app, caplog):
    options = {
        "oslo_messaging_notifications__driver": ["messagingv2"],
        "oslo_messaging_notifications__transport_url": "rabbit://guest:guest@127.0.0.1:1/",
        "oslo_messaging_notifications__retry": 0,
    }
    app = make_app(make_settings(sqlite_url, **options))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    app.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1))})
    app.app.services.scheduler.notifier.close()
    assert "Connection refused" in caplog.text


class AllocationCountingNotifier(Notifier):
    """Records the number of allocations at each notification."""

    def __init__(self, database) -> None:
        super().__init__()
        self.counts = []
        self._database = database

    def _notify(self, event) -> None:
        with self._database.read() as connection:
            number = connection.exec_driver_sql("SELECT COUNT(*) FROM allocations").scalar()
        self.counts.append((event.phase, number))


@pytest.mark.all_databases
def test_end_notification_is_sent_after_the_commit(app):
    """A consumer of the end notification finds the allocations in the database."""
    services = app.app.services
    notifier = AllocationCountingNotifier(services.database)
    object.__setattr__(services.scheduler, "notifier", notifier)
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    app.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1))})
    app.post_json(
        SELECT_DESTINATIONS_PATH,
        {"request_spec": make_spec(flavor=make_flavor(vcpus=99))},
        status=409,
    )
    assert notifier.counts == [(START, 0), (END, 3), (START, 3), (ERROR, 3)]


@pytest.mark.parametrize("drivers", [[], [""], ["noop"], ["noop", "noop"]])
def test_disabled_notification_driver_sends_no_notification(drivers):
    assert create_notifier(build_settings(**{f"{MESSAGING_GROUP}__driver": drivers})) is SILENT


def test_oslo_messaging_is_not_imported_without_a_driver():
    code = (
        "import sys; from placement_sched.app import make_services; "
        "from placement_sched.scheduler.plugins import read_settings; "
        "make_services(read_settings()); print('oslo_messaging' in sys.modules)"
    )
    done = run_captured([sys.executable, "-c", code], check=True)
    assert done.stdout == "False\n"
