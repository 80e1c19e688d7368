# SPDX-License-Identifier: Apache-2.0
"""Host reports and request specs, for tests of scheduling."""

from typing import Any
from uuid import UUID, uuid4

from webtest import TestApp

from tests.support.clouds import uuid_of

FLAVOR = {"name": "m1", "vcpus": 1, "memory_mb": 1024, "root_gb": 10}


def make_report(name: str, **changes: object) -> dict[str, object]:
    """Return the report of a host named ``name``, with 16 vCPUs, 64 GB and a disk of 1000 GB."""
    return {
        "uuid": uuid_of(name),
        "host": name,
        "hypervisor_hostname": name,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "vcpus": 16,
        "memory_mb": 65536,
        "local_gb": 1000,
        **changes,
    }


def make_spec(*instances: str, **changes: object) -> dict[str, object]:
    """Return a request spec for instances of these uuids, or of a new uuid."""
    return {
        "project_id": "p1",
        "user_id": "u1",
        "instance_uuids": list(instances) or [str(uuid4())],
        "flavor": FLAVOR,
        "image": None,
        **changes,
    }


def get_selected_hosts(response: dict[str, object]) -> list[str]:
    """Return the host chosen for each instance."""
    return [selections[0]["service_host"] for selections in response["selections"]]


def make_flavor(**changes: object) -> dict[str, object]:
    """Return the flavor of these tests, changed."""
    return {**FLAVOR, **changes}


def make_uuid(number: int) -> str:
    """Return the uuid of an instance, always the same for a number."""
    return str(UUID(int=number))


def select_hosts(
    app: TestApp, request_spec: dict[str, object], status: int = 200, **more: object
) -> dict[str, Any]:
    """Select hosts through the scheduler API, and return the body."""
    body = {"request_spec": request_spec, **more}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain_request(
    app: TestApp, request_spec: dict[str, object], **more: object
) -> dict[str, Any]:
    """Explain a request through the scheduler API, and return the body."""
    return app.post_json("/scheduler/v1/explain", {"request_spec": request_spec, **more}).json
