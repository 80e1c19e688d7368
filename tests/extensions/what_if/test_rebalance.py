# SPDX-License-Identifier: Apache-2.0
"""Advice on moves, compared with brute force on small clouds."""

from itertools import combinations, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exploring import scale_example_count
from tests.extensions.what_if.plan_clouds import (
    MB_PER_GB,
    build_request_with_memory,
    make_filled_hosts,
)
from tests.extensions.what_if.plan_moves import execute_move, read_usage_of_host
from tests.extensions.what_if.purged_decisions import REQUESTS_AND_TARGETS, place_without_decision
from tests.extensions.what_if.purged_decisions import mixed_cloud as mixed_cloud  # noqa: PLC0414 - a fixture
from tests.scheduler.fleets import load_fleet
from tests.support.clouds import uuid_of
from tests.support.scheduling import explain_request, make_uuid
from tests.support.simulations import dump_tables
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow


def request_rebalance(app, goal="fit", status=200, **more):
    return app.post_json("/scheduler/v1/rebalance", {"goal": goal, **more}, status=status).json


def find_minimal_number_of_moves(free, placed, size, most):
    """Return the minimal number of moves off a single host that make ``size`` fit."""
    remaining = dict(free)
    for host, amount in placed:
        remaining[host] -= amount
    for number in range(most + 1):
        for host in free:
            others = [entry for entry in free if entry != host]
            mine = [amount for index, amount in placed if index == host]
            for items in combinations(mine, number):
                if remaining[host] + sum(items) < size:
                    continue
                for targets in product(others, repeat=number):
                    room = dict(remaining)
                    for index, amount in zip(targets, items, strict=True):
                        room[index] -= amount
                    if min([room[other] for other in others], default=0) >= 0:
                        return number
    return None


@st.composite
def draw_crowded_cloud(draw):
    """Return GB by host, (host, GB) of instances, and the GB of a request."""
    free = draw(st.lists(st.integers(3, 9), min_size=2, max_size=4))
    remaining = {f"cn{index}": size for index, size in enumerate(free, 1)}
    sizes = draw(st.sampled_from([(1,), (2,), (3,), (1, 2, 3)]))
    placed = []
    wanted_places = st.tuples(st.sampled_from(sorted(remaining)), st.sampled_from(sizes))
    for host, size in draw(st.lists(wanted_places, max_size=8)):
        if remaining[host] >= size:
            remaining[host] -= size
            placed.append((host, size))
    capacities = {f"cn{index}": size for index, size in enumerate(free, 1)}
    return capacities, placed, max(remaining.values()) + draw(st.integers(1, 3))


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_crowded_cloud())
def test_rebalance_advice_is_as_good_as_brute_force_and_frees_capacity(make_new_app, cloud):
    free, placed, size = cloud
    app = make_new_app()
    make_filled_hosts(app, free, *placed)
    before = dump_tables(app)
    result = request_rebalance(app, request_spec=build_request_with_memory(size), moves=3)
    assert dump_tables(app) == before
    minimum = find_minimal_number_of_moves(free, placed, size, 3)
    exact = minimum in {None, 1} or len({amount for _, amount in placed}) < 2
    assert result["complete"]
    if exact:
        assert result["reached"] is (minimum is not None)
    if not result["reached"]:
        assert result["moves"] == []
        return
    assert len(result["moves"]) == minimum if exact else len(result["moves"]) >= minimum
    (origin,) = {move["from"] for move in result["moves"]}
    for move in result["moves"]:
        execute_move(app, move)
    assert origin in {
        host["host"] for host in explain_request(app, build_request_with_memory(size))["hosts"]
    }


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_crowded_cloud(), goal=st.sampled_from(["pack", "spread"]))
def test_rebalance_moves_reach_the_goals_pack_and_spread(make_new_app, cloud, goal):
    free, placed, _ = cloud
    app = make_new_app()
    make_filled_hosts(app, free, *placed)

    def read_memory_loads():
        return {
            host: read_usage_of_host(app, host)["MEMORY_MB"] / (size * MB_PER_GB)
            for host, size in free.items()
        }

    before = read_memory_loads()
    result = request_rebalance(app, goal, moves=3)
    for move in result["moves"]:
        execute_move(app, move)
    after = read_memory_loads()
    if goal == "spread":
        assert result["reached"] is (max(after.values()) < max(before.values()))
        assert max(after.values()) <= max(before.values())
        if result["moves"]:
            first = result["moves"][0]["from"]
            assert before[first] == max(before.values())
            assert after[first] < before[first]
        return
    assert result["reached"] is bool(result["moves"])
    assert all(move["reason"] == f"empties {move['from']}" for move in result["moves"])
    origins = {move["from"] for move in result["moves"]}
    assert {host for host in free if before[host] and not after[host]} == origins
    assert not [host for host in free if after[host] and not before[host]]


def test_rebalance_moves_the_smallest_sufficient_instance(app):
    make_filled_hosts(app, {"cn1": 8, "cn2": 3}, ("cn1", 4), ("cn1", 3))
    (move,) = request_rebalance(app, request_spec=build_request_with_memory(4), moves=2)["moves"]
    assert (move["instance"], move["from"], move["to"]) == (make_uuid(2), "cn1", "cn2")
    assert move["reason"] == "frees capacity on cn1"
    reached = request_rebalance(app, request_spec=build_request_with_memory(5), moves=2)["reached"]
    assert reached is False


def test_error_for_an_unknown_host_has_the_nearest_name(app):
    make_filled_hosts(app, {"cn1": 8})
    body = {"goal": "fit", "request_spec": {**build_request_with_memory(4), "force_hosts": ["cn2"]}}
    response = app.post_json("/scheduler/v1/rebalance", body, status=404)
    assert "Did you mean 'cn1'? (at $.request_spec.force_hosts[0])" in response.text


@pytest.mark.parametrize(
    ("free", "placed", "query", "reached", "moves", "outcome"),
    [
        ({"cn1": 8}, [], {"goal": "fit", "size": 4}, True, 0, "it fits on cn1 as it is"),
        (
            {"cn1": 8, "cn2": 8},
            [("cn1", 4), ("cn2", 4)],
            {"goal": "fit", "size": 9, "moves": 3},
            False,
            0,
            "no set of up to 3 moves off one host frees enough capacity",
        ),
        (
            {"cn1": 8, "cn2": 8, "cn3": 8, "cn4": 8},
            [("cn1", 4), ("cn1", 4), ("cn2", 4), ("cn2", 4)],
            {"goal": "spread", "moves": 1},
            False,
            1,
            "after these moves, the highest load is still 100%, on cn2",
        ),
        (
            {"cn1": 8, "cn2": 8},
            [("cn1", 4), ("cn2", 4)],
            {"goal": "spread"},
            False,
            0,
            "no move lowers the highest load, which is 50%",
        ),
    ],
)
def test_rebalance_advice_has_moves_and_outcome(app, free, placed, query, reached, moves, outcome):
    make_filled_hosts(app, free, *placed)
    fields = {key: value for key, value in query.items() if key != "size"}
    if "size" in query:
        fields["request_spec"] = build_request_with_memory(query["size"])
    result = request_rebalance(app, **fields)
    assert (result["reached"], len(result["moves"])) == (reached, moves)
    assert (result["outcome"], result["complete"]) == (outcome, True)


@pytest.mark.parametrize(
    ("bound", "most"), [("MAX_REBALANCE_TARGETS", 1), ("MAX_REBALANCE_SETS", 1)]
)
def test_rebalance_advice_under_a_limit_is_marked_incomplete(app, monkeypatch, bound, most):
    make_filled_hosts(app, {"cn1": 8, "cn2": 8}, ("cn1", 4), ("cn1", 4), ("cn2", 4), ("cn2", 4))
    result = request_rebalance(app, request_spec=build_request_with_memory(4), moves=1)
    outcome = "no move off one host frees enough capacity"
    assert (result["reached"], result["outcome"], result["complete"]) == (False, outcome, True)
    monkeypatch.setattr(f"placement_sched.extensions.what_if.rebalance.{bound}", most)
    result = request_rebalance(app, request_spec=build_request_with_memory(4), moves=1)
    assert (result["reached"], result["complete"]) == (False, False)
    assert result["outcome"] == f"{outcome} (not all were tried)"


def test_memory_of_child_providers_counts_as_load_of_the_host(sqlite_app):
    hosts = "".join(
        f"""
- host: cn{at}
  vcpus: 8
  memory_mb: 16384
  local_gb: 100
  last_seen_up: "2099-01-01T00:00:00Z"
  inventories: {{MEMORY_MB: null}}
  providers: [{{name: numa{at}, inventories: {{MEMORY_MB: {{total: 16384}}}}}}]"""
        for at in (1, 2)
    )
    allocations = "allocations: {cn1: {VCPU: 1, DISK_GB: 10}, numa1: {MEMORY_MB: 4096}}"
    load_fleet(
        sqlite_app,
        f"""
hosts:{hosts}
flavors:
- {{name: small, vcpus: 1, memory_mb: 4096, root_gb: 10}}
instances:
- {{name: i1, host: cn1, flavor: small, project: p, user: u, {allocations}}}
- {{name: i2, host: cn1, flavor: small, project: p, user: u, {allocations}}}
""",
    )
    (move,) = request_rebalance(sqlite_app, "spread")["moves"]
    assert (move["from"], move["to"]) == ("cn1", "cn2")
    assert move["reason"] == "lowers the load of cn1 from 50% to 25%"


def test_instances_that_nova_does_not_migrate_are_in_no_advice(app):
    make_filled_hosts(app, {"cn1": 8, "cn2": 8}, ("cn1", 4), ("cn2", 4))
    path = f"/scheduler/v1/instances/{make_uuid(1)}"
    record = app.get(path).json
    keys = ("host", "node", "project_id", "user_id", "flavor")
    app.put_json(path, {**{key: record[key] for key in keys}, "vm_state": "suspended"})
    result = request_rebalance(app, request_spec=build_request_with_memory(8), moves=2)
    assert [move["instance"] for move in result["moves"]] == [make_uuid(2)]
    result = request_rebalance(app, goal="pack")
    assert result["outcome"] == "1 host becomes empty: cn2"
    assert [move["instance"] for move in result["moves"]] == [make_uuid(2)]


def test_host_with_other_consumers_does_not_become_empty(app):
    make_filled_hosts(app, {"cn1": 8, "cn2": 8, "cn3": 8}, ("cn1", 1), ("cn2", 2))
    body = {
        "allocations": {uuid_of("cn1"): {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "CONTAINER",
    }
    app.put_json(f"/placement/allocations/{make_uuid(70)}", body, headers=LATEST_HEADERS)
    outcome = (
        "1 host becomes empty: cn2. 1 other consumer stays on cn1, by type 1 CONTAINER: end or "
        "move them with the service that placed them, such as Zun, Blazar, or nova for a migration"
    )
    result = request_rebalance(app, goal="pack")
    assert result["outcome"] == outcome
    assert [(move["from"], move["to"]) for move in result["moves"]] == [("cn2", "cn1")]


@pytest.mark.parametrize(("fields", "target"), REQUESTS_AND_TARGETS)
def test_advice_schedules_an_instance_as_requested_after_its_decision_is_purged(
    mixed_cloud, database, fields, target
):
    place_without_decision(mixed_cloud, database, fields)
    result = request_rebalance(mixed_cloud, goal="pack")
    # If cn2 does not fit the instance of cn1, the instance of cn2 moves to cn1.
    emptied = "cn1" if target == "cn2" else "cn2"
    assert result["outcome"] == f"1 host becomes empty: {emptied}"
    assert result["unknown"] == {}
