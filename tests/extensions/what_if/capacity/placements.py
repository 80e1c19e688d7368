# SPDX-License-Identifier: Apache-2.0
"""Capacity of a request."""

from webtest import TestApp

from tests.support.scheduling import make_spec

CAPACITY_PATH = "/scheduler/v1/capacity"
GPU_ALIAS = '{"vendor_id": "10de", "product_id": "1db4", "name": "gpu"}'
GPU_POOL = {"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 0}


def read_capacity(
    app: TestApp, status: int = 200, query: dict | None = None, **fields: object
) -> dict:
    """Return the capacity of the request of these tests, changed by ``fields``."""
    request = make_spec(**fields)
    del request["instance_uuids"]
    body = {"request_spec": request, **(query or {})}
    return app.post_json(CAPACITY_PATH, body, status=status).json


def build_limit(resource_class, hosts):
    """Build the entry of ``limited_by`` for hosts without a resource class."""
    return {
        "reason": resource_class,
        "kind": "capacity",
        "resource_class": resource_class,
        "hosts": hosts,
    }
