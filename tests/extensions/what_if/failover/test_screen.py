# SPDX-License-Identifier: Apache-2.0
"""The screen and the simulations of failures, compared with a plan for each host."""

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings

from placement_sched.extensions.what_if.capacity.host_counts import FreeCapacity
from placement_sched.extensions.what_if.drain_plan import MovePlan, Mover, find_instances
from placement_sched.extensions.what_if.failover import report as failover_report
from placement_sched.extensions.what_if.failover.screen import (
    Coverage,
    FailedLoad,
    Screen,
    ScreenedRequest,
)
from placement_sched.scheduler.simulation import DISABLED, DRAINED
from placement_sched.store import simulated_changes
from tests.exploring import scale_example_count
from tests.extensions.what_if.failover.queries import compute_failover
from tests.extensions.what_if.plan_moves import draw_small_cloud, fill_small_cloud

VF_RESOURCE_CLASS = "CUSTOM_VF"
#: Instances whose placements are all tried.
MAX_INSTANCES_FOR_EXHAUSTIVE_PLACEMENT = 3


def find_instances_stuck_in_drain(app, hosts):
    """Return the instances that find no place if hosts are drained."""
    body = {"changes": [{"drain": list(hosts)}], "flavors": []}
    plan = app.post_json("/scheduler/v1/plan", body).json
    return {entry["instance"] for entry in plan["stuck"]}


def can_place_all_instances_of_failed_hosts(app, hosts):
    """Return whether any choice of hosts places all instances of failed hosts."""
    scheduler = app.app.services.scheduler

    def place_all_instances(mover, remaining, others):
        if not remaining:
            return True
        instance, *later = remaining
        for other in others:
            with mover.attempt():
                destination = {"host": other, "node": other}
                result = mover.place([instance], {"requested_destination": destination})
                if isinstance(result, MovePlan) and place_all_instances(mover, later, others):
                    return True
        return False

    def can_place_all_instances(simulation):
        connection = simulation.connection
        names = {host for host, _ in simulation.caches.node_names.get_current(connection).values()}
        moving = find_instances(connection, hosts)
        simulated_changes.disable(connection, hosts, DISABLED, DRAINED, simulation.clock())
        return place_all_instances(Mover(simulation), moving, sorted(names - set(hosts)))

    return scheduler.simulate([], can_place_all_instances)


def check_failures_against_drain_plans(app, result, sets):
    """Compare a result with a plan for each set, and with all placements if they differ."""
    failures = {tuple(failure["hosts"]): failure for failure in result["failures"]}
    assert result["covered"] + result["uncovered"] == len(sets)
    assert result["undetermined"] == 0
    for hosts in sets:
        stuck = find_instances_stuck_in_drain(app, hosts)
        if hosts in failures:
            if (
                result["exact"]
                and failures[hosts]["instances"] <= MAX_INSTANCES_FOR_EXHAUSTIVE_PLACEMENT
            ):
                assert not can_place_all_instances_of_failed_hosts(app, hosts)
            assert {entry["uuid"] for entry in failures[hosts]["nowhere"]} == stuck != set()
            assert all(entry["reason"] for entry in failures[hosts]["nowhere"])
        elif stuck:
            assert can_place_all_instances_of_failed_hosts(app, hosts)


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_small_cloud())
def test_failover_coverage_equals_that_of_plans_that_move_all_instances(
    make_new_app, monkeypatch, cloud
):
    sizes, requests, _ = cloud
    app = make_new_app()
    fill_small_cloud(app, sizes, requests)
    names = [f"cn{number}" for number in range(1, len(sizes) + 1)]
    check_failures_against_drain_plans(app, compute_failover(app), [(name,) for name in names])
    pairs = list(combinations(names, 2))
    check_failures_against_drain_plans(app, compute_failover(app, host_failures=2), pairs)
    # The bound for many sets agrees with the check of each set.
    with monkeypatch.context() as patch:
        patch.setattr(failover_report, "MAX_FAILURE_SETS", 0)
        result = compute_failover(app, host_failures=2)
    assert not result["exact"]
    assert "more than the limit of 0" in result["bound"]
    states = {failure["name"]: failure["state"] for failure in result["failures"]}
    for pair in pairs:
        if any(name not in states for name in pair):  # covered in every set
            assert not find_instances_stuck_in_drain(app, pair)
        elif "uncovered" in {states[name] for name in pair}:
            assert find_instances_stuck_in_drain(app, pair)


def judge_instances_needing_devices(free, options, fits, number):
    """Return the coverage of instances if a single host remains, with these devices."""
    rows = {f"device{index}": index for index in range(len(free))}
    request = ScreenedRequest(
        size=(1, 1, 1),
        flavor="vf",
        fits={"cn2": fits},
        candidates=len(options),
        rejected=0,
        per_host=len(options),
        limit=None,
        amounts={VF_RESOURCE_CLASS: 2},
        shared={},
        has_only_stateless_filters=True,
        capacity=FreeCapacity(rows, list(free), {VF_RESOURCE_CLASS: 0}, []),
        options={"cn2": options},
    )
    load = FailedLoad(frozenset({"cn1"}))
    load.counts[b"vf"] = number
    screen = Screen({b"vf": request})
    return screen.judge(load), screen.count_stuck(load)


def test_failure_coverage_is_unclear_if_candidates_share_devices():
    # The first pair of devices leaves no pair, but each of them with the third makes two.
    pairs = [tuple((index, 1) for index in pair) for pair in combinations(range(3), 2)]
    assert judge_instances_needing_devices((1, 1, 2), pairs, 1, 2) == (Coverage.UNCLEAR, 0)


def test_failure_is_uncovered_if_too_few_candidates_use_different_devices():
    apart = [((0, 1),), ((1, 1),), ((2, 1),)]
    assert judge_instances_needing_devices((1, 1, 2), apart, 4, 5) == (Coverage.UNCOVERED, 1)
    # Every option uses the third device.
    common = [((0, 1), (2, 1)), ((1, 1), (2, 1))]
    assert judge_instances_needing_devices((1, 1, 2), common, 2, 3) == (Coverage.UNCOVERED, 1)
