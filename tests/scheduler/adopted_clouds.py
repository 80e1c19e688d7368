# SPDX-License-Identifier: Apache-2.0
"""A cloud with adopted instances that have ports."""

import pytest

from tests.support.allocation_bodies import build_body
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_uuid
from tests.support.versions import LATEST, LATEST_HEADERS

BANDWIDTH = "NET_BW_EGR_KILOBIT_PER_SEC"


PHYSNET_TRAITS = ["CUSTOM_PHYSNET_BLUE", "CUSTOM_VNIC_TYPE_NORMAL"]


def add_bandwidth_provider(app, host, amount, traits):
    """Add a provider of bandwidth below a host, as neutron does."""
    path = "/placement/resource_providers"
    provider = uuid_of(f"{host}:br")
    body = {"uuid": provider, "name": f"{host}:br", "parent_provider_uuid": uuid_of(host)}
    app.post_json(path, body, headers=LATEST_HEADERS)
    inventories = {BANDWIDTH: {"total": amount}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    app.put_json(f"{path}/{provider}/inventories", body, headers=LATEST_HEADERS)
    for trait in traits:
        app.put(f"/placement/traits/{trait}", headers=LATEST_HEADERS)
    body = {"resource_provider_generation": 1, "traits": traits}
    app.put_json(f"{path}/{provider}/traits", body, headers=LATEST_HEADERS)


@pytest.fixture
def adopted_cloud(app):
    """An adopted instance on cn1. Only cn4 also has its bandwidth and network."""
    hosts = {"cn1": 8192, "cn2": 65536, "cn3": 32768, "cn4": 8192, "cn5": 16384}
    reports = [make_report(name, memory_mb=size) for name, size in hosts.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    add_bandwidth_provider(app, "cn1", 1000, PHYSNET_TRAITS)
    add_bandwidth_provider(app, "cn3", 1000, ["CUSTOM_PHYSNET_RED", "CUSTOM_VNIC_TYPE_NORMAL"])
    add_bandwidth_provider(app, "cn4", 1000, PHYSNET_TRAITS)
    add_bandwidth_provider(app, "cn5", 100, PHYSNET_TRAITS)
    instance = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", instance)
    amounts = {
        uuid_of("cn1"): {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10},
        uuid_of("cn1:br"): {BANDWIDTH: 500},
    }
    path = f"/placement/allocations/{make_uuid(1)}"
    app.put_json(path, build_body(LATEST, amounts), headers=LATEST_HEADERS)
    return app
