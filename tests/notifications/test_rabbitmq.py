# SPDX-License-Identifier: Apache-2.0
"""Notifications over a real RabbitMQ, to oslo.messaging's own listener."""

from uuid import uuid4

import pytest

from tests.conftest import make_settings
from tests.notifications.listener import run_notification_listener
from tests.support.scheduling import make_report, make_spec, make_uuid

pytestmark = pytest.mark.slow

SELECT_DESTINATIONS_PATH = "/scheduler/v1/select_destinations"
UNVERSIONED_PUBLISHER, VERSIONED_PUBLISHER = "scheduler.ctl1", "nova-scheduler:ctl1"


@pytest.fixture
def unversioned_and_versioned_topics():
    """Return unique topics for unversioned and versioned notifications."""
    own = uuid4().hex
    return f"notifications-{own}", f"versioned-{own}"


def test_rabbitmq_consumers_get_both_kinds_of_notifications_in_order(
    sqlite_url, make_app, broker, unversioned_and_versioned_topics
):
    settings = make_settings(
        sqlite_url,
        DEFAULT__host="ctl1",
        oslo_messaging_notifications__driver=["messagingv2"],
        oslo_messaging_notifications__transport_url=broker,
        oslo_messaging_notifications__topics=[unversioned_and_versioned_topics[0]],
        notifications__versioned_notifications_topics=[unversioned_and_versioned_topics[1]],
        notifications__notification_format="both",
        notifications__notify_on_run_instance=True,
    )
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    with (
        run_notification_listener(broker, unversioned_and_versioned_topics[0]) as plain,
        run_notification_listener(broker, unversioned_and_versioned_topics[1]) as versioned,
    ):
        app.post_json(SELECT_DESTINATIONS_PATH, {"request_spec": make_spec(make_uuid(1))})
        received = [plain.next() for _ in range(4)]
        objects = [versioned.next() for _ in range(2)]
    assert [(each.publisher, each.event_type) for each in received] == [
        (UNVERSIONED_PUBLISHER, "scheduler.run_instance.start"),
        (UNVERSIONED_PUBLISHER, "scheduler.select_destinations.start"),
        (UNVERSIONED_PUBLISHER, "scheduler.run_instance.end"),
        (UNVERSIONED_PUBLISHER, "scheduler.select_destinations.end"),
    ]
    assert [(each.publisher, each.event_type) for each in objects] == [
        (VERSIONED_PUBLISHER, "scheduler.select_destinations.start"),
        (VERSIONED_PUBLISHER, "scheduler.select_destinations.end"),
    ]
    assert {each.payload["nova_object.name"] for each in objects} == {"RequestSpecPayload"}
    owners = {(each.context["user_id"], each.context["project_id"]) for each in received}
    assert owners == {("u1", "p1")}
