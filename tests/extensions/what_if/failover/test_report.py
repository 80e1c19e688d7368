# SPDX-License-Identifier: Apache-2.0
"""Failover capacity of small clouds: covered hosts, instances without a place, domains."""

import pytest

from placement_sched.errors import Unavailable
from placement_sched.extensions.what_if.failover import report as report_module
from tests.extensions.what_if.failover.queries import compute_failover
from tests.extensions.what_if.plan_moves import fill_small_cloud
from tests.extensions.what_if.purged_decisions import REQUESTS_AND_TARGETS, place_without_decision
from tests.extensions.what_if.purged_decisions import mixed_cloud as mixed_cloud  # noqa: PLC0414 - a fixture
from tests.scheduler.fleets import load_fleet
from tests.scheduler.server_groups import create_group
from tests.support.api_clouds import (
    AGGREGATES_PATH,
    COMPUTE_HEADERS,
    FLAVORS_PATH,
    NODES_PATH,
    create_aggregate_with_metadata,
    disable_host,
    make_zone,
    place_instance_on_host,
    report_hosts_with_instances,
    store_flavor,
)
from tests.support.scheduling import make_flavor, make_report, make_uuid


def read_counts_by_state(result):
    return {state: result[state] for state in ("covered", "uncovered", "undetermined")}


def test_host_is_covered_if_all_its_instances_find_places(sqlite_app):
    report_hosts_with_instances(
        sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2"]
    )
    result = compute_failover(sqlite_app)
    assert read_counts_by_state(result) == {"covered": 3, "uncovered": 0, "undetermined": 0}
    assert (result["failures"], result["exact"], result["bound"]) == ([], True, None)
    assert (result["host_failures"], result["within"]) == (1, None)


@pytest.mark.all_databases
def test_instances_without_a_place_are_listed_with_the_lacking_resource(app):
    report_hosts_with_instances(app, ["cn1", "cn2"], ["cn1", "cn1", "cn2"])
    place_instance_on_host(app, 9, "cn2", flavor="large")
    result = compute_failover(app)
    (failure,) = [entry for entry in result["failures"] if entry["name"] == "cn2"]
    assert (failure["state"], failure["hosts"], failure["instances"]) == ("uncovered", ["cn2"], 2)
    (nowhere,) = failure["nowhere"]
    assert (nowhere["uuid"], nowhere["flavor"], nowhere["host"]) == (make_uuid(9), "large", "cn2")
    # cn1 has two small instances, and gets the small instance of cn2: 1024 of 3072 MB remain.
    assert nowhere["lacking"] == {"MEMORY_MB": 2048}
    assert "MEMORY_MB" in nowhere["reason"]
    assert (nowhere["kind"], nowhere["resource_class"]) == ("capacity", "MEMORY_MB")


def fill_first_host(app, memory_by_host):
    """Place instances of 3072, 2048 and 2048 MB on cn1, next to empty hosts."""
    hosts = [make_report(name, memory_mb=memory) for name, memory in memory_by_host.items()]
    app.post_json(NODES_PATH, [make_report("cn1"), *hosts])
    store_flavor(app, "large", ram=3072)
    store_flavor(app, "medium", ram=2048)
    for number, name in enumerate(["large", "medium", "medium"], 1):
        place_instance_on_host(app, number, "cn1", flavor=name)


def test_report_of_an_uncovered_host_is_inexact_if_another_order_may_place_all(sqlite_app):
    fill_first_host(sqlite_app, {"cn2": 4096, "cn3": 3072})
    # The large instance goes to cn2, and a medium instance to cn3. The other way round all fit.
    result = compute_failover(sqlite_app)
    assert [len(failure["nowhere"]) for failure in result["failures"]] == [1]
    assert not result["exact"]
    assert result["bound"] == (
        "1 host is uncovered if instances are placed largest first: another order may place all"
    )


def test_inexact_report_of_two_failures_counts_sets_of_hosts(sqlite_app):
    fill_first_host(sqlite_app, {"cn2": 4096, "cn3": 3072, "cn4": 512})
    result = compute_failover(sqlite_app, host_failures=2)
    assert result["bound"].startswith("2 sets of 2 hosts are uncovered if instances are placed")


def test_report_of_an_uncovered_host_is_exact_if_no_instance_finds_a_place(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], [])
    make_zone(sqlite_app, "az1", "cn1")
    for number in (1, 2):
        place_instance_on_host(sqlite_app, number, "cn1", flavor="small", availability_zone="az1")
    result = compute_failover(sqlite_app)
    assert (result["uncovered"], result["exact"], result["bound"]) == (1, True, None)
    (failure,) = result["failures"]
    # A filter rejects them, so they lack no amounts.
    assert [nowhere["lacking"] for nowhere in failure["nowhere"]] == [{}, {}]
    assert all(nowhere["reason"] for nowhere in failure["nowhere"])


def test_members_of_an_anti_affinity_group_need_another_free_host(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2", "cn3"], [])
    group = create_group(sqlite_app)
    for number, host in enumerate(["cn1", "cn2"], 1):
        place_instance_on_host(sqlite_app, number, host, flavor="small", instance_group=group)
    assert read_counts_by_state(compute_failover(sqlite_app))["covered"] == 3
    place_instance_on_host(sqlite_app, 3, "cn3", flavor="small", instance_group=group)
    assert read_counts_by_state(compute_failover(sqlite_app))["uncovered"] == 3


def test_members_of_an_affinity_group_lack_a_place_because_of_the_affinity_filter(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], [])
    group = create_group(sqlite_app, policy="affinity")
    for number in (1, 2):
        place_instance_on_host(sqlite_app, number, "cn1", flavor="small", instance_group=group)
    (failure,) = compute_failover(sqlite_app)["failures"]
    assert {entry["uuid"] for entry in failure["nowhere"]} == {make_uuid(1), make_uuid(2)}
    assert "ServerGroupAffinityFilter" in failure["nowhere"][0]["reason"]
    assert failure["nowhere"][0]["filter"] == "ServerGroupAffinityFilter"


def test_failure_within_a_zone_includes_all_hosts_of_the_zone(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2")])
    make_zone(sqlite_app, "az1", "cn1", "cn2")
    report_hosts_with_instances(
        sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2", "cn3"]
    )
    assert read_counts_by_state(compute_failover(sqlite_app))["covered"] == 3
    result = compute_failover(sqlite_app, within="zone")
    assert read_counts_by_state(result) == {"covered": 1, "uncovered": 1, "undetermined": 0}
    (failure,) = result["failures"]
    assert (failure["name"], failure["hosts"]) == ("az1", ["cn1", "cn2"])
    assert (failure["instances"], len(failure["nowhere"])) == (5, 2)


def test_failures_are_listed_by_their_number_of_instances_without_a_place(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2"), make_report("cn3")])
    make_zone(sqlite_app, "az1", "cn1")
    make_zone(sqlite_app, "az2", "cn2", "cn3")
    report_hosts_with_instances(
        sqlite_app, ["cn1", "cn2", "cn3"], [*["cn1"] * 3, *["cn2"] * 3, *["cn3"] * 3]
    )
    failures = compute_failover(sqlite_app, within="zone")["failures"]
    assert [(failure["name"], failure["stuck"]) for failure in failures] == [("az2", 5), ("az1", 1)]


def test_failure_whose_simulation_times_out_counts_but_does_not_list_instances(
    sqlite_app, monkeypatch
):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn1", "cn1", "cn2"])

    def raise_simulation_timeout(*_arguments):
        raise Unavailable("the simulation took too long")

    listed = compute_failover(sqlite_app)["failures"]
    monkeypatch.setattr(report_module, "_simulate_some", raise_simulation_timeout)
    unlisted = compute_failover(sqlite_app)["failures"]
    assert [(each["stuck"], len(each["nowhere"])) for each in listed] == [(1, 1), (1, 1)]
    assert [(each["stuck"], each["nowhere"]) for each in unlisted] == [(1, []), (1, [])]
    assert {each["state"] for each in unlisted} == {"uncovered"}


def test_failure_within_a_metadata_key_includes_hosts_with_equal_metadata(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn2"])
    for rack, host in (("r1", "cn1"), ("r1", "cn2")):
        number = create_aggregate_with_metadata(sqlite_app, f"{rack}-{host}", rack=rack)
        add = {"add_host": {"host": host}}
        sqlite_app.post_json(f"{AGGREGATES_PATH}/{number}/action", add, headers=COMPUTE_HEADERS)
    result = compute_failover(sqlite_app, within="rack")
    assert read_counts_by_state(result)["covered"] == 2  # r1, and cn3 alone
    assert read_counts_by_state(compute_failover(sqlite_app, within="aggregate"))["covered"] == 3


def test_failover_capacity_examines_failures_of_any_two_hosts(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("big")])
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn2", "cn2", "big"])
    result = compute_failover(sqlite_app, host_failures=2)
    assert read_counts_by_state(result) == {"covered": 1, "uncovered": 2, "undetermined": 0}
    nowhere = {failure["name"]: len(failure["nowhere"]) for failure in result["failures"]}
    assert nowhere == {"big, cn1": 1, "big, cn2": 1}
    assert result["exact"]


def test_failover_counts_of_an_empty_cloud_are_0_and_a_single_host_is_uncovered(sqlite_app):
    counts = read_counts_by_state(compute_failover(sqlite_app))
    assert counts == {"covered": 0, "uncovered": 0, "undetermined": 0}
    report_hosts_with_instances(sqlite_app, ["cn1"], ["cn1"])
    result = compute_failover(sqlite_app, host_failures=3)
    assert (result["uncovered"], result["host_failures"]) == (1, 1)


def test_unknown_metadata_key_or_invalid_number_of_failures_is_400_with_its_path(sqlite_app):
    create_aggregate_with_metadata(sqlite_app, "r1", rack="r1")
    (error,) = compute_failover(sqlite_app, status=400, within="rak")["errors"]
    assert "no aggregate has the metadata key 'rak'" in error["detail"]
    assert "rack" in error["detail"]
    assert "$.within" in error["detail"]
    for number in (0, 11):
        (error,) = compute_failover(sqlite_app, status=400, host_failures=number)["errors"]
        assert "$.host_failures" in error["detail"]


def test_failures_that_are_not_examined_in_time_are_undetermined(make_app, sqlite_settings):
    app = make_app(sqlite_settings.with_overrides({"scheduler.failover_budget": 1e-9}))
    report_hosts_with_instances(app, ["cn1", "cn2"], ["cn1"])
    result = compute_failover(app)
    assert read_counts_by_state(result) == {"covered": 1, "uncovered": 0, "undetermined": 1}
    assert not result["exact"]
    assert result["bound"].startswith("1 host is undetermined: the computation took longer than")


FLAVOR_1_GB, FLAVOR_4_GB, FLAVOR_9_GB = (
    make_flavor(name=f"m{size}", memory_mb=1024 * size, root_gb=1) for size in (1, 4, 9)
)
# The group keeps the m4 of cn2 away from cn1, so a further m4 there makes the failure no worse.
REQUESTS_BLOCKED_BY_ANTI_AFFINITY = (
    {"flavor": FLAVOR_1_GB, "force_hosts": ["cn2"]},
    {"flavor": FLAVOR_4_GB, "force_hosts": ["cn1"], "instance_group": "apart"},
    {"flavor": FLAVOR_4_GB, "instance_group": "apart"},
    {"flavor": FLAVOR_9_GB},
)


def read_remaining_instances_of_flavor(app, name="small"):
    result = compute_failover(app, remaining=True)
    return next(row for row in result["remaining"] if row["flavor"] == name)


def test_every_host_stays_covered_after_the_remaining_instances_are_placed(sqlite_app):
    report_hosts_with_instances(
        sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2"]
    )
    before = sqlite_app.get("/scheduler/v1/hosts").json
    row = read_remaining_instances_of_flavor(sqlite_app)
    assert sqlite_app.get("/scheduler/v1/hosts").json == before
    # 12 fit on three hosts, 8 on two, and 5 are there.
    assert (row["remaining"], row["exact"], row["at_most"]) == (3, True, 3)
    breaks = row["breaks"]
    assert breaks["placed"] == breaks["instances"] - 1


def test_number_of_remaining_instances_is_0_if_a_further_instance_takes_a_place_of_a_failed_host(
    sqlite_app,
):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1"] * 3 + ["cn2"] * 3)
    row = read_remaining_instances_of_flavor(sqlite_app)
    assert (row["remaining"], row["at_most"]) == (0, 0)
    # Now 1 of 3 instances fits elsewhere. After a further instance, none fits.
    assert row["breaks"]["placed"] == 0


def test_number_of_remaining_instances_is_positive_if_no_place_of_a_failed_host_is_lost(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], [])
    sqlite_app.post_json(NODES_PATH, [make_report("big", memory_mb=65536)])
    store_flavor(sqlite_app, "huge", ram=65536)
    place_instance_on_host(sqlite_app, 1, "big", flavor="huge")
    assert compute_failover(sqlite_app)["uncovered"] == 1
    assert read_remaining_instances_of_flavor(sqlite_app)["remaining"] == 4


def test_flavor_that_fits_on_no_host_makes_no_host_uncovered(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1"], [])
    store_flavor(sqlite_app, "huge", ram=65536)
    row = read_remaining_instances_of_flavor(sqlite_app, "huge")
    assert (row["remaining"], row["exact"], row["breaks"]) == (0, True, None)


def test_remaining_instances_need_as_many_further_places_as_a_host_has_instances(sqlite_app):
    hosts = [f"cn{number}" for number in range(6)]
    report_hosts_with_instances(sqlite_app, hosts, hosts)
    row = read_remaining_instances_of_flavor(sqlite_app)
    # 18 more fit, 15 of them on other hosts, and a single instance needs a place.
    assert (row["remaining"], row["at_most"], row["exact"]) == (14, 14, True)
    assert row["breaks"] == {"domain": "cn0", "instances": 1, "placed": 0}


def test_instance_counts_of_an_uncovered_host_include_all_flavors(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1"])
    store_flavor(sqlite_app, "tiny", ram=512)
    place_instance_on_host(sqlite_app, 9, "cn1", flavor="tiny")
    row = read_remaining_instances_of_flavor(sqlite_app)
    # With 3 further instances, cn2 has no place for a small instance.
    assert row["at_most"] == 2
    assert row["breaks"] == {"domain": "cn1", "instances": 3, "placed": 2}


def test_instances_of_an_older_flavor_of_the_same_name_give_no_bound_of_remaining_instances(
    sqlite_app,
):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1"] * 3)
    assert read_remaining_instances_of_flavor(sqlite_app)["breaks"]
    sqlite_app.delete(f"{FLAVORS_PATH}/small", headers=COMPUTE_HEADERS)
    store_flavor(sqlite_app, "small", ram=128)
    row = read_remaining_instances_of_flavor(sqlite_app)
    # Eight of the new flavor fit on cn1, and 32 on cn2.
    assert (row["at_most"], row["breaks"]) == (40, None)


def test_further_instances_may_use_capacity_that_a_server_group_excludes(sqlite_app):
    fill_small_cloud(sqlite_app, [9, 13, 9], REQUESTS_BLOCKED_BY_ANTI_AFFINITY)
    store_flavor(sqlite_app, "m4", ram=4096, disk=1)
    assert count_instances_without_a_place(compute_failover(sqlite_app)) == {
        "cn1": 1,
        "cn2": 1,
        "cn3": 1,
    }
    row = read_remaining_instances_of_flavor(sqlite_app, "m4")
    assert (row["remaining"], row["at_most"]) == (0, 1)


def report_hosts_by_memory(app, memory_mb, **vcpus):
    reports = [
        make_report(name, memory_mb=size, vcpus=vcpus.get(name, 16))
        for name, size in memory_mb.items()
    ]
    app.post_json(NODES_PATH, reports)


def test_remaining_number_holds_wherever_the_instances_are_placed(sqlite_app):
    report_hosts_by_memory(sqlite_app, {"cn1": 8192, "cn2": 8192, "cn3": 8192}, cn1=1)
    store_flavor(sqlite_app, "small", disk=1)
    store_flavor(sqlite_app, "big", ram=8192, disk=1)
    place_instance_on_host(sqlite_app, 1, "cn1", flavor="big")
    row = read_remaining_instances_of_flavor(sqlite_app)
    # An instance on cn2 and another on cn3 leave the big instance of cn1 no place.
    assert (row["remaining"], row["exact"]) == (1, False)


def test_upper_bound_is_no_simulation_in_a_single_order(sqlite_app):
    report_hosts_by_memory(sqlite_app, {"cn1": 18432, "cn2": 15360, "cn3": 8192}, cn1=4)
    for name, ram in (("five", 5120), ("four", 4096)):
        store_flavor(sqlite_app, name, ram=ram, disk=1)
    for number, name in enumerate(["five", "five", "four", "four"], 1):
        place_instance_on_host(sqlite_app, number, "cn1", flavor=name)
    row = read_remaining_instances_of_flavor(sqlite_app, "five")
    # With a further instance on cn2, two of five fit on cn2, and two of four on cn3.
    assert row["at_most"] == 2
    assert row["breaks"] == {"domain": "cn1", "instances": 4, "placed": 3}


def test_lacking_amounts_ignore_hosts_that_can_never_take_the_instance(sqlite_app):
    load_fleet(
        sqlite_app,
        """
flavors: [{name: big, vcpus: 1, memory_mb: 8192, root_gb: 1}]
hosts:
  - &standard
    {host: cn1, vcpus: 1, memory_mb: 8192, local_gb: 10, last_seen_up: "2099-01-01T00:00:00Z"}
  - {<<: *standard, host: cn2, memory_mb: 7168}
  - {<<: *standard, host: cn3, inventories: {MEMORY_MB: {total: 65536, max_unit: 4096}}}
  - {<<: *standard, host: cn4, memory_mb: 8000}
services: [{host: cn4, status: disabled}]
instances: [{name: i0, host: cn1, flavor: big, project: p, user: u}]
""",
    )
    (failure,) = compute_failover(sqlite_app)["failures"]
    # The max_unit of cn3 is too small, and cn4 is disabled.
    assert [nowhere["lacking"] for nowhere in failure["nowhere"]] == [{"MEMORY_MB": 1024}]


def count_instances_without_a_place(result):
    return {failure["name"]: len(failure["nowhere"]) for failure in result["failures"]}


@pytest.mark.parametrize(("fields", "target"), REQUESTS_AND_TARGETS)
def test_failover_places_an_instance_as_requested_after_its_decision_is_purged(
    mixed_cloud, database, fields, target
):
    place_without_decision(mixed_cloud, database, fields)
    assert compute_failover(mixed_cloud)["failures"] == []
    disable_host(mixed_cloud, "cn3")
    uncovered = [failure["name"] for failure in compute_failover(mixed_cloud)["failures"]]
    assert uncovered == ([] if target == "cn2" else ["cn1"])


def test_failover_counts_the_unknown_facts_of_instances(sqlite_app):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn2"])
    assert compute_failover(sqlite_app)["unknown"] == {}
    body = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    for number, request in ((7, None), (8, {"availability_zone": None, "scheduler_hints": {}})):
        path = f"/scheduler/v1/instances/{make_uuid(number)}"
        sqlite_app.put_json(path, {**body, "request": request})
    assert compute_failover(sqlite_app)["unknown"] == {
        **dict.fromkeys(("availability_zone", "scheduler_hints"), 1),
        **dict.fromkeys(("is_bfv", "requested_resources"), 2),
    }
