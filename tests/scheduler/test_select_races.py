# SPDX-License-Identifier: Apache-2.0
"""Concurrent selections and claims by several processes."""

from collections import Counter
from datetime import datetime
from itertools import count

import pytest
from sqlalchemy import update
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.tables import compute_nodes
from tests.conftest import make_settings
from tests.exploring import scale_example_count
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.providers import read_usages
from tests.scheduler.server_groups import create_group
from tests.support.allocation_bodies import build_body
from tests.support.clouds import uuid_of
from tests.support.processes import run_in_processes
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.statements import execute_without_foreign_keys
from tests.verifier.verify import assert_invariants

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

#: Fewer rounds in the lanes for a change.
NUMBER_OF_ROUNDS = scale_example_count(20)
NUMBER_OF_PROCESSES = 4
ADMIN_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
SELECT_PATH = "/scheduler/v1/select_destinations"
RACK_SPREAD_FLAVOR = make_flavor(
    extra_specs={"scheduler:spread_by": "rack", "scheduler:max_skew": "1"}
)
SPREAD_FILTER_OPTIONS = {"filter_scheduler__enabled_filters": ["TopologySpreadFilter"]}
#: Maximum number of instances by host, limited by memory.
MAX_INSTANCES_BY_HOST = {f"cn{number:02}": 1 + number % 4 for number in range(16)}
FLAVOR_4_GB = make_flavor(memory_mb=4096)
#: Reverses the order of the hosts: hosts with little memory come first.
HOST_STACKING_OPTIONS = {"filter_scheduler__ram_weight_multiplier": -1.0}
HARDWARE_FILTER_OPTIONS = {
    **HOST_STACKING_OPTIONS,
    "filter_scheduler__enabled_filters": ["NUMATopologyFilter", "PciPassthroughFilter"],
}
PINNED_FLAVOR = make_flavor(vcpus=3, extra_specs={"hw:cpu_policy": "dedicated"})
NIC = {"vendor_id": "8086", "product_id": "1520"}
NIC_REQUESTS = {"requests": [{"count": 1, "spec": [NIC]}]}


def read_database_url(app) -> str:
    return app.app.services.database.url.render_as_string(hide_password=False)


def make_scheduler_client(url, **options) -> TestApp:
    return TestApp(create_app(make_settings(url, **options)))


def select_host(client: TestApp, request_spec: dict[str, object]) -> tuple[int, str]:
    """Return the status of a selection, and the host selected or the error's code."""
    body = {"request_spec": request_spec}
    response = client.post_json(SELECT_PATH, body, headers=ADMIN_HEADERS, expect_errors=True)
    if response.status_code != 200:
        return response.status_code, response.json["errors"][0]["code"]
    return 200, response.json["selections"][0][0]["service_host"]


def claim_group_members_and_instances(barrier, process_number, url, groups):
    """Claim members of groups, and instances that all processes claim."""
    client, rows = make_scheduler_client(url, **SPREAD_FILTER_OPTIONS), []
    for number, group in enumerate(groups):
        member = make_spec(
            make_uuid(1000 * (number + 1) + process_number),
            instance_group=group,
            flavor=RACK_SPREAD_FLAVOR,
        )
        for kind, request in (("member", member), ("same", make_spec(make_uuid(number + 1)))):
            barrier.wait(120)
            rows.append((kind, number, *select_host(client, request)))
    return rows


def test_group_members_are_spread_over_racks_and_equal_requests_claim_once(app):
    racks = {"r1": ["cn1", "cn2", "cn3"], "r2": ["cn4"], "r3": ["cn5", "cn6"]}
    large = {"vcpus": 4096, "memory_mb": 4194304, "local_gb": 1000000}
    rack_of = {host: rack for rack, names in racks.items() for host in names}
    app.post_json("/scheduler/v1/compute_nodes", [make_report(name, **large) for name in rack_of])
    for number, (rack, names) in enumerate(racks.items(), 1):
        put_aggregate(app, number, {"rack": rack}, *names)
    groups = [create_group(app, f"g{n}", "soft-affinity") for n in range(NUMBER_OF_ROUNDS)]
    rows = run_in_processes(
        NUMBER_OF_PROCESSES, claim_group_members_and_instances, read_database_url(app), groups
    )
    assert {status for _, _, status, _ in rows} == {200}
    for number in range(NUMBER_OF_ROUNDS):
        hosts = [host for kind, at, _, host in rows if (kind, at) == ("member", number)]
        assert sorted(Counter(map(rack_of.get, hosts)).values()) == [1, 1, 2]
        assert len({host for kind, at, _, host in rows if (kind, at) == ("same", number)}) == 1
    assert (
        sum(used["VCPU"] for used in read_usages(app))
        == (NUMBER_OF_PROCESSES + 1) * NUMBER_OF_ROUNDS
    )
    assert_invariants(app.app.services.database)


def fill_hosts_by_selections(client, uuids):
    """Select hosts for single instances until no host is found."""
    rows = [(200, "")]
    while rows[-1][0] == 200:
        rows.append(select_host(client, make_spec(next(uuids), flavor=FLAVOR_4_GB)))
    return rows[1:]


def fill_hosts_by_joint_requests(client, uuids):
    """Select hosts for two requests in a call, until a call finds no hosts."""
    rows = []
    while True:
        requests = [{"request_spec": make_spec(next(uuids), flavor=FLAVOR_4_GB)} for _ in range(2)]
        response = client.post_json(
            SELECT_PATH, {"requests": requests}, headers=ADMIN_HEADERS, expect_errors=True
        )
        if response.status_code != 200:
            return [*rows, (response.status_code, response.json["errors"][0]["code"])]
        results = response.json["results"]
        rows += [(200, get_selected_hosts(result)[0]) for result in results]


def claim_memory_through_placement(client, host, uuid):
    """Claim memory of a host through the Placement API, and return the status."""
    body = build_body("1.39", {uuid_of(host): {"MEMORY_MB": 4096}})
    path = f"/placement/allocations/{uuid}"
    return client.put_json(path, body, headers=ADMIN_HEADERS, expect_errors=True).status_code


def fill_cloud_in_process(barrier, process_number, url):
    """Fill the cloud by selections, or by claims of another service."""
    client = make_scheduler_client(url, **HOST_STACKING_OPTIONS if process_number == 1 else {})
    uuids = (make_uuid(1000 * (process_number + 1) + number) for number in count())
    barrier.wait(120)
    rows = fill_hosts_by_joint_requests(client, uuids) if process_number == 2 else []
    if process_number < 3:
        return rows + fill_hosts_by_selections(client, uuids)
    for host in sorted(MAX_INSTANCES_BY_HOST, reverse=True):
        while (status := claim_memory_through_placement(client, host, next(uuids))) == 204:
            rows.append((200, host))
        rows.append((status, "full"))
    return rows


def test_schedulers_and_claims_of_others_fill_a_cloud_completely(app):
    reports = [
        make_report(name, memory_mb=4096 * room) for name, room in MAX_INSTANCES_BY_HOST.items()
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    rows = run_in_processes(NUMBER_OF_PROCESSES, fill_cloud_in_process, read_database_url(app))
    errors = Counter((status, code) for status, code in rows if status != 200)
    assert errors == {
        (409, "scheduler.no_valid_host"): 4,
        (409, "full"): len(MAX_INSTANCES_BY_HOST),
    }
    assert Counter(host for status, host in rows if status == 200) == MAX_INSTANCES_BY_HOST
    assert sum(used["MEMORY_MB"] for used in read_usages(app)) == 4096 * sum(
        MAX_INSTANCES_BY_HOST.values()
    )
    assert_invariants(app.app.services.database)


def fill_pinned_cpus_in_process(barrier, process_number, url):
    """Select hosts for pairs of pinned instances until no host is found."""
    client, rows = make_scheduler_client(url, **HARDWARE_FILTER_OPTIONS), [(200, "")]
    uuids = (make_uuid(1000 * (process_number + 1) + number) for number in count())
    barrier.wait(120)
    while rows[-1][0] == 200:
        pair = make_spec(next(uuids), next(uuids), flavor=PINNED_FLAVOR, pci_requests=NIC_REQUESTS)
        rows.append(select_host(client, pair))
    return rows[1:]


def test_schedulers_fill_pinned_cpus_completely(app):
    cells = [
        {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory": 32768},
        {"id": 1, "cpuset": [], "pcpuset": [4, 5, 6, 7], "memory": 32768},
    ]
    hardware = {"numa_topology": {"cells": cells}, "pci_device_pools": [{**NIC, "count": 2}]}
    # Without VCPU, pinned CPUs can be allocated as PCPU only.
    reports = [make_report(f"cn{number}", vcpus=0, **hardware) for number in range(8)]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for report in reports:
        path = f"/placement/resource_providers/{report['uuid']}/inventories"
        inventory = {"resource_class": "PCPU", "total": 8, "resource_provider_generation": 1}
        app.post_json(path, inventory, headers=ADMIN_HEADERS)
    database = app.app.services.database
    # Decisions are compared with older reports, and times have whole seconds.
    earlier = datetime.fromisoformat("2020-01-01T12:00:00")
    execute_without_foreign_keys(database, update(compute_nodes).values(updated_at=earlier))
    rows = run_in_processes(
        NUMBER_OF_PROCESSES, fill_pinned_cpus_in_process, read_database_url(app)
    )
    assert Counter(status for status, _ in rows) == {200: 8, 409: NUMBER_OF_PROCESSES}
    assert_invariants(database)
