# SPDX-License-Identifier: Apache-2.0
"""Policies of aggregates in fleet files, and the ratios of their hosts."""

import pytest

from placement_sched.errors import Invalid
from tests.operations.fleet.conftest import LoadableCloud
from tests.support.policies import settings_with_policies
from tests.support.reports import node_uuid

FLEET_WITH_POLICIES = f"""
version: 1
hosts:
  - host: h[1-2]
    uuid: [{node_uuid(1)}, {node_uuid(2)}]
    vcpus: 8
    memory_mb: 16384
    cpu_allocation_ratio: 3.0
aggregates:
  - name: dense
    hosts: [h1]
    metadata: {{sched_policy: high_cpu_density}}
"""


@pytest.fixture
def cloud_with_policies(database, database_url, tmp_path):
    """An empty cloud with the policies of the documentation."""
    return LoadableCloud(database, settings_with_policies(database_url, tmp_path))


@pytest.fixture
def sqlite_cloud_with_policies(sqlite_database, sqlite_url, tmp_path):
    return LoadableCloud(sqlite_database, settings_with_policies(sqlite_url, tmp_path))


def read_cpu_ratios_by_host(cloud):
    providers = cloud.state.providers
    return {
        f"h{number}": providers[node_uuid(number)].inventories["VCPU"].allocation_ratio
        for number in (1, 2)
    }


def test_loaded_hosts_have_the_ratios_of_their_policy(cloud_with_policies):
    cloud_with_policies.load(FLEET_WITH_POLICIES)
    assert read_cpu_ratios_by_host(cloud_with_policies) == {"h1": 8.0, "h2": 3.0}
    assert cloud_with_policies.load(FLEET_WITH_POLICIES) == []


def test_fleet_load_updates_ratios_after_changes_of_policies(cloud_with_policies):
    cloud_with_policies.load(FLEET_WITH_POLICIES)
    moved = "version: 1\naggregates: [{name: dense, hosts: [h2]}]"
    cloud_with_policies.load(moved)
    assert read_cpu_ratios_by_host(cloud_with_policies) == {"h1": 3.0, "h2": 8.0}
    other = "version: 1\naggregates: [{name: dense, metadata: {sched_policy: low_cpu_density}}]"
    cloud_with_policies.load(other)
    assert read_cpu_ratios_by_host(cloud_with_policies) == {"h1": 3.0, "h2": 1.0}
    cloud_with_policies.load("version: 1\naggregates: [{name: dense, metadata: {}}]")
    assert read_cpu_ratios_by_host(cloud_with_policies) == {"h1": 3.0, "h2": 3.0}


def test_fleet_dump_omits_ratios_of_the_policy(sqlite_cloud_with_policies):
    sqlite_cloud_with_policies.load(FLEET_WITH_POLICIES)
    dumped = sqlite_cloud_with_policies.dump()
    assert "inventories" not in dumped
    assert "8.0" not in dumped
    assert sqlite_cloud_with_policies.load(dumped) == []


def test_fleet_load_moves_a_host_to_another_policy(sqlite_cloud_with_policies):
    sqlite_cloud_with_policies.load(FLEET_WITH_POLICIES)
    sqlite_cloud_with_policies.load("""
version: 1
aggregates:
  - {name: dense, hosts: [h2]}
  - {name: sparse, hosts: [h1], metadata: {sched_policy: low_cpu_density}}
""")
    assert read_cpu_ratios_by_host(sqlite_cloud_with_policies) == {"h1": 1.0, "h2": 8.0}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "{name: sparse, hosts: [h1], metadata: {sched_policy: low_cpu_density}}",
            "host h1 has policy 'high_cpu_density' from",
        ),
        ("{name: x, metadata: {sched_policy: nope}}", "there is no policy 'nope'"),
    ],
)
def test_conflicting_policies_in_a_fleet_file_are_rejected(
    sqlite_cloud_with_policies, entry, message
):
    sqlite_cloud_with_policies.load(FLEET_WITH_POLICIES)
    state = sqlite_cloud_with_policies.state
    with pytest.raises(Invalid, match=message) as refused:
        sqlite_cloud_with_policies.load(f"version: 1\naggregates:\n  - {entry}\n")
    assert "f.yaml:3" in refused.value.detail
    assert sqlite_cloud_with_policies.state == state
