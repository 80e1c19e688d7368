# SPDX-License-Identifier: Apache-2.0
"""Further instances of a flavor until a failure gets worse."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from placement_sched.scheduler.failover import report as failover_remaining
from tests.exploring import draws
from tests.scheduler.capacity.test_report import ADMIN, FLAVORS, store_flavor
from tests.scheduler.failover.test_report import compute, fill, place
from tests.scheduler.plan_moves import fill_small_cloud, make_application, small_clouds
from tests.support.scheduling import flavor, instance, report, spec

NODES = "/scheduler/v1/compute_nodes"
M1, M4, M9 = (flavor(name=f"m{size}", memory_mb=1024 * size, root_gb=1) for size in (1, 4, 9))
# The group keeps the m4 of cn2 away from cn1, so a further m4 there makes the failure no worse.
BLOCKED_BY_GROUP = (
    {"flavor": M1, "force_hosts": ["cn2"]},
    {"flavor": M4, "force_hosts": ["cn1"], "instance_group": "apart"},
    {"flavor": M4, "instance_group": "apart"},
    {"flavor": M9},
)


def read_row(app, name="small"):
    answer = compute(app, remaining=True)
    return next(row for row in answer["remaining"] if row["flavor"] == name)


def test_remaining_instances_keep_every_host_covered(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn1", "cn2", "cn2"])
    row = read_row(sqlite_app)
    # 12 fit on three hosts, 8 on two, and 5 are there.
    assert (row["remaining"], row["exact"], row["at_most"]) == (3, True, 3)
    breaks = row["breaks"]
    assert breaks["placed"] == breaks["instances"] - 1


def test_no_instance_remains_if_fewer_of_an_uncovered_host_would_fit(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], ["cn1"] * 3 + ["cn2"] * 3)
    row = read_row(sqlite_app)
    assert (row["remaining"], row["at_most"]) == (0, 0)
    # Now 1 of 3 instances fits elsewhere. After a further instance, none fits.
    assert row["breaks"]["placed"] == 0


def test_instances_remain_if_as_many_of_an_uncovered_host_would_fit(sqlite_app):
    fill(sqlite_app, ["cn1", "cn2"], [])
    sqlite_app.post_json(NODES, [report("big", memory_mb=65536)])
    store_flavor(sqlite_app, "huge", ram=65536)
    place(sqlite_app, 1, "big", flavor="huge")
    assert compute(sqlite_app)["uncovered"] == 1
    assert read_row(sqlite_app)["remaining"] == 4


def test_flavor_that_fits_on_no_host_makes_no_host_uncovered(sqlite_app):
    fill(sqlite_app, ["cn1"], [])
    store_flavor(sqlite_app, "huge", ram=65536)
    row = read_row(sqlite_app, "huge")
    assert (row["remaining"], row["exact"], row["breaks"]) == (0, True, None)


def test_many_hosts_get_bounds_without_simulations(sqlite_app, monkeypatch):
    hosts = [f"cn{number}" for number in range(6)]
    fill(sqlite_app, hosts, hosts)
    monkeypatch.setattr(failover_remaining, "MAX_PROBED_FAILURES", 5)
    row = read_row(sqlite_app)
    # 18 more fit, 15 of them on other hosts, and a single instance needs a place.
    assert (row["remaining"], row["at_most"], row["exact"]) == (4, 14, False)
    assert row["breaks"] == {"domain": "cn0", "instances": 1, "placed": 0}


def test_numbers_of_an_uncovered_host_count_its_instances_of_all_flavors(sqlite_app, monkeypatch):
    fill(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1"])
    store_flavor(sqlite_app, "tiny", ram=512)
    place(sqlite_app, 9, "cn1", flavor="tiny")
    row = read_row(sqlite_app)
    monkeypatch.setattr(failover_remaining, "MAX_PROBED_FAILURES", 0)
    bounds = read_row(sqlite_app)
    assert (row["at_most"], bounds["at_most"]) == (1, 2)
    assert bounds["breaks"] == {"domain": "cn1", "instances": 3, "placed": 2}
    # A further instance is on cn1.
    assert row["breaks"] == {"domain": "cn1", "instances": 4, "placed": 3}


def test_instances_of_an_older_flavor_of_the_same_name_give_no_bound(sqlite_app, monkeypatch):
    fill(sqlite_app, ["cn1", "cn2"], ["cn1"] * 3)
    monkeypatch.setattr(failover_remaining, "MAX_PROBED_FAILURES", 0)
    assert read_row(sqlite_app)["at_most"] == 1
    sqlite_app.delete(f"{FLAVORS}/small", headers=ADMIN)
    store_flavor(sqlite_app, "small", ram=128)
    # Eight of the new flavor fit on cn2 besides the three instances of cn1.
    assert read_row(sqlite_app)["at_most"] is None


def test_further_instances_may_use_capacity_that_a_server_group_excludes(sqlite_app, monkeypatch):
    fill_small_cloud(sqlite_app, [9, 13, 9], BLOCKED_BY_GROUP)
    store_flavor(sqlite_app, "m4", ram=4096, disk=1)
    assert count_stuck(compute(sqlite_app)) == {"cn1": 1, "cn2": 1, "cn3": 1}
    monkeypatch.setattr(failover_remaining, "MAX_PROBED_FAILURES", 0)
    row = read_row(sqlite_app, "m4")
    assert (row["remaining"], row["at_most"]) == (0, 1)


@pytest.mark.slow
@settings(max_examples=draws(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
# CPU and disk spread m1 over hosts, while memory alone would fill cn2.
@example(
    cloud=([4, 20, 18], [{"flavor": M9}, {"flavor": M9, "availability_zone": "az1"}], set()),
    name="m1",
)
@example(cloud=([9, 13, 9], BLOCKED_BY_GROUP, set()), name="m4")
@given(cloud=small_clouds(), name=st.sampled_from(["m1", "m4"]))
def test_bounds_contain_the_number_that_simulations_find(
    sqlite_template, tmp_path_factory, make_app, monkeypatch, cloud, name
):
    sizes, requests, _ = cloud
    app = make_application(make_app, sqlite_template, tmp_path_factory.mktemp("remaining"))
    fill_small_cloud(app, sizes, requests)
    report_usage(app, sizes)
    store_flavor(app, name, ram=1024 * int(name[1:]), disk=1)
    row = read_row(app, name)
    with monkeypatch.context() as patch:
        patch.setattr(failover_remaining, "MAX_PROBED_FAILURES", 0)
        bounds = read_row(app, name)
    assert bounds["remaining"] <= row["remaining"]
    if bounds["at_most"] is not None:
        assert row["remaining"] <= bounds["at_most"]
    assert row["exact"]
    check_by_placing(app, sizes, name, row)


def check_by_placing(app, sizes, name, row):
    """Place the instances that remain, then another, and compute again after each."""
    before = count_stuck(compute(app))
    if row["remaining"]:
        uuids = [instance(100 + number) for number in range(row["remaining"])]
        assert select(app, sizes, uuids, name)
        after = count_stuck(compute(app))
        assert all(number <= before.get(host, 0) for host, number in after.items())
    if select(app, sizes, [instance(99)], name) and row["breaks"]:
        after = count_stuck(compute(app))
        assert any(number > before.get(host, 0) for host, number in after.items())


def select(app, sizes, uuids, name):
    """Place instances, and report the usage of hosts then."""
    body = {"request_spec": spec(*uuids, flavor=name)}
    answer = app.post_json("/scheduler/v1/select_destinations", body, expect_errors=True)
    if answer.status_int != 200:
        return False
    report_usage(app, sizes)
    return True


def report_usage(app, sizes):
    """Report all that weighers read, as after a placement within the same request.

    Each instance has a single VCPU, and is still being built.
    """
    reports = []
    for host in app.get("/scheduler/v1/hosts").json["hosts"]:
        used = {name: resource["used"] for name, resource in host["resources"].items()}
        usage = {
            "memory_mb": 1024 * sizes[int(host["host"].removeprefix("cn")) - 1],
            "memory_mb_used": used["MEMORY_MB"],
            "vcpus_used": used["VCPU"],
            "local_gb_used": used["DISK_GB"],
            "stats": {"num_instances": used["VCPU"], "io_workload": used["VCPU"]},
        }
        reports.append(report(host["host"], **usage))
    app.post_json(NODES, reports)


def count_stuck(answer):
    return {failure["name"]: len(failure["nowhere"]) for failure in answer["failures"]}
