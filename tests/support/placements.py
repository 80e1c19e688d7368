# SPDX-License-Identifier: Apache-2.0
"""Placements until nothing fits."""

from webtest import TestApp

from tests.support.api_clouds import SELECT_PATH
from tests.support.scheduling import make_spec

#: More than the capacity of every cloud of these tests.
MAX_PLACED_INSTANCES = 300


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
