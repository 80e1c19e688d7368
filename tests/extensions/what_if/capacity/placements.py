# SPDX-License-Identifier: Apache-2.0
"""Capacity of a request, and placements until nothing fits."""

from webtest import TestApp

from tests.support.scheduling import make_spec

CAPACITY_PATH = "/scheduler/v1/capacity"
SELECT_PATH = "/scheduler/v1/select_destinations"
GPU_ALIAS = '{"vendor_id": "10de", "product_id": "1db4", "name": "gpu"}'
GPU_POOL = {"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 0}
#: More than the capacity of every cloud of these tests.
MAX_PLACED_INSTANCES = 300


def read_capacity(
    app: TestApp, status: int = 200, query: dict | None = None, **fields: object
) -> dict:
    """Return the capacity of the request of these tests, changed by ``fields``."""
    request = make_spec(**fields)
    del request["instance_uuids"]
    body = {"request_spec": request, **(query or {})}
    return app.post_json(CAPACITY_PATH, body, status=status).json


def fill_cloud(app: TestApp, after=lambda _selection: None, **fields: object) -> list[str]:
    """Claim instances until no host is found, and return the hosts.

    ``after`` is called with each selection, for example to report the instance like a host.
    """
    hosts: list[str] = []
    while len(hosts) < MAX_PLACED_INSTANCES:
        response = app.post_json(SELECT_PATH, {"request_spec": make_spec(**fields)}, status="*")
        if response.status_int == 409:
            assert response.json["errors"][0]["code"] == "scheduler.no_valid_host"
            return hosts
        assert response.status_int == 200, response.text
        ((best, *_),) = response.json["selections"]
        hosts.append(best["service_host"])
        after(best)
    raise AssertionError("the cloud is not full after many instances")


def get_error_detail(result: dict) -> str:
    (error,) = result["errors"]
    return str(error["detail"])


def build_limit(resource_class, hosts):
    """Build the entry of ``limited_by`` for hosts without a resource class."""
    return {
        "reason": resource_class,
        "kind": "capacity",
        "resource_class": resource_class,
        "hosts": hosts,
    }
