# SPDX-License-Identifier: Apache-2.0
"""Hosts, zones, flavors and instances, created through the APIs."""

from typing import Any

import pytest

from tests.support.scheduling import make_report, make_spec, make_uuid

NODES_PATH = "/scheduler/v1/compute_nodes"
SELECT_PATH = "/scheduler/v1/select_destinations"
FLAVORS_PATH = "/compute/v2.1/flavors"
AGGREGATES_PATH = "/compute/v2.1/os-aggregates"
COMPUTE_HEADERS = {"OpenStack-API-Version": "compute 2.96"}


def make_zone(app, name, *hosts):
    body = {"aggregate": {"name": f"agg-{name}", "availability_zone": name}}
    number = app.post_json(AGGREGATES_PATH, body, headers=COMPUTE_HEADERS).json["aggregate"]["id"]
    for host in hosts:
        add = {"add_host": {"host": host}}
        app.post_json(f"{AGGREGATES_PATH}/{number}/action", add, headers=COMPUTE_HEADERS)


def store_flavor(app, name, vcpus=1, ram=1024, disk=10):
    sizes = {"vcpus": vcpus, "ram": ram, "disk": disk}
    app.post_json(
        FLAVORS_PATH, {"flavor": {"name": name, "id": name, **sizes}}, headers=COMPUTE_HEADERS
    )


@pytest.fixture
def cloud(app):
    """Three hosts: cn1 runs out of memory, cn2 runs out of CPUs, and cn3 is full."""
    hosts = [
        make_report("cn1", vcpus=16, memory_mb=4096),
        make_report("cn2", vcpus=2, memory_mb=65536),
        make_report("cn3", vcpus=16, memory_mb=512),
    ]
    app.post_json(NODES_PATH, hosts)
    make_zone(app, "az1", "cn1")
    make_zone(app, "az2", "cn2", "cn3")
    return app


def place_instance_on_host(app, number, host, **values):
    body = {"request_spec": make_spec(make_uuid(number), force_hosts=[host], **values)}
    app.post_json(SELECT_PATH, body)


def create_aggregate_with_metadata(app, name, **values):
    """Set metadata of an aggregate, made for this."""
    body = {"aggregate": {"name": name}}
    number = app.post_json(AGGREGATES_PATH, body, headers=COMPUTE_HEADERS).json["aggregate"]["id"]
    action = {"set_metadata": {"metadata": values}}
    app.post_json(f"{AGGREGATES_PATH}/{number}/action", action, headers=COMPUTE_HEADERS)
    return number


def report_hosts_with_instances(app, hosts, instances):
    """Report hosts of 4 GiB, and place instances of 1 GiB on named hosts."""
    app.post_json(NODES_PATH, [make_report(name, memory_mb=4096) for name in hosts])
    store_flavor(app, "small")
    store_flavor(app, "large", ram=3072)
    for number, host in enumerate(instances, 1):
        place_instance_on_host(app, number, host, flavor="small")


def disable_host(app: Any, host: str) -> None:
    services = app.get(f"/compute/v2.1/os-services?host={host}", headers=COMPUTE_HEADERS).json[
        "services"
    ]
    path = f"/compute/v2.1/os-services/{services[0]['id']}"
    app.put_json(path, {"status": "disabled"}, headers=COMPUTE_HEADERS)
