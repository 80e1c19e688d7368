# SPDX-License-Identifier: Apache-2.0
"""Notifications of ``placement-sched serve`` over RabbitMQ."""

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from tests.notifications.listener import run_notification_listener
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid

pytestmark = pytest.mark.system

SELECT_PATH = "/scheduler/v1/select_destinations"


def post_json_and_get_status(url: str, body: object) -> int:
    headers = {"Content-Type": "application/json", "X-Auth-Token": "admin"}
    request = Request(url, json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=60) as response:
            return int(response.status)
    except HTTPError as rejection:
        with rejection:
            return rejection.code


def test_workers_send_pending_notifications_before_they_end(serve, tmp_path, broker):
    topic = f"notifications-{uuid4().hex}"
    (tmp_path / "bus.conf").write_text(
        f"[DEFAULT]\ntransport_url = {broker}\n"
        f"[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = {topic}\n"
    )
    with run_notification_listener(broker, topic) as listener:
        server = serve("--workers", "2", "--config-file", "bus.conf")
        post_json_and_get_status(f"{server.url}/scheduler/v1/compute_nodes", [make_report("cn1")])
        bodies = [{"request_spec": make_spec(make_uuid(number))} for number in range(1, 9)]
        bodies.append({"request_spec": make_spec(make_uuid(9), flavor=make_flavor(vcpus=999))})
        statuses = [post_json_and_get_status(server.url + SELECT_PATH, body) for body in bodies]
        assert server.stop() == 0
        notifications = [listener.next() for _ in range(18)]
    assert statuses == [200] * 8 + [409]
    events: dict[str, list[str]] = {}
    for notification in notifications:
        uuid = notification.payload["request_spec"]["instance_properties"]["uuid"]
        events.setdefault(uuid, []).append(notification.event_type.rpartition(".")[2])
    # Only the notifications of the same request have a fixed order.
    assert events == {
        **{make_uuid(number): ["start", "end"] for number in range(1, 9)},
        make_uuid(9): ["start", "error"],
    }
    assert server.log.read_text().count("Traceback") == 0
