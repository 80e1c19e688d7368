# SPDX-License-Identifier: Apache-2.0
"""Notifications over a real RabbitMQ, to oslo.messaging's own listener."""

from uuid import uuid4

import pytest

from tests.conftest import make_settings
from tests.support.notification_listener import listen
from tests.support.scheduling import instance, report, spec

pytestmark = pytest.mark.slow

SELECT = "/scheduler/v1/select_destinations"
PLAIN, VERSIONED = "scheduler.ctl1", "nova-scheduler:ctl1"


@pytest.fixture
def unused_topics():
    """Return unique topics for unversioned and versioned notifications."""
    own = uuid4().hex
    return f"notifications-{own}", f"versioned-{own}"


def test_consumers_get_versioned_and_unversioned_notifications_in_order(
    sqlite_url, make_app, broker, unused_topics
):
    settings = make_settings(
        sqlite_url,
        DEFAULT__host="ctl1",
        oslo_messaging_notifications__driver=["messagingv2"],
        oslo_messaging_notifications__transport_url=broker,
        oslo_messaging_notifications__topics=[unused_topics[0]],
        notifications__versioned_notifications_topics=[unused_topics[1]],
        notifications__notification_format="both",
        notifications__notify_on_run_instance=True,
    )
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    with listen(broker, unused_topics[0]) as plain, listen(broker, unused_topics[1]) as versioned:
        app.post_json(SELECT, {"request_spec": spec(instance(1))})
        received = [plain.next() for _ in range(4)]
        objects = [versioned.next() for _ in range(2)]
    assert [(each.publisher, each.event_type) for each in received] == [
        (PLAIN, "scheduler.run_instance.start"),
        (PLAIN, "scheduler.select_destinations.start"),
        (PLAIN, "scheduler.run_instance.end"),
        (PLAIN, "scheduler.select_destinations.end"),
    ]
    assert [(each.publisher, each.event_type) for each in objects] == [
        (VERSIONED, "scheduler.select_destinations.start"),
        (VERSIONED, "scheduler.select_destinations.end"),
    ]
    assert {each.payload["nova_object.name"] for each in objects} == {"RequestSpecPayload"}
    owners = {(each.context["user_id"], each.context["project_id"]) for each in received}
    assert owners == {("u1", "p1")}
