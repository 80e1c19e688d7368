# SPDX-License-Identifier: Apache-2.0
"""The smallest changes after which a host passes."""

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.explain.changes import find_fitting_amounts
from placement_sched.model.provider import Inventory, matches_units
from placement_sched.operations import aggregates
from tests.scheduler.explanations import put_aggregate
from tests.support.clouds import NOW, uuid_of
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    select_hosts,
)
from tests.support.versions import LATEST_HEADERS

OLD_REPORT_TIME = "2020-01-01T00:00:00Z"
LICENSED_TRAIT = "CUSTOM_LICENSED_WINDOWS"


@pytest.fixture
def cloud(sqlite_app):
    """Four hosts: cn2 is silent, and cn3 is in the aggregate agg1."""
    reports = [
        make_report("cn1"),
        make_report("cn2", last_seen_up=OLD_REPORT_TIME),
        make_report("cn3"),
        make_report("cn4"),
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    sqlite_app.put(f"/placement/traits/{LICENSED_TRAIT}", headers=LATEST_HEADERS)
    put_aggregate(sqlite_app, 1, {f"trait:{LICENSED_TRAIT}": "required"}, "cn3")
    return sqlite_app


def find_verdict(app, host, request=None, **more):
    (entry,) = explain_request(app, request or make_spec(), hosts=[host], **more)["verdicts"]
    return entry


def read_suggested_changes(verdict_, index=0):
    return verdict_["reasons"][index]["changes"]


def list_reason_names(verdict_):
    return [reason["name"] for reason in verdict_["reasons"]]


def test_suggestions_free_capacity_or_request_a_smaller_amount(cloud):
    uuid = make_spec()["instance_uuids"][0]
    select_hosts(cloud, make_spec(uuid, force_hosts=["cn1"], flavor=make_flavor(memory_mb=60000)))
    request = make_spec(flavor=make_flavor(memory_mb=8192))
    item = find_verdict(cloud, "cn1", request)
    free, ask = read_suggested_changes(item)
    assert free == {
        "action": "free",
        "words": "free 2656 MB of MEMORY_MB",
        "resource_class": "MEMORY_MB",
        "amount": 2656,
    }
    assert (ask["action"], ask["amount"], ask["instead_of"]) == ("change_request", 5536, 8192)
    assert ask["words"] == "request at most 5536 MB of MEMORY_MB"
    assert item["would_pass"] is True
    # The suggested amount passes, a larger amount does not.
    smaller = [
        find_verdict(cloud, "cn1", make_spec(flavor=make_flavor(memory_mb=n))) for n in (5536, 5537)
    ]
    assert [entry["verdict"] for entry in smaller] == ["passed", "rejected"]
    cloud.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)
    assert find_verdict(cloud, "cn1", request)["verdict"] == "passed"


def test_suggestions_for_a_disabled_silent_host_are_to_enable_it_and_report_again(cloud):
    headers = {"OpenStack-API-Version": "compute 2.53"}
    path = "/compute/v2.1/os-services"
    (service,) = cloud.get(f"{path}?host=cn2", headers=headers).json["services"]
    cloud.put_json(f"{path}/{service['id']}", {"status": "disabled"}, headers=headers)
    entry = find_verdict(cloud, "cn2")
    assert read_suggested_changes(entry)[0]["words"] == "enable its compute service"
    assert read_suggested_changes(entry, 1)[0]["steps"] == ["enable_service", "report_in"]
    assert entry["would_pass"] is True
    cloud.put_json(f"{path}/{service['id']}", {"status": "enabled"}, headers=headers)
    entry = find_verdict(cloud, "cn2")
    (change,) = read_suggested_changes(entry)
    assert (change["action"], change["words"]) == ("report_in", "make it report again")
    assert (list_reason_names(entry), entry["would_pass"]) == (["ComputeFilter"], True)
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn2")])
    assert find_verdict(cloud, "cn2")["verdict"] == "passed"


def test_suggestions_are_to_leave_a_reserved_aggregate_or_request_its_trait(cloud):
    overrides = {"scheduler.enable_isolated_aggregate_filtering": True}
    entry = find_verdict(cloud, "cn3", overrides=overrides)
    leave, ask = read_suggested_changes(entry)
    assert leave["words"] == "remove it from aggregate agg1"
    assert leave["aggregates"] == [{"uuid": str(UUID(int=1)), "name": "agg1"}]
    assert (ask["action"], ask["traits"]) == ("require_traits", [LICENSED_TRAIT])
    assert entry["would_pass"] is True

    cloud.post_json("/compute/v2.1/os-aggregates/1/action", {"remove_host": {"host": "cn3"}})
    assert find_verdict(cloud, "cn3", overrides=overrides)["verdict"] == "passed"


def test_joining_the_zone_is_not_suggested_for_a_host_of_another_zone(cloud):
    def write_aggregates(connection):
        for zone, host in (("az1", "cn1"), ("az2", "cn4")):
            result = aggregates.create(connection, uuid_of(zone), zone, zone, NOW)
            aggregates.add_hosts(connection, result.id, [host], NOW)

    cloud.app.services.database.write(write_aggregates)
    request = make_spec(availability_zone="az1")
    other, without_zone = (
        read_suggested_changes(find_verdict(cloud, host, request)) for host in ("cn4", "cn3")
    )
    assert [change["action"] for change in other] == ["drop_constraint"]
    assert without_zone[1]["words"] == "do not confine the request to aggregate az1"
    assert [change["action"] for change in without_zone] == ["join_aggregate", "drop_constraint"]
    select_hosts(cloud, make_spec(uuid_of("i1"), force_hosts=["cn3"]))
    with_instances = read_suggested_changes(find_verdict(cloud, "cn3", request))
    assert [change["action"] for change in with_instances] == ["drop_constraint"]
    response = cloud.post_json(
        "/compute/v2.1/os-aggregates/2/action", {"add_host": {"host": "cn3"}}, status=409
    )
    assert "hosts with instances would change to availability zone az1" in response.text


def test_every_rejection_reason_but_that_of_a_request_filter_suggests_changes(cloud):
    request = make_spec(flavor=make_flavor(memory_mb=70000, vcpus=17), ignore_hosts=["cn2"])
    entry = find_verdict(cloud, "cn2", request)
    assert len(entry["reasons"]) == 4
    assert all(read_suggested_changes(entry, index) for index in range(4))
    assert entry["would_pass"] is True
    assert find_verdict(cloud, "cn1", make_spec(availability_zone="mars"))["would_pass"] is None


def test_stages_of_rejection_reasons_are_unique_and_in_order(cloud):
    request = make_spec(flavor=make_flavor(memory_mb=70000), ignore_hosts=["cn1"])
    response = explain_request(cloud, request, hosts=["cn1", "cn2"])
    stages = [(entry["stage"], entry["name"]) for entry in response["stages"]]
    assert len(set(stages)) == len(stages)
    families = [stage for stage, _ in stages]
    order = ("request_filters", "allocation_candidates", "filters")
    assert families == sorted(families, key=order.index)
    reasons = {(r["stage"], r["name"]) for item in response["verdicts"] for r in item["reasons"]}
    assert reasons <= set(stages)


VCPU_INVENTORIES = st.builds(
    Inventory,
    resource_class=st.just("VCPU"),
    total=st.integers(1, 40),
    min_unit=st.integers(1, 8),
    max_unit=st.integers(1, 40),
    step_size=st.integers(1, 6),
)


@given(VCPU_INVENTORIES, st.integers(0, 40), st.integers(1, 50))
def test_suggested_amounts_are_the_nearest_that_the_inventory_allows(inventory, used, amount):
    free = inventory.capacity - used
    fitting_amounts = [n for n in range(1, 60) if n <= free and matches_units(inventory, n)]
    limits = (min(free, inventory.max_unit), inventory.min_unit, inventory.step_size)
    below, above = find_fitting_amounts(*(np.array([limit]) for limit in limits), amount)
    assert below == max((n for n in fitting_amounts if n < amount), default=0)
    assert above == min((n for n in fitting_amounts if n > amount), default=0)


def test_only_enabling_a_disabled_host_is_suggested_for_pinned_cpus(cloud):
    cloud.put_json("/compute/v2.1/os-services/disable", {"host": "cn1", "binary": "nova-compute"})
    pinned = make_spec(flavor=make_flavor(extra_specs={"hw:cpu_policy": "dedicated"}))
    entry = find_verdict(cloud, "cn1", pinned)
    actions = {change["action"] for reason in entry["reasons"] for change in reason["changes"]}
    assert actions == {"enable_service"}
    assert entry["would_pass"] is True
