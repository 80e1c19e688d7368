# SPDX-License-Identifier: Apache-2.0
"""The allocation ratios of policies, as filters and weighers see them: as the inventories have."""

import pytest

from placement_sched.scheduler.policies.registry import ratios_of, ratios_of_policies
from tests.api.compute.conftest import AggregateApi
from tests.support.clouds import uuid_of
from tests.support.policies import policed, policies_of
from tests.support.scheduling import flavor, report, spec

HIGH, LOW = "high_cpu_density", "low_cpu_density"
WITH_CORE_FILTER = """
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
    return policies_of("sqlite://", tmp_path)


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        (HIGH, {"cpu_allocation_ratio": 8.0}),
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
def test_ratios_are_those_that_the_section_sets(policies, name, ratios):
    assert ratios_of(policies.get(name)) == ratios


@pytest.mark.parametrize(
    ("names", "cpu"),
    [
        ((), None),
        ((LOW,), 1.0),
        pytest.param((HIGH, LOW), 8.0, id="the first of two"),
        pytest.param(("nope", LOW), 1.0, id="the first that there is"),
        pytest.param(("nothing", LOW), None, id="one that sets none"),
        (("nope",), None),
    ],
)
def test_ratios_of_a_host_are_those_of_the_first_policy_that_can_be_used(policies, names, cpu):
    assert ratios_of_policies(names, policies).get("cpu_allocation_ratio") == cpu


@pytest.fixture
def api(database_url, tmp_path, make_app):
    """A cloud of three hosts: one under each policy of cpu density, one under none."""
    api = AggregateApi(make_app(policed(database_url, tmp_path, WITH_CORE_FILTER)))
    reports = [report(name, vcpus=8, vcpus_used=6) for name in ("high", "low", "plain")]
    api.app.post_json("/scheduler/v1/compute_nodes", reports)
    for host, policy in (("high", HIGH), ("low", LOW)):
        number = api.make(f"{host} hosts")
        api.add_host(number, host)
        api.set_metadata(number, sched_policy=policy)
    return api


def explained(api, **changes):
    return api.app.post_json("/scheduler/v1/explain", {"request_spec": spec(**changes)}).json


def inventories_of(api, host):
    path = f"/placement/resource_providers/{uuid_of(host)}/inventories"
    return api.app.get(path).json["inventories"]


def refusals(answer, name):
    (found,) = [one for one in answer["funnel"]["filters"] if one["name"] == name]
    return {one["host"]: one["reason"] for one in found["rejected"]}


def test_core_filter_agrees_with_the_inventory(api):
    answer = explained(api, flavor=flavor(vcpus=4))
    assert refusals(answer, "CoreFilter") == {"low": "4 VCPU requested, 2 free of 8 x 1"}
    assert {one["host"] for one in answer["hosts"]} == {"high", "plain"}
    limits = {one[0]["service_host"]: one[0]["limits"] for one in answer["selections"]}
    ratio = inventories_of(api, "high")["VCPU"]["allocation_ratio"]
    assert ratio == 8.0
    assert limits == {"high": {"vcpu": 64.0, "memory_mb": 2.0 * 65536, "disk_gb": 3.0 * 1000}}


def test_weigher_sees_the_ratio_of_the_policy(api):
    raw = {one["host"]: one["weights"]["CPUWeigher"]["raw"] for one in explained(api)["hosts"]}
    assert raw == {"high": 8 * 8.0 - 6, "low": 8 * 1.0 - 6, "plain": 8 * 4.0 - 6}


@pytest.mark.all_databases
def test_ratio_is_the_hosts_whichever_policy_the_request_is_under(api):
    body = {"request_spec": spec(flavor=flavor(vcpus=4)), "policy": LOW}
    answer = api.app.post_json("/scheduler/v1/explain", body).json
    assert refusals(answer, "CoreFilter") == {"low": "4 VCPU requested, 2 free of 8 x 1"}


@pytest.mark.all_databases
def test_host_that_is_untagged_has_its_own_ratio_at_once(api):
    number = next(
        one["id"]
        for one in api.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        if one["name"] == "low hosts"
    )
    api.set_metadata(number, sched_policy=None)
    answer = explained(api, flavor=flavor(vcpus=4))
    assert refusals(answer, "CoreFilter") == {}
    assert inventories_of(api, "low")["VCPU"]["allocation_ratio"] == 4.0


def test_node_is_shown_as_it_reported_itself(api):
    shown = api.app.get(f"/scheduler/v1/compute_nodes/{uuid_of('high')}").json
    assert shown["cpu_allocation_ratio"] == 4.0
    api.app.put_json(f"/scheduler/v1/compute_nodes/{uuid_of('high')}", shown)
    assert inventories_of(api, "high")["VCPU"]["allocation_ratio"] == 8.0


def test_foreign_ratio_stays_until_the_next_report(api):
    path = f"/placement/resource_providers/{uuid_of('high')}/inventories/VCPU"
    provider = api.app.get(f"/placement/resource_providers/{uuid_of('high')}").json
    body = {
        "resource_provider_generation": provider["generation"],
        "total": 8,
        "max_unit": 8,
        "allocation_ratio": 5.0,
    }
    api.app.put_json(path, body)
    assert inventories_of(api, "high")["VCPU"]["allocation_ratio"] == 5.0
    api.app.post_json("/scheduler/v1/compute_nodes", [report("high", vcpus=8)])
    assert inventories_of(api, "high")["VCPU"]["allocation_ratio"] == 8.0
