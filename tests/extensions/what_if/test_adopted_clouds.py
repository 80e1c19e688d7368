# SPDX-License-Identifier: Apache-2.0
"""Plans of moves of instances that nova has placed."""

from uuid import UUID

import pytest

from tests.nova.conftest import follower as follower  # noqa: PLC0414 - a fixture
from tests.nova.conftest import make_follower as make_follower  # noqa: PLC0414 - a fixture
from tests.nova.conftest import nova as nova  # noqa: PLC0414 - a fixture
from tests.nova.request_fields import REQUEST_FIELDS
from tests.scheduler.adopted_clouds import adopted_cloud as adopted_cloud  # noqa: PLC0414 - a fixture
from tests.support.api_clouds import COMPUTE_HEADERS
from tests.support.versions import LATEST_HEADERS


def add_provider(app, uuid, name, memory_mb):
    """Add the provider of a host, as nova-compute does."""
    path = "/placement/resource_providers"
    app.post_json(path, {"uuid": uuid, "name": name}, headers=LATEST_HEADERS)
    totals = {"VCPU": 32, "MEMORY_MB": memory_mb, "DISK_GB": 10}
    body = {
        "resource_provider_generation": 0,
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }
    app.put_json(f"{path}/{uuid}/inventories", body, headers=LATEST_HEADERS)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_drain_of_an_adopted_cloud_keeps_zone_hints_image_and_root_disk(app, follower, nova):
    """Only cn5 passes. No host has the 20 GB of the root disk."""
    nodes = {name: nova.add_host(name) for name in ("cn1", "cn2", "cn3", "cn4", "cn5")}
    for name, node in nodes.items():
        add_provider(app, node, name, memory_mb=8192 if name == "cn5" else 65536)
    app.put("/placement/traits/CUSTOM_LICENSED", headers=LATEST_HEADERS)
    for name in ("cn1", "cn2", "cn3", "cn5"):
        body = {"resource_provider_generation": 1, "traits": ["CUSTOM_LICENSED"]}
        path = f"/placement/resource_providers/{nodes[name]}/traits"
        app.put_json(path, body, headers=LATEST_HEADERS)
    nova.add_aggregate("north", ("cn1", "cn3", "cn4", "cn5"), availability_zone="az1")
    nova.add_instance("cn3", uuid=str(UUID(int=3)))
    uuid = nova.add_instance("cn1")
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    nova.add_root_disk(uuid, "volume")
    follower.sync_all()
    (aggregate,) = app.get("/compute/v2.1/os-aggregates", headers=COMPUTE_HEADERS).json[
        "aggregates"
    ]
    for name in aggregate["hosts"]:
        generation = 1 if name == "cn4" else 2
        body = {"resource_provider_generation": generation, "aggregates": [aggregate["uuid"]]}
        path = f"/placement/resource_providers/{nodes[name]}/aggregates"
        app.put_json(path, body, headers=LATEST_HEADERS)
    filters = ["ComputeFilter", "AvailabilityZoneFilter", "DifferentHostFilter"]
    body = {
        "changes": [{"drain": ["cn1"]}],
        "overrides": {"filter_scheduler.enabled_filters": filters},
    }
    plan = app.post_json("/scheduler/v1/plan", body).json
    assert [(move["instance"], move["to"]) for move in plan["moves"]] == [(uuid, "cn5")]
    assert plan["unknown"] == {"requested_resources": [uuid]}


def test_plan_keeps_bandwidth_and_physical_network_of_an_adopted_instance(adopted_cloud):
    body = {"changes": [{"drain": ["cn1"]}]}
    response = adopted_cloud.post_json("/scheduler/v1/plan", body).json
    assert [move["to"] for move in response["moves"]] == ["cn4"]
    assert response["unknown"].keys() == {"availability_zone", "scheduler_hints", "is_bfv"}
