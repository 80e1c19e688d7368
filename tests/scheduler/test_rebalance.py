# SPDX-License-Identifier: Apache-2.0
"""POST /rebalance: advice on moves, held against brute force on small clouds."""

import re
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exploring import draws
from tests.scheduler.carrying_out import application, carry_out, host_of, usage
from tests.scheduler.test_scheduler import explain, select
from tests.scheduler.test_simulation import dumped
from tests.support.fleets import load_fleet
from tests.support.scheduling import flavor, instance, report, spec

pytestmark = pytest.mark.slow

GB = 1024


def advice(app, goal="fit", status=200, **more):
    return app.post_json("/scheduler/v1/rebalance", {"goal": goal, **more}, status=status).json


def made(app, free, *placed):
    """Make hosts of so many GB, and instances of so many GB on the hosts of these names."""
    reports = [report(name, memory_mb=size * GB, vcpus=60) for name, size in free.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for number, (host, size) in enumerate(placed, 1):
        asked = spec(instance(number), flavor=flavor(memory_mb=size * GB, root_gb=1))
        select(app, {**asked, "force_hosts": [host]})


def wanted(size):
    return spec(flavor=flavor(memory_mb=size * GB, root_gb=1))


def fewest(free, placed, size, most):
    """Return how few instances may leave one host so that ``size`` fits there; brute force."""
    left = dict(free)
    for host, taken in placed:
        left[host] -= taken
    for number in range(most + 1):
        for host in free:
            others = [one for one in free if one != host]
            mine = [taken for at, taken in placed if at == host]
            for some in combinations(mine, number):
                if left[host] + sum(some) < size:
                    continue
                for way in product(others, repeat=number):
                    room = dict(left)
                    for at, taken in zip(way, some, strict=True):
                        room[at] -= taken
                    if min([room[one] for one in others], default=0) >= 0:
                        return number
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_as_few_moves_as_brute_force_finds_make_room_and_hold(app, seed):
    random = Random(seed)
    free = {f"cn{at}": random.randint(8, 12) for at in range(1, 5)}
    left, placed = dict(free), []
    unit = random.choice([1, 2, 3])
    for _ in range(random.randint(6, 12)):
        host = random.choice(sorted(left))
        if left[host] >= unit:
            left[host] -= unit
            placed.append((host, unit))
    made(app, free, *placed)
    size = max(left.values()) + random.randint(1, 3)
    before = dumped(app)
    told = advice(app, request_spec=wanted(size), moves=3)
    assert dumped(app) == before
    best = fewest(free, placed, size, 3)
    assert told["reached"] is (best is not None)
    if best is None:
        return
    assert len(told["moves"]) == best
    assert explain(app, wanted(size))["outcome"] == "no_valid_host"
    for move in told["moves"]:
        assert "ComputeFilter" in move["passed"]
        carry_out(app, move)
    (origin,) = {move["from"] for move in told["moves"]}
    fitting = {host["host"] for host in explain(app, wanted(size))["hosts"]}
    assert origin in fitting


@st.composite
def crowded_clouds(draw):
    """Return the sizes of hosts in GB, and instances of so many GB on hosts of these names."""
    free = draw(st.lists(st.integers(3, 9), min_size=2, max_size=4))
    left = {f"cn{at}": size for at, size in enumerate(free, 1)}
    sizes = draw(st.sampled_from([(1,), (2,), (3,), (1, 2, 3)]))
    placed = []
    wanted_places = st.tuples(st.sampled_from(sorted(left)), st.sampled_from(sizes))
    for host, size in draw(st.lists(wanted_places, max_size=8)):
        if left[host] >= size:
            left[host] -= size
            placed.append((host, size))
    whole = {f"cn{at}": size for at, size in enumerate(free, 1)}
    return whole, placed, max(left.values()) + draw(st.integers(1, 3))


@settings(max_examples=draws(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=crowded_clouds())
def test_advice_is_no_worse_than_brute_force_within_its_bound_and_holds(
    sqlite_template, tmp_path_factory, make_app, cloud
):
    """The bound: where several instances of other sizes leave a host, each goes where weighers say.

    So with one size, and for one move, there are as few moves as brute force finds; else there may
    be more, or none.
    """
    free, placed, size = cloud
    app = application(make_app, sqlite_template, tmp_path_factory.mktemp("rebalance"))
    made(app, free, *placed)
    before = dumped(app)
    told = advice(app, request_spec=wanted(size), moves=3)
    assert dumped(app) == before
    best = fewest(free, placed, size, 3)
    exact = best in {None, 1} or len({taken for _, taken in placed}) < 2
    assert told["complete"]
    if exact:
        assert told["reached"] is (best is not None)
    if not told["reached"]:
        assert told["moves"] == []
        return
    assert len(told["moves"]) == best if exact else len(told["moves"]) >= best
    (origin,) = {move["from"] for move in told["moves"]}
    for move in told["moves"]:
        carry_out(app, move)
    assert origin in {host["host"] for host in explain(app, wanted(size))["hosts"]}


@settings(max_examples=draws(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=crowded_clouds(), goal=st.sampled_from(["pack", "spread"]))
def test_packing_and_spreading_do_what_they_say(
    sqlite_template, tmp_path_factory, make_app, cloud, goal
):
    """Packing empties hosts and fills no empty one; spreading lowers the highest load."""
    free, placed, _ = cloud
    app = application(make_app, sqlite_template, tmp_path_factory.mktemp(goal))
    made(app, free, *placed)

    def loads():
        return {host: usage(app, host)["MEMORY_MB"] / (size * GB) for host, size in free.items()}

    before = loads()
    told = advice(app, goal, moves=3)
    for move in told["moves"]:
        carry_out(app, move)
    after = loads()
    if goal == "spread":
        assert told["reached"] is (max(after.values()) < max(before.values()))
        assert max(after.values()) <= max(before.values())
        if told["moves"]:
            first = told["moves"][0]["from"]
            assert before[first] == max(before.values())
            assert after[first] < before[first]
        return
    assert told["reached"] is bool(told["moves"])
    origins = {move["from"] for move in told["moves"]}
    assert {host for host in free if before[host] and not after[host]} == origins
    assert not [host for host in free if after[host] and not before[host]]


def test_what_fits_needs_no_move(app):
    made(app, {"cn1": 8})
    told = advice(app, request_spec=wanted(4))
    assert (told["reached"], told["moves"]) == (True, [])
    assert told["outcome"] == "it fits on cn1 as it is"


def test_the_smallest_of_the_instances_that_make_room_moves(app):
    made(app, {"cn1": 8, "cn2": 3}, ("cn1", 4), ("cn1", 3))
    (move,) = advice(app, request_spec=wanted(4), moves=2)["moves"]
    assert (move["instance"], move["from"], move["to"]) == (instance(2), "cn1", "cn2")
    assert move["reason"] == "makes room on cn1"
    assert advice(app, request_spec=wanted(5), moves=2)["reached"] is False


def test_no_move_is_advised_that_would_not_help(app):
    made(app, {"cn1": 8, "cn2": 8}, ("cn1", 4), ("cn2", 4))
    told = advice(app, request_spec=wanted(9), moves=3)
    assert (told["reached"], told["moves"], told["complete"]) == (False, [], True)


def test_a_host_that_is_not_there_is_refused_with_the_nearest(app):
    made(app, {"cn1": 8})
    body = {"goal": "fit", "request_spec": {**wanted(4), "force_hosts": ["cn2"]}}
    answer = app.post_json("/scheduler/v1/rebalance", body, status=404)
    assert "did you mean 'cn1'? (at $.request_spec.force_hosts[0])" in answer.text


@pytest.mark.parametrize(("bound", "most"), [("MOST_TARGETS", 1), ("MOST_SETS", 1)])
def test_advice_that_a_bound_cut_says_that_there_may_be_moves(app, monkeypatch, bound, most):
    """No host has room for what leaves another one."""
    made(app, {"cn1": 8, "cn2": 8}, ("cn1", 4), ("cn1", 4), ("cn2", 4), ("cn2", 4))
    told = advice(app, request_spec=wanted(4), moves=1)
    outcome = "no 1 move off one host makes room for it"
    assert (told["reached"], told["outcome"], told["complete"]) == (False, outcome, True)
    monkeypatch.setattr(f"placement_sched.scheduler.rebalance.{bound}", most)
    told = advice(app, request_spec=wanted(4), moves=1)
    assert (told["reached"], told["complete"]) == (False, False)
    assert told["outcome"] == f"{outcome}, of those that were tried"


def test_packing_empties_hosts_onto_others_in_use(app):
    made(app, {"cn1": 8, "cn2": 8, "cn3": 8, "cn4": 8}, ("cn1", 2), ("cn2", 4), ("cn3", 2))
    told = advice(app, "pack", moves=2)
    assert told["reached"]
    assert told["reached"] is bool(told["moves"])
    origins = {move["from"] for move in told["moves"]}
    for move in told["moves"]:
        assert move["reason"] == f"empties {move['from']}"
        assert move["to"] != "cn4"
        carry_out(app, move)
    for host in origins:
        assert usage(app, host)["MEMORY_MB"] == 0
    told = advice(app, "pack", moves=1)
    assert told["reached"] is (len(origins) == 1)
    if told["reached"]:
        assert told["outcome"].startswith("1 host becomes empty: ")


def test_spreading_lowers_the_highest_load(app):
    made(app, {"cn1": 8, "cn2": 8}, ("cn1", 2), ("cn1", 2), ("cn1", 2))
    told = advice(app, "spread", moves=5)
    (move,) = told["moves"]
    assert (move["from"], move["to"]) == ("cn1", "cn2")
    assert move["reason"] == "lowers the load of cn1 from 75% to 50%"
    carry_out(app, move)
    assert host_of(app, move["instance"]) == "cn2"
    told = advice(app, "spread")
    assert (told["reached"], told["moves"]) == (False, [])
    assert re.fullmatch(r"no move lowers the highest load, which is \d+%", told["outcome"])


def test_spreading_that_leaves_other_hosts_as_full_says_that_the_highest_load_stays(app):
    full = [("cn1", 4), ("cn1", 4), ("cn2", 4), ("cn2", 4)]
    made(app, {"cn1": 8, "cn2": 8, "cn3": 8, "cn4": 8}, *full)
    told = advice(app, "spread", moves=1)
    assert (told["reached"], len(told["moves"])) == (False, 1)
    assert told["outcome"] == "the highest load is still 100% then, on cn2"


def test_memory_of_child_providers_counts_as_load(sqlite_app):
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
    held = "allocations: {cn1: {VCPU: 1, DISK_GB: 10}, numa1: {MEMORY_MB: 4096}}"
    load_fleet(
        sqlite_app,
        f"""
hosts:{hosts}
flavors:
- {{name: small, vcpus: 1, memory_mb: 4096, root_gb: 10}}
instances:
- {{name: i1, host: cn1, flavor: small, project: p, user: u, {held}}}
- {{name: i2, host: cn1, flavor: small, project: p, user: u, {held}}}
""",
    )
    (move,) = advice(sqlite_app, "spread")["moves"]
    assert (move["from"], move["to"]) == ("cn1", "cn2")
    assert move["reason"] == "lowers the load of cn1 from 50% to 25%"
