# SPDX-License-Identifier: Apache-2.0
"""A cloud with four hosts, and its views of hosts."""

import pytest

from tests.api.compute.conftest import AggregateApi
from tests.support.allocation_bodies import build_body
from tests.support.clouds import uuid_of
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_flavor, make_report, make_uuid
from tests.support.versions import LATEST, LATEST_HEADERS

HOSTS_PATH = "/scheduler/v1/hosts"
POLICY_CONFIG = """
[high_cpu_density]
cpu_allocation_ratio = 8.0
"""
OLD_REPORT_TIME = "2020-01-01T00:00:00"


def put_placement_document(app, path, body):
    app.put_json(f"/placement{path}", body, headers=LATEST_HEADERS)


def set_provider_traits(app, provider, *names):
    for name in names:
        if name.startswith("CUSTOM_"):
            app.put(f"/placement/traits/{name}", headers=LATEST_HEADERS)
    path = f"/placement/resource_providers/{uuid_of(provider)}"
    generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
    put_placement_document(
        app,
        f"/resource_providers/{uuid_of(provider)}/traits",
        {"resource_provider_generation": generation, "traits": list(names)},
    )


def put_allocations(app, number, host=None, **amounts_by_provider):
    """Write the allocations of a consumer, and an instance record if ``host`` is given."""
    amounts = {uuid_of(name): each for name, each in amounts_by_provider.items()}
    body = build_body(LATEST, amounts, owner=("p1", "u1"))
    put_placement_document(app, f"/allocations/{make_uuid(number)}", body)
    if host is not None:
        record_instance(app, number, host)


def record_instance(app, number, host, **more):
    body = {
        "host": host,
        "node": host,
        "flavor": make_flavor(),
        "display_name": f"vm{number}",
        **more,
    }
    app.put_json(f"/scheduler/v1/instances/{make_uuid(number)}", {"project_id": "p1", **body})


@pytest.fixture
def cloud_app(database_url, tmp_path, make_app):
    """Four hosts in two zones. cn2 is disabled, cn4 is down, cn1 has child providers."""
    settings = settings_with_policies(database_url, tmp_path, POLICY_CONFIG)
    app = make_app(settings.with_overrides({"DEFAULT.service_down_time": 86400}))
    reports = [make_report(name) for name in ("cn1", "cn2", "cn3")]
    reports.append(make_report("cn4", last_seen_up=OLD_REPORT_TIME))
    app.post_json("/scheduler/v1/compute_nodes", reports)
    api = AggregateApi(app)
    for name, zone, hosts in (("east", "az-east", ("cn1", "cn2")), ("rack", None, ("cn1", "cn3"))):
        number = api.create_and_get_id(name, zone)
        for host in hosts:
            api.add_host(number, host)
    api.set_metadata(number, sched_policy="High_CPU_density", rack="r7")
    disabling = {"host": "cn2", "binary": "nova-compute", "disabled_reason": "new disks"}
    app.put_json("/compute/v2.1/os-services/disable-log-reason", disabling)
    child = {"name": "cn1_NUMA0", "parent_provider_uuid": uuid_of("cn1")}
    child["uuid"] = uuid_of(child["name"])
    app.post_json("/placement/resource_providers", child, headers=LATEST_HEADERS)
    stock = {"VCPU": {"total": 8}, "SRIOV_NET_VF": {"total": 4}}
    inventories = {"resource_provider_generation": 0, "inventories": stock}
    put_placement_document(app, f"/resource_providers/{child['uuid']}/inventories", inventories)
    set_provider_traits(app, "cn1", "CUSTOM_A", "CUSTOM_B")
    set_provider_traits(app, "cn1_NUMA0", "CUSTOM_B", "HW_NUMA_ROOT")
    set_provider_traits(app, "cn3", "CUSTOM_A")
    put_allocations(app, 1, "cn1", cn1={"VCPU": 2, "MEMORY_MB": 512}, cn1_NUMA0={"VCPU": 3})
    put_allocations(app, 2, "cn3", cn3={"VCPU": 1})
    return app


def list_hosts(app, query=""):
    return app.get(f"{HOSTS_PATH}{query}").json


def list_host_names(app, query=""):
    return [host["host"] for host in list_hosts(app, query)["hosts"]]


def index_hosts_by_name(response):
    return {host["host"]: host for host in response["hosts"]}
