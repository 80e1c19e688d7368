# SPDX-License-Identifier: Apache-2.0
"""The samples of the guide's page on notifications. As a program, this module writes them."""

import json
from typing import Any

from placement_sched.errors import NoValidHost
from placement_sched.notifications import ERROR, START, Bus, Event, Reason
from tests.notifications.memory import (
    MEMORY_DRIVER_OPTIONS,
    clear_notifications,
    read_notifications,
)
from tests.notifications.requests import build_request
from tests.support.repository import ROOT
from tests.support.states import build_settings

SAMPLES_FOLDER = ROOT / "doc" / "source" / "notification_samples"

_REQUEST_SPEC = build_request(
    {
        "project_id": "9f1a7c62c0f84f0f9f2b3f2cb6d6a001",
        "user_id": "5c86a5f3d4b94a1b8c3f6f0f0a8c7002",
        "instance_uuids": ["d5e6a7b7-80e5-4166-85a3-cd6115201082"],
        "availability_zone": "nova",
        "flavor": {
            "id": 1,
            "flavorid": "1",
            "name": "m1.small",
            "vcpus": 1,
            "memory_mb": 2048,
            "root_gb": 20,
            "extra_specs": {"hw:mem_page_size": "small"},
        },
        "image": {
            "id": "155d900f-4e14-4e4c-a73d-069cbf4541e6",
            "name": "cirros",
            "disk_format": "qcow2",
            "container_format": "bare",
            "properties": {"hw_architecture": "x86_64"},
        },
        "scheduler_hints": {"same_host": ["00000000-1111-4222-8333-444444444444"]},
    }
)
_NO_VALID_HOST_REASON = Reason.from_exception(
    NoValidHost("No valid host was found: RamFilter rejected the last remaining host")
)
_SCHEDULING_EVENTS = (
    Event(START, _REQUEST_SPEC),
    Event(ERROR, _REQUEST_SPEC, _NO_VALID_HOST_REASON),
)


def build_notification_samples() -> dict[str, Any]:
    """Return every sample by its file name."""
    options = {
        "notifications__notification_format": "both",
        "notifications__notify_on_run_instance": True,
    }
    clear_notifications()
    bus = Bus(build_settings(**MEMORY_DRIVER_OPTIONS, **options))
    for event in _SCHEDULING_EVENTS:
        bus.send(event)
    bus.close()
    samples = {
        f"{message.event_type}-{'versioned' if message.is_versioned else 'unversioned'}.json": {
            "publisher_id": message.publisher,
            "event_type": message.event_type,
            "priority": message.priority.upper(),
            "payload": message.payload,
        }
        for message in read_notifications()
    }
    clear_notifications()
    return samples


def write_notification_samples() -> None:
    """Write the samples."""
    SAMPLES_FOLDER.mkdir(exist_ok=True)
    for name, document in build_notification_samples().items():
        (SAMPLES_FOLDER / name).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    write_notification_samples()
