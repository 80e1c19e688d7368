# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios of hosts under policies."""

import pytest

from placement_sched.scheduler.policies.registry import (
    find_ratios,
    get_policies,
    read_policy_ratios,
)
from tests.api.compute.conftest import AggregateApi
from tests.support.clouds import uuid_of
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_flavor, make_report, make_spec

HIGH_DENSITY_POLICY, LOW_DENSITY_POLICY = "high_cpu_density", "low_cpu_density"
CONFIG_WITH_CORE_FILTER = """
[filter_scheduler]
enabled_filters = ComputeFilter, CoreFilter, RamFilter, DiskFilter

[high_cpu_density]
cpu_allocation_ratio = 8.0
ram_allocation_ratio = 2.0
disk_allocation_ratio = 3.0

[low_cpu_density]
cpu_allocation_ratio = 1.0
"""


@pytest.fixture
def policies(tmp_path):
    return get_policies(settings_with_policies("sqlite://", tmp_path))


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        (HIGH_DENSITY_POLICY, {"cpu_allocation_ratio": 8.0}),
        (
            "everything",
            {
                "cpu_allocation_ratio": 2.0,
                "ram_allocation_ratio": 1.5,
                "disk_allocation_ratio": 3.0,
            },
        ),
        pytest.param("nothing", {}, id="0.0 counts as unset"),
        ("default", {}),
    ],
)
def test_policy_has_the_allocation_ratios_of_its_section(policies, name, ratios):
    assert read_policy_ratios(policies.get(name)) == ratios


@pytest.mark.parametrize(
    ("names", "cpu"),
    [
        ((), None),
        ((LOW_DENSITY_POLICY,), 1.0),
        pytest.param((HIGH_DENSITY_POLICY, LOW_DENSITY_POLICY), 8.0, id="first of two policies"),
        pytest.param(("nope", LOW_DENSITY_POLICY), 1.0, id="first existing policy"),
        pytest.param(("nothing", LOW_DENSITY_POLICY), None, id="policy without ratios"),
        (("nope",), None),
    ],
)
def test_host_has_the_allocation_ratios_of_its_first_valid_policy(policies, names, cpu):
    assert find_ratios(names, policies).get("cpu_allocation_ratio") == cpu


@pytest.fixture
def cloud_with_ratio_policies(database_url, tmp_path, make_app):
    """A cloud of three hosts: two under different policies, and a host without a policy."""
    cloud_with_ratio_policies = AggregateApi(
        make_app(settings_with_policies(database_url, tmp_path, CONFIG_WITH_CORE_FILTER))
    )
    reports = [make_report(name, vcpus=8, vcpus_used=6) for name in ("high", "low", "plain")]
    cloud_with_ratio_policies.app.post_json("/scheduler/v1/compute_nodes", reports)
    for host, policy in (("high", HIGH_DENSITY_POLICY), ("low", LOW_DENSITY_POLICY)):
        number = cloud_with_ratio_policies.create_and_get_id(f"{host} hosts")
        cloud_with_ratio_policies.add_host(number, host)
        cloud_with_ratio_policies.set_metadata(number, sched_policy=policy)
    return cloud_with_ratio_policies


def explain_scheduling(cloud_with_ratio_policies, **changes):
    return cloud_with_ratio_policies.app.post_json(
        "/scheduler/v1/explain", {"request_spec": make_spec(**changes)}
    ).json


def read_inventories(cloud_with_ratio_policies, host):
    path = f"/placement/resource_providers/{uuid_of(host)}/inventories"
    return cloud_with_ratio_policies.app.get(path).json["inventories"]


def list_rejections(explanation, name):
    (result,) = [stage for stage in explanation["funnel"]["filters"] if stage["name"] == name]
    return {rejection["host"]: rejection["reason"] for rejection in result["rejected"]}


@pytest.mark.all_databases
def test_filters_weighers_and_inventories_have_the_ratio_of_the_policy(cloud_with_ratio_policies):
    response = explain_scheduling(cloud_with_ratio_policies, flavor=make_flavor(vcpus=4))
    reasons = {"low": "4 VCPU requested, 2 free of 8 x 1"}
    assert list_rejections(response, "CoreFilter") == reasons
    assert {host["host"] for host in response["hosts"]} == {"high", "plain"}
    ((selection,),) = response["selections"]
    assert selection["service_host"] == "high"
    assert selection["limits"] == {"vcpu": 64.0, "memory_mb": 2.0 * 65536, "disk_gb": 3.0 * 1000}
    assert read_inventories(cloud_with_ratio_policies, "high")["VCPU"]["allocation_ratio"] == 8.0
    raw = {
        host["host"]: host["weights"]["CPUWeigher"]["raw"]
        for host in explain_scheduling(cloud_with_ratio_policies)["hosts"]
    }
    assert raw == {"high": 8 * 8.0 - 6, "low": 8 * 1.0 - 6, "plain": 8 * 4.0 - 6}
    # The policy of the request does not matter.
    body = {"request_spec": make_spec(flavor=make_flavor(vcpus=4)), "policy": LOW_DENSITY_POLICY}
    response = cloud_with_ratio_policies.app.post_json("/scheduler/v1/explain", body).json
    assert list_rejections(response, "CoreFilter") == reasons


def test_compute_node_keeps_the_reported_ratio_under_a_policy(cloud_with_ratio_policies):
    node = cloud_with_ratio_policies.app.get(f"/scheduler/v1/compute_nodes/{uuid_of('high')}").json
    assert node["cpu_allocation_ratio"] == 4.0
    cloud_with_ratio_policies.app.put_json(f"/scheduler/v1/compute_nodes/{uuid_of('high')}", node)
    assert read_inventories(cloud_with_ratio_policies, "high")["VCPU"]["allocation_ratio"] == 8.0
