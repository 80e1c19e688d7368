# SPDX-License-Identifier: Apache-2.0
"""Failover capacity of small clouds: covered hosts, instances without a place, domains."""

import pytest

from placement_sched.errors import Unavailable
from placement_sched.scheduler.failover import simulated
from tests.scheduler.capacity.test_report import ADMIN, AGGREGATES, make_zone, store_flavor
from tests.support.scheduling import instance, report, spec

NODES = "/scheduler/v1/compute_nodes"
FAILOVER = "/scheduler/v1/failover_capacity"
SELECT = "/scheduler/v1/select_destinations"


def place(app, number, host, **values):
    """Place an instance on a host, by name."""
    body = {"request_spec": spec(instance(number), force_hosts=[host], **values)}
    app.post_json(SELECT, body)


def compute(app, status=200, **body):
    """Compute without further instances, which takes longer."""
    return app.post_json(FAILOVER, {"remaining": False, **body}, status=status).json


def states(answer):
    return {state: answer[state] for state in ("covered", "uncovered", "undetermined")}


def set_metadata(app, name, **values):
    """Set metadata of an aggregate, made for this."""
    body = {"aggregate": {"name": name}}
    number = app.post_json(AGGREGATES, body, headers=ADMIN).json["aggregate"]["id"]
    action = {"set_metadata": {"metadata": values}}
    app.post_json(f"{AGGREGATES}/{number}/action", action, headers=ADMIN)
    return number


def fill(app, hosts, instances):
    """Report hosts of 4 GiB, and place instances of 1 GiB on named hosts."""
    app.post_json(NODES, [report(name, memory_mb=4096) for name in hosts])
    store_flavor(app, "small")
    store_flavor(app, "large", ram=3072)
    for number, host in enumerate(instances, 1):
        place(app, number, host, flavor="small")


def test_host_is_covered_if_all_its_instances_find_places(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2"])
    answer = compute(sqlite_app)
    assert states(answer) == {"covered": 3, "uncovered": 0, "undetermined": 0}
    assert (answer["failures"], answer["exact"], answer["bound"]) == ([], True, None)
    assert (answer["host_failures"], answer["within"]) == (1, None)


@pytest.mark.all_databases
def test_instances_without_a_place_are_listed_with_what_is_lacking(app):
    fill(app, ["cn1", "cn2"], ["cn1", "cn1", "cn2"])
    place(app, 9, "cn2", flavor="large")
    answer = compute(app)
    (failure,) = [entry for entry in answer["failures"] if entry["name"] == "cn2"]
    assert (failure["state"], failure["hosts"], failure["instances"]) == ("uncovered", ["cn2"], 2)
    (nowhere,) = failure["nowhere"]
    assert (nowhere["uuid"], nowhere["flavor"], nowhere["host"]) == (instance(9), "large", "cn2")
    # cn1 has two small instances, and gets the small instance of cn2: 1024 of 3072 MB remain.
    assert nowhere["lacking"] == {"MEMORY_MB": 2048}
    assert "MEMORY_MB" in nowhere["reason"]


def test_uncovered_host_is_not_exact_if_another_order_may_place_all(sqlite_app):
    hosts = [report("cn1"), report("cn2", memory_mb=4096), report("cn3", memory_mb=3072)]
    sqlite_app.post_json(NODES, hosts)
    store_flavor(sqlite_app, "large", ram=3072)
    store_flavor(sqlite_app, "medium", ram=2048)
    for number, name in enumerate(["large", "medium", "medium"], 1):
        place(sqlite_app, number, "cn1", flavor=name)
    # The large instance goes to cn2, and a medium instance to cn3. The other way round all fit.
    answer = compute(sqlite_app)
    assert [len(failure["nowhere"]) for failure in answer["failures"]] == [1]
    assert not answer["exact"]
    assert answer["bound"] == (
        "1 hosts are uncovered because placing the instances largest first found no placement: "
        "another order may place all"
    )


def test_uncovered_host_is_exact_if_no_instance_finds_a_place(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], [])
    make_zone(sqlite_app, "az1", "cn1")
    for number in (1, 2):
        place(sqlite_app, number, "cn1", flavor="small", availability_zone="az1")
    answer = compute(sqlite_app)
    assert (answer["uncovered"], answer["exact"], answer["bound"]) == (1, True, None)


def test_rejection_by_a_filter_lacks_no_amounts(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], [])
    make_zone(sqlite_app, "az1", "cn1")
    place(sqlite_app, 1, "cn1", flavor="small", availability_zone="az1")
    (failure,) = compute(sqlite_app)["failures"]
    (nowhere,) = failure["nowhere"]
    assert nowhere["lacking"] == {}
    assert nowhere["reason"]


def test_all_instances_of_a_group_on_a_host_may_be_apart(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2", "cn3"], [])
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    groups = sqlite_app.post_json("/compute/v2.1/os-server-groups", body, headers=ADMIN)
    group = groups.json["server_group"]["id"]
    for number, host in enumerate(["cn1", "cn2"], 1):
        place(sqlite_app, number, host, flavor="small", instance_group=group)
    assert states(compute(sqlite_app))["covered"] == 3
    place(sqlite_app, 3, "cn3", flavor="small", instance_group=group)
    assert states(compute(sqlite_app))["uncovered"] == 3


def test_members_of_an_affinity_group_are_simulated(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], [])
    body = {"server_group": {"name": "together", "policy": "affinity"}}
    groups = sqlite_app.post_json("/compute/v2.1/os-server-groups", body, headers=ADMIN)
    group = groups.json["server_group"]["id"]
    for number in (1, 2):
        place(sqlite_app, number, "cn1", flavor="small", instance_group=group)
    (failure,) = compute(sqlite_app)["failures"]
    assert {entry["uuid"] for entry in failure["nowhere"]} == {instance(1), instance(2)}
    assert "ServerGroupAffinityFilter" in failure["nowhere"][0]["reason"]


def test_hosts_of_a_zone_fail_together(sqlite_app):
    sqlite_app.post_json(NODES, [report("cn1"), report("cn2")])
    make_zone(sqlite_app, "az1", "cn1", "cn2")
    fill(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2", "cn3"])
    assert states(compute(sqlite_app))["covered"] == 3
    answer = compute(sqlite_app, within="zone")
    assert states(answer) == {"covered": 1, "uncovered": 1, "undetermined": 0}
    (failure,) = answer["failures"]
    assert (failure["name"], failure["hosts"]) == ("az1", ["cn1", "cn2"])
    assert (failure["instances"], len(failure["nowhere"])) == (5, 2)


def test_uncovered_failure_without_time_for_a_list_has_the_least_number(sqlite_app, monkeypatch):
    fill(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn1", "cn1", "cn2"])

    def fail(*_arguments):
        raise Unavailable("the simulation took too long")

    listed = compute(sqlite_app)["failures"]
    monkeypatch.setattr(simulated, "_simulate_some", fail)
    unlisted = compute(sqlite_app)["failures"]
    assert [(each["stuck"], len(each["nowhere"])) for each in listed] == [(1, 1), (1, 1)]
    assert [(each["stuck"], each["nowhere"]) for each in unlisted] == [(1, []), (1, [])]
    assert {each["state"] for each in unlisted} == {"uncovered"}


def test_hosts_with_the_same_metadata_of_aggregates_fail_together(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn2"])
    for rack, host in (("r1", "cn1"), ("r1", "cn2")):
        number = set_metadata(sqlite_app, f"{rack}-{host}", rack=rack)
        add = {"add_host": {"host": host}}
        sqlite_app.post_json(f"{AGGREGATES}/{number}/action", add, headers=ADMIN)
    answer = compute(sqlite_app, within="rack")
    assert states(answer)["covered"] == 2  # r1, and cn3 alone
    assert states(compute(sqlite_app, within="aggregate"))["covered"] == 3


def test_all_sets_of_two_hosts_are_examined(sqlite_app):
    sqlite_app.post_json(NODES, [report("big")])
    fill(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn2", "cn2", "big"])
    answer = compute(sqlite_app, host_failures=2)
    assert states(answer) == {"covered": 1, "uncovered": 2, "undetermined": 0}
    nowhere = {failure["name"]: len(failure["nowhere"]) for failure in answer["failures"]}
    assert nowhere == {"big, cn1": 1, "big, cn2": 1}
    assert answer["exact"]


def test_all_hosts_that_fail_leave_no_place(sqlite_app):
    fill(sqlite_app, ["cn1"], ["cn1"])
    answer = compute(sqlite_app, host_failures=3)
    assert (answer["uncovered"], answer["host_failures"]) == (1, 1)


def test_cloud_without_hosts_is_covered(sqlite_app):
    assert states(compute(sqlite_app)) == {"covered": 0, "uncovered": 0, "undetermined": 0}


def test_key_that_no_aggregate_has_gets_the_nearest_key(sqlite_app):
    set_metadata(sqlite_app, "r1", rack="r1")
    (error,) = compute(sqlite_app, status=400, within="rak")["errors"]
    assert "no aggregate has the metadata key 'rak'" in error["detail"]
    assert "rack" in error["detail"]
    assert "$.within" in error["detail"]


def test_numbers_of_failures_outside_of_the_limits_are_invalid(sqlite_app):
    for number in (0, 11):
        (error,) = compute(sqlite_app, status=400, host_failures=number)["errors"]
        assert "$.host_failures" in error["detail"]


def test_failures_that_are_not_examined_in_time_are_undetermined(make_app, sqlite_settings):
    app = make_app(sqlite_settings.with_overrides({"scheduler.failover_budget": 1e-9}))
    fill(app, ["cn1", "cn2"], ["cn1"])
    answer = compute(app)
    assert states(answer) == {"covered": 1, "uncovered": 0, "undetermined": 1}
    assert not answer["exact"]
    assert answer["bound"].startswith("1 hosts are undetermined: the computation took longer than")


def test_nothing_is_changed(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], ["cn1", "cn2"])
    place(sqlite_app, 9, "cn2", flavor="large")
    before = sqlite_app.get("/scheduler/v1/hosts").json
    compute(sqlite_app, remaining=True)
    assert sqlite_app.get("/scheduler/v1/hosts").json == before
