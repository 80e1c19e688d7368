# SPDX-License-Identifier: Apache-2.0
"""Notifications of nova 34 and of our service for the same request."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from placement_sched.notifications import START, Bus, Event
from tests.differential.comparison import PEER_PYTHON
from tests.notifications.memory import (
    MEMORY_DRIVER_OPTIONS,
    clear_notifications,
    read_notifications,
)
from tests.notifications.requests import (
    REQUEST_WITH_ALL_FIELDS,
    REQUEST_WITH_REQUIRED_FIELDS,
    build_request,
)
from tests.support.states import build_settings

pytestmark = pytest.mark.system

NOTIFY_PROGRAM = Path(__file__).parent / "peer" / "notify.py"

#: Fields whose values are not in a request.
FIELDS_MISSING_IN_REQUESTS = {"projects", "created_at", "updated_at", "deleted_at", "direct_url"}


@pytest.fixture(
    scope="module",
    params=[REQUEST_WITH_ALL_FIELDS, REQUEST_WITH_REQUIRED_FIELDS],
    ids=["whole", "bare"],
)
def both_notifications(request):
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("nova is not installed: make peer")
    done = subprocess.run(
        [PEER_PYTHON, NOTIFY_PROGRAM],
        input=json.dumps(request.param),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=240,
    )
    clear_notifications()
    bus = Bus(build_settings(**MEMORY_DRIVER_OPTIONS, notifications__notification_format="both"))
    bus.send(Event(START, build_request(request.param)))
    bus.close()
    ours = read_notifications()
    clear_notifications()
    return json.loads(done.stdout), ours


def remove_unknown_fields(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: None if key in FIELDS_MISSING_IN_REQUESTS else remove_unknown_fields(value)
            for key, value in document.items()
        }
    return (
        [remove_unknown_fields(item) for item in document]
        if isinstance(document, list)
        else document
    )


def test_publisher_priority_and_event_type_match_nova(both_notifications):
    theirs, ours = both_notifications
    assert [(item.publisher, item.event_type, item.priority) for item in ours] == [
        (item["message"]["publisher_id"], item["message"]["event_type"], item["priority"].lower())
        for item in theirs
    ]


def test_notification_context_is_a_subset_of_the_nova_context(both_notifications):
    theirs, ours = both_notifications
    for nova, item in zip(theirs, ours, strict=True):
        assert item.context.items() <= nova["context"].items()


def test_versioned_payload_matches_nova(both_notifications):
    (_, theirs), (_, ours) = both_notifications
    nova, payload = theirs["message"]["payload"], dict(ours.payload)
    # nova 34 sends security groups with an identifier. These groups have no identifier.
    for document in (nova, payload):
        document["nova_object.data"]["security_groups"] = []
    assert remove_unknown_fields(payload) == remove_unknown_fields(nova)


def test_unversioned_payload_matches_nova(both_notifications):
    (theirs, _), (ours, _) = both_notifications
    nova, payload = theirs["message"]["payload"]["request_spec"], ours.payload["request_spec"]
    # nova sends the internal state of its PCI request objects.
    for document in (nova, payload):
        document["instance_properties"].pop("pci_requests")
    assert remove_unknown_fields(payload) == remove_unknown_fields(nova)
