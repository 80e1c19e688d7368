# SPDX-License-Identifier: Apache-2.0
"""Capacity of hosts that share disks."""

import pytest

from tests.conftest import make_settings
from tests.scheduler.fleets import load_fleet
from tests.support.scheduling import make_flavor

pytestmark = pytest.mark.slow

HOST_SIZE = 'vcpus: 16, memory_mb: 65536, local_gb: 0, last_seen_up: "2099-01-01T00:00:00Z"'
AGGREGATE_1, AGGREGATE_2 = (
    "00000000-0000-4000-8000-000000000001",
    "00000000-0000-4000-8000-000000000002",
)
ZONE_AGGREGATES_YAML = """
aggregates:
- {name: az1, availability_zone: az1, hosts: a}
- {name: az2, availability_zone: az2, hosts: b}
"""
SMALL_REQUEST_SPEC = {"flavor": make_flavor(vcpus=1, memory_mb=512, root_gb=10), "project_id": "p"}


def build_disk_pool(number, total, aggregate):
    return f"""
- name: pool{number}
  inventories: {{DISK_GB: {{total: {total}}}}}
  traits: [MISC_SHARES_VIA_AGGREGATE]
  aggregates: [{aggregate}]"""


def compute_capacity_of_fleet(app, fleet, **more):
    load_fleet(app, fleet)
    return app.post_json(
        "/scheduler/v1/capacity", {"request_spec": SMALL_REQUEST_SPEC, **more}
    ).json


def test_amounts_left_unusable_by_a_full_pool_are_reported_as_stranded(sqlite_app):
    fleet = f"""
hosts:
- {{host: a, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}]}}
- {{host: b, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}]}}
providers:{build_disk_pool(1, 100, AGGREGATE_1)}
"""
    result = compute_capacity_of_fleet(sqlite_app, fleet)
    assert result["capacity"] == 10
    assert result["stranded"] == {"MEMORY_MB": 2 * 65536 - 10 * 512, "VCPU": 2 * 16 * 4 - 10}


def test_capacity_of_each_zone_may_use_the_whole_pools_shared_with_other_zones(sqlite_app):
    fleet = f"""
hosts:
- {{host: a, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}, {AGGREGATE_2}]}}
- {{host: b, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}]}}
providers:{build_disk_pool(1, 100, AGGREGATE_1)}{build_disk_pool(2, 60, AGGREGATE_2)}
{ZONE_AGGREGATES_YAML}"""
    parts = compute_capacity_of_fleet(sqlite_app, fleet, per="zone")["per"]
    assert {part["name"]: part["capacity"] for part in parts} == {"az1": 16, "az2": 10}


def test_capacity_of_hosts_with_two_pools_is_exact_despite_the_candidate_limit(
    sqlite_url, make_app
):
    settings = make_settings(
        sqlite_url,
        scheduler__max_placement_results=3,
        filter_scheduler__enabled_filters=["NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=2,
    )
    fleet = f"""
hosts:
- {{host: a, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}]}}
- {{host: b, {HOST_SIZE}, provider_aggregates: [{AGGREGATE_1}]}}
providers:{build_disk_pool(1, 10, AGGREGATE_1)}{build_disk_pool(2, 1000, AGGREGATE_1)}
"""
    result = compute_capacity_of_fleet(make_app(settings), fleet)
    assert (result["capacity"], result["exact"]) == (4, True)
