# SPDX-License-Identifier: Apache-2.0
"""What would have to change for a host to pass: the smallest change, and it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.explain import largest_below, smallest_above
from placement_sched.model.provider import Inventory, matches_units
from placement_sched.operations import aggregates
from placement_sched.store.placement.capacity import UsedInventory
from tests.scheduler.test_scheduler import explain, select
from tests.support.clouds import NOW, uuid_of
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

OLD = "2020-01-01T00:00:00Z"
LICENSED = "CUSTOM_LICENSED_WINDOWS"


@pytest.fixture
def cloud(sqlite_app):
    """Four hosts: cn2 is silent, cn3 in the aggregate win-lic, cn4 has two instances."""
    given = {"cn2": {"last_seen_up": OLD}, "cn4": {"stats": {"num_instances": 2}}}
    names = ("cn1", "cn2", "cn3", "cn4")
    reports = [report(name, **given.get(name, {})) for name in names]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    sqlite_app.put(f"/placement/traits/{LICENSED}", headers=LATEST_HEADERS)

    def make(connection):
        reserved = aggregates.create(connection, uuid_of("win-lic"), "win-lic", None, NOW)
        aggregates.set_metadata(connection, reserved.id, {f"trait:{LICENSED}": "required"}, NOW)
        aggregates.add_hosts(connection, reserved.id, ["cn3"], NOW)

    sqlite_app.app.services.database.write(make)
    return sqlite_app


def verdict(app, host, request=None, **more):
    (one,) = explain(app, request or spec(), hosts=[host], **more)["verdicts"]
    return one


def changes(one, at=0):
    return one["reasons"][at]["changes"]


def names(one):
    return [reason["name"] for reason in one["reasons"]]


def test_an_amount_is_named_that_may_be_requested_or_is_to_be_freed(cloud):
    uuid = spec()["instance_uuids"][0]
    select(cloud, spec(uuid, force_hosts=["cn1"], flavor=flavor(memory_mb=60000)))
    asked = spec(flavor=flavor(memory_mb=8192))
    one = verdict(cloud, "cn1", asked)
    free, ask = changes(one)
    assert free == {
        "action": "free",
        "words": "free 2656 MB of MEMORY_MB",
        "resource_class": "MEMORY_MB",
        "amount": 2656,
    }
    assert (ask["action"], ask["amount"], ask["instead_of"]) == ("ask", 5536, 8192)
    assert ask["words"] == "ask for at most 5536 MB of MEMORY_MB"
    assert one["would_pass"] is True
    # The amount that may be requested passes, one more does not.
    smaller = [verdict(cloud, "cn1", spec(flavor=flavor(memory_mb=n))) for n in (5536, 5537)]
    assert [each["verdict"] for each in smaller] == ["passed", "rejected"]
    cloud.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)
    assert verdict(cloud, "cn1", asked)["verdict"] == "passed"


def test_a_silent_host_is_to_report_and_then_passes(cloud):
    one = verdict(cloud, "cn2")
    (change,) = changes(one)
    assert (change["action"], change["words"]) == ("report_in", "make it report again")
    assert one["would_pass"] is True
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn2")])
    assert verdict(cloud, "cn2")["verdict"] == "passed"


def test_a_disabled_and_silent_host_is_to_be_enabled_and_to_report(cloud):
    headers = {"OpenStack-API-Version": "compute 2.53"}
    path = "/compute/v2.1/os-services"
    (service,) = cloud.get(f"{path}?host=cn2", headers=headers).json["services"]
    cloud.put_json(f"{path}/{service['id']}", {"status": "disabled"}, headers=headers)
    one = verdict(cloud, "cn2")
    assert changes(one)[0]["words"] == "enable its compute service"
    assert changes(one, 1)[0]["steps"] == ["enable_service", "report_in"]
    assert one["would_pass"] is True
    cloud.put_json(f"{path}/{service['id']}", {"status": "enabled"}, headers=headers)
    assert names(verdict(cloud, "cn2")) == ["ComputeFilter"]


def test_a_host_in_a_reserved_aggregate_is_to_leave_it_or_the_request_to_ask_its_trait(cloud):
    overrides = {"scheduler.enable_isolated_aggregate_filtering": True}
    one = verdict(cloud, "cn3", overrides=overrides)
    leave, ask = changes(one)
    assert leave["words"] == "remove it from aggregate win-lic"
    assert leave["aggregates"] == [{"uuid": uuid_of("win-lic"), "name": "win-lic"}]
    assert (ask["action"], ask["traits"]) == ("ask_traits", [LICENSED])
    assert one["would_pass"] is True

    cloud.post_json("/compute/v2.1/os-aggregates/1/action", {"remove_host": {"host": "cn3"}})
    assert verdict(cloud, "cn3", overrides=overrides)["verdict"] == "passed"


def test_a_trait_is_to_be_given_or_not_requested(cloud):
    asked = spec(flavor=flavor(extra_specs={f"trait:{LICENSED}": "required"}))
    one = verdict(cloud, "cn1", asked)
    assert [each["action"] for each in changes(one)] == ["add_trait", "drop_constraint"]
    assert one["would_pass"] is True
    provider = f"/placement/resource_providers/{uuid_of('cn1')}"
    generation = cloud.get(provider, headers=LATEST_HEADERS).json["generation"]
    body = {"resource_provider_generation": generation, "traits": [LICENSED]}
    cloud.put_json(f"{provider}/traits", body, headers=LATEST_HEADERS)
    assert verdict(cloud, "cn1", asked)["verdict"] == "passed"


def test_a_host_of_another_zone_is_not_to_join_the_zone(cloud):
    def make(connection):
        for zone, host in (("az1", "cn1"), ("az2", "cn4")):
            made = aggregates.create(connection, uuid_of(zone), zone, zone, NOW)
            aggregates.add_hosts(connection, made.id, [host], NOW)

    cloud.app.services.database.write(make)
    asked = spec(availability_zone="az1")
    other, without_zone = (changes(verdict(cloud, host, asked)) for host in ("cn4", "cn3"))
    assert [change["action"] for change in other] == ["drop_constraint"]
    assert [change["action"] for change in without_zone] == ["join_aggregate", "drop_constraint"]
    select(cloud, spec(uuid_of("i1"), force_hosts=["cn3"]))
    with_instances = changes(verdict(cloud, "cn3", asked))
    assert [change["action"] for change in with_instances] == ["drop_constraint"]
    refused = cloud.post_json(
        "/compute/v2.1/os-aggregates/2/action", {"add_host": {"host": "cn3"}}, status=409
    )
    assert "hosts with instances would change to availability zone az1" in refused.text


def test_pinned_cpus_on_a_disabled_host_need_only_its_service(cloud):
    cloud.put_json("/compute/v2.1/os-services/disable", {"host": "cn1", "binary": "nova-compute"})
    pinned = spec(flavor=flavor(extra_specs={"hw:cpu_policy": "dedicated"}))
    one = verdict(cloud, "cn1", pinned)
    assert {change["action"] for reason in one["reasons"] for change in reason["changes"]} == {
        "enable_service"
    }
    assert one["would_pass"] is True


def test_every_reason_is_to_go_before_a_host_passes(cloud):
    asked = spec(flavor=flavor(memory_mb=70000, vcpus=17), ignore_hosts=["cn2"])
    one = verdict(cloud, "cn2", asked)
    assert len(one["reasons"]) == 4
    assert all(changes(one, at) for at in range(4))
    assert one["would_pass"] is True


def test_too_many_instances_are_named_by_how_many(cloud):
    overrides = {
        "filter_scheduler.enabled_filters": ["NumInstancesFilter"],
        "filter_scheduler.max_instances_per_host": 1,
    }
    one = verdict(cloud, "cn4", overrides=overrides)
    fewer, more = changes(one)
    assert (fewer["action"], fewer["instances"]) == ("remove_instances", 2)
    assert (more["option"], more["value"]) == ("max_instances_per_host", 3)
    assert one["would_pass"] is True
    overrides["filter_scheduler.max_instances_per_host"] = 3
    assert verdict(cloud, "cn4", overrides=overrides)["verdict"] == "passed"


def test_a_request_that_a_request_filter_refuses_is_not_tried(cloud):
    assert verdict(cloud, "cn1", spec(availability_zone="mars"))["would_pass"] is None


def test_the_stages_are_listed_once_in_order_and_every_reason_is_of_one(cloud):
    asked = spec(flavor=flavor(memory_mb=70000), ignore_hosts=["cn1"])
    answer = explain(cloud, asked, hosts=["cn1", "cn2"])
    stages = [(one["stage"], one["name"]) for one in answer["stages"]]
    assert len(set(stages)) == len(stages)
    families = [stage for stage, _ in stages]
    order = ("request_filters", "allocation_candidates", "filters")
    assert families == sorted(families, key=order.index)
    reasons = {(r["stage"], r["name"]) for one in answer["verdicts"] for r in one["reasons"]}
    assert reasons <= set(stages)


INVENTORIES = st.builds(
    Inventory,
    resource_class=st.just("VCPU"),
    total=st.integers(1, 40),
    min_unit=st.integers(1, 8),
    max_unit=st.integers(1, 40),
    step_size=st.integers(1, 6),
)


@given(INVENTORIES, st.integers(0, 40), st.integers(1, 50))
def test_the_amount_named_is_the_nearest_that_fits(inventory, used, asked):
    """Held against trying every amount."""
    free = inventory.capacity - used
    fitting = [n for n in range(1, 60) if n <= free and matches_units(inventory, n)]
    room = UsedInventory(inventory, used)
    assert largest_below(room, asked) == max((n for n in fitting if n < asked), default=0)
    assert smallest_above(room, asked) == min((n for n in fitting if n > asked), default=0)
