# SPDX-License-Identifier: Apache-2.0
"""Moves that end violations, compared with an exhaustive search."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine, event

from placement_sched.extensions.what_if.violations.report import report_violations
from tests.exploring import SeededRandom, scale_example_count
from tests.extensions.what_if.plan_moves import execute_move
from tests.extensions.what_if.violations.clouds import (
    GROUPS,
    LICENSE,
    REQUEST,
    SSD,
    load,
    make_host,
    make_server,
    make_server_uuid,
)
from tests.support.scheduling import make_spec

_OPTIONS = {
    "scheduler__what_if_timeout": 120,
    "scheduler__enable_isolated_aggregate_filtering": "true",
    "filter_scheduler__enabled_filters": "ComputeFilter,SameHostFilter,DifferentHostFilter,"
    "ServerGroupAffinityFilter,ServerGroupAntiAffinityFilter",
}
_SIZES = {"memory_mb": 64, "root_gb": 1}
_SMALL = {"name": "small", "vcpus": 1, **_SIZES}
_LARGE = {"name": "large", "vcpus": 2, **_SIZES}
_SSD = {**_SMALL, "name": "ssd", "extra_specs": {f"trait:{SSD}": "required"}}
_LICENSED = {**_SMALL, "name": "licensed", "extra_specs": {f"trait:{LICENSE}": "required"}}
_FLAVORS = {each["name"]: each for each in (_SMALL, _LARGE, _SSD, _LICENSED)}
_MAX_MOVES = 3


@dataclass
class _Cloud:
    """A cloud, and the same cloud as a model for the exhaustive search."""

    capacity: dict = field(default_factory=dict)
    traits: dict = field(default_factory=dict)
    isolated: set = field(default_factory=set)
    #: Flavor and group by server.
    servers: dict = field(default_factory=dict)

    def accepts(self, server, host, hosts):
        """Return whether a host accepts a server, with all at ``hosts``."""
        flavor, group = self.servers[server]
        other_hosts = {each: at for each, at in hosts.items() if each != server}
        used = sum(
            _FLAVORS[self.servers[each][0]]["vcpus"]
            for each in other_hosts
            if other_hosts[each] == host
        )
        if used + _FLAVORS[flavor]["vcpus"] > self.capacity[host]:
            return False
        if flavor == "ssd" and SSD not in self.traits[host]:
            return False
        if flavor == "licensed" and LICENSE not in self.traits[host]:
            return False
        if host in self.isolated and flavor != "licensed":
            return False
        members = [
            other_hosts[each] for each in other_hosts if group and self.servers[each][1] == group
        ]
        if group == "apart":
            return host not in members
        if group == "two":
            return members.count(host) < 2
        return group != "together" or not members or host in members

    def find_violations(self, hosts):
        return {server for server, host in hosts.items() if not self.accepts(server, host, hosts)}

    def find_fewest_violations(self, hosts):
        """Return the fewest violations after at most 3 moves that add none."""
        states = {tuple(sorted(hosts.items()))}
        reached, fewest = set(states), len(self.find_violations(hosts))
        for _ in range(_MAX_MOVES):
            following = set()
            for state in states:
                violations = self.find_violations(dict(state))
                for server, origin in state:
                    for host in self.capacity.keys() - {origin}:
                        if not self.accepts(server, host, dict(state)):
                            continue
                        after = dict(state) | {server: host}
                        key = tuple(sorted(after.items()))
                        if (
                            key in reached
                            or not (remaining := self.find_violations(after)) <= violations
                        ):
                            continue
                        reached.add(key)
                        following.add(key)
                        fewest = min(fewest, len(remaining))
            states = following
        return fewest


def _draw_cloud(random):
    """Draw a cloud, and return it with its file and SQL statements."""
    cloud, hosts = _Cloud(), [f"cn{number}" for number in range(random.randint(2, 6))]
    statements = []
    for host in hosts:
        total = cloud.capacity[host] = random.randint(1, 4)
        cloud.traits[host] = [each for each in (SSD, LICENSE) if random.random() < 0.5]
        if random.random() < 0.3:
            cloud.capacity[host] = total // 2
            statements.append(
                "UPDATE inventories SET allocation_ratio = 0.5 WHERE resource_class_id = 0 AND "
                "resource_provider_id = (SELECT id FROM resource_providers "
                f"WHERE name = '{host}')"
            )
        if LICENSE in cloud.traits[host] and random.random() < 0.5:
            cloud.isolated.add(host)
    document = {
        "traits": [SSD, LICENSE],
        "flavors": list(_FLAVORS.values()),
        "server_groups": GROUPS,
        "hosts": [],
        "instances": [],
        "aggregates": [
            {
                "name": "licensed",
                "hosts": sorted(cloud.isolated),
                "metadata": {f"trait:{LICENSE}": "required"},
            }
        ],
    }
    free = {}
    for host in hosts:
        total = cloud.capacity[host]
        if any(f"'{host}'" in each for each in statements):
            total = max(2 * total, 1)
        free[host] = total
        document["hosts"].append(make_host(host, vcpus=total, traits=cloud.traits[host]))
    for number in range(random.randint(2, 8)):
        flavor = random.choice([_SMALL, _SMALL, _LARGE, _SSD, _LICENSED])["name"]
        fitting = [host for host in hosts if free[host] >= _FLAVORS[flavor]["vcpus"]]
        if not fitting:
            continue
        host = random.choice(fitting)
        free[host] -= _FLAVORS[flavor]["vcpus"]
        group = random.choice([None, None, "apart", "two", "together"])
        uuid = make_server_uuid(number)
        cloud.servers[uuid] = flavor, group
        more = {"server_group": group} if group else {}
        server = make_server(f"i{number}", host, flavor, uuid=uuid, vm_state="active", **more)
        document["instances"].append(server)
    return cloud, document, statements


def _comply(app, moves=_MAX_MOVES):
    body = {"goal": "comply", "moves": moves}
    return app.post_json("/scheduler/v1/rebalance", body).json


def _move(app, move):
    """Move a server as nova does: the scheduler has to select the host."""
    record = app.get(f"/scheduler/v1/instances/{move['instance']}").json
    group = {"instance_group": record["server_group"]} if record["server_group"] else {}
    execute_move(app, move, project_id="p", user_id="u", **group)


def _list_violations(app):
    report = report_violations(app.app.services.scheduler)
    return {each["uuid"] for each in report["violations"]}


@pytest.mark.slow
def test_moves_end_as_many_violations_as_an_exhaustive_search(make_new_app):
    """In 95 % of the clouds. Each move is accepted when it is made."""
    misses, moves, total = [], 0, scale_example_count(60)
    for number in range(total):
        cloud, document, statements = _draw_cloud(SeededRandom.numbered(number))
        app = load(make_new_app(**_OPTIONS), document, statements)
        hosts = {each["uuid"]: each["host"] for each in document["instances"]}
        remaining = cloud.find_violations(hosts)
        assert _list_violations(app) == remaining, number
        fewest = cloud.find_fewest_violations(hosts)
        result = _comply(app)
        for move in result["moves"]:
            _move(app, move)
            hosts[move["instance"]] = move["to"]
            after = cloud.find_violations(hosts)
            assert after <= remaining, (number, move)
            remaining = after
        assert {each["instance"] for each in result["stuck"]} == remaining, number
        assert _list_violations(app) == remaining, number
        assert result["reached"] is not bool(remaining)
        moves += len(result["moves"])
        if len(remaining) > fewest:
            misses.append(number)
    assert moves >= total / 2
    assert len(misses) <= total * 0.05, misses


@pytest.fixture
def make_cloud(make_new_app):
    """Return a function that loads hosts, servers and other parts."""

    def make(sizes, servers, *statements, **parts):
        document = {
            "traits": [SSD, LICENSE],
            "flavors": list(_FLAVORS.values()),
            "server_groups": GROUPS,
            "hosts": [
                make_host(host, vcpus=size, traits=traits) for host, (size, traits) in sizes.items()
            ],
            "instances": [
                make_server(name, host, flavor, uuid=make_server_uuid(number), **more)
                for number, (name, host, flavor, more) in enumerate(servers)
            ],
            **parts,
        }
        return load(make_new_app(**_OPTIONS), document, statements)

    return make


def _list_moves(result):
    return [(move["instance"][-1], move["from"], move["to"]) for move in result["moves"]]


def _list_stuck(result):
    return [(each["instance"][-1], each["host"], each["reason"]) for each in result["stuck"]]


def _reduce_ratio(host, ratio):
    return (
        f"UPDATE inventories SET allocation_ratio = {ratio} WHERE resource_class_id = 0 AND "
        f"resource_provider_id = (SELECT id FROM resource_providers WHERE name = '{host}')"
    )


def test_cloud_without_violations_needs_no_moves(make_cloud):
    result = _comply(make_cloud({"cn0": (2, []), "cn1": (2, [])}, [("a", "cn0", "small", {})]))
    assert (result["reached"], result["outcome"]) == (True, "no server violates a rule")
    assert (result["moves"], result["stuck"], result["complete"]) == ([], [], True)


def test_server_leaves_a_host_without_its_trait(make_cloud):
    app = make_cloud(
        {"cn0": (2, []), "cn1": (2, []), "cn2": (1, [SSD])},
        [("a", "cn0", "small", {}), ("b", "cn0", "ssd", {})],
    )
    result = _comply(app)
    assert _list_moves(result) == [("1", "cn0", "cn2")]
    assert result["moves"][0]["reason"] == f"ends 1 violation: trait {SSD}"
    assert (result["reached"], result["outcome"]) == (True, "the moves end 1 of 1 violation")


def test_single_move_ends_the_violations_of_all_servers_of_a_full_host(make_cloud):
    servers = [(str(number), "cn0", "small", {}) for number in range(3)]
    app = make_cloud({"cn0": (4, []), "cn1": (2, [])}, servers, _reduce_ratio("cn0", 0.5))
    result = _comply(app)
    assert len(result["moves"]) == 1
    assert result["moves"][0]["reason"] == "ends 3 violations: over capacity"
    assert (result["reached"], result["stuck"]) == (True, [])


def test_another_server_makes_room_for_a_server_with_a_violation(make_cloud):
    """The servers swap their hosts, since cn0 has a free virtual CPU."""
    app = make_cloud(
        {"cn0": (2, []), "cn1": (1, [SSD])}, [("a", "cn0", "ssd", {}), ("b", "cn1", "small", {})]
    )
    result = _comply(app)
    assert _list_moves(result) == [("1", "cn1", "cn0"), ("0", "cn0", "cn1")]
    reasons = [move["reason"] for move in result["moves"]]
    assert reasons == ["frees capacity on cn1", f"ends 1 violation: trait {SSD}"]
    for move in result["moves"]:
        _move(app, move)
    assert _list_violations(app) == set()


def test_first_server_of_a_chain_moves_to_a_third_host(make_cloud):
    app = make_cloud(
        {"cn0": (1, []), "cn1": (1, [SSD]), "cn2": (1, [])},
        [("a", "cn0", "ssd", {}), ("b", "cn1", "small", {})],
    )
    result = _comply(app, moves=2)
    assert _list_moves(result) == [("1", "cn1", "cn2"), ("0", "cn0", "cn1")]
    # A chain has two moves.
    result = _comply(app, moves=1)
    assert (result["moves"], result["reached"]) == ([], False)
    ((server, host, reason),) = _list_stuck(result)
    assert (server, host) == ("0", "cn0")
    assert reason.startswith(f"trait {SSD}: ")


def test_chain_that_would_add_a_violation_is_not_made(make_cloud):
    """No server can leave the SSD host without leaving its group."""
    member = {"server_group": "together"}
    app = make_cloud(
        {"cn0": (2, []), "cn1": (2, [SSD]), "cn2": (4, [])},
        [("a", "cn0", "ssd", {}), ("b", "cn1", "small", member), ("c", "cn1", "small", member)],
    )
    result = _comply(app)
    assert (result["moves"], [each["instance"][-1] for each in result["stuck"]]) == ([], ["0"])


def test_move_that_would_add_a_violation_is_not_made(make_cloud):
    """Another server has to be on the host of this server."""
    hint = {"request": {**REQUEST, "scheduler_hints": {"same_host": [make_server_uuid(0)]}}}
    app = make_cloud(
        {"cn0": (2, []), "cn1": (2, [SSD])}, [("a", "cn0", "ssd", {}), ("b", "cn0", "small", hint)]
    )
    result = _comply(app)
    adds = "on each host found for it, the move would add another violation"
    assert _list_stuck(result) == [("0", "cn0", f"trait {SSD}: {adds}")]
    assert (result["moves"], result["reached"]) == ([], False)


def test_server_in_a_state_that_nova_does_not_move_stays_with_the_reason(make_cloud):
    rescued = {"vm_state": "rescued"}
    app = make_cloud({"cn0": (2, []), "cn1": (2, [SSD])}, [("a", "cn0", "ssd", rescued)])
    ((_, host, reason),) = _list_stuck(_comply(app))
    assert (host, reason) == ("cn0", f"trait {SSD}: it is in rescue mode: unrescue it first")


def test_moves_above_the_limit_are_not_proposed(make_cloud):
    servers = [(str(number), "cn0", "ssd", {}) for number in range(3)]
    app = make_cloud({"cn0": (3, []), "cn1": (4, [SSD])}, servers)
    result = _comply(app, moves=2)
    assert (len(result["moves"]), result["outcome"]) == (2, "the moves end 2 of 3 violations")
    assert [each[2] for each in _list_stuck(result)] == [f"trait {SSD}: it needs more moves"]


def test_search_ends_at_the_limit_of_runs(make_cloud, monkeypatch):
    monkeypatch.setattr("placement_sched.extensions.what_if.rebalance.MAX_REBALANCE_RUNS", 0)
    app = make_cloud({"cn0": (2, []), "cn1": (2, [SSD])}, [("a", "cn0", "ssd", {})])
    result = _comply(app)
    assert (result["reached"], result["complete"], result["moves"]) == (False, False, [])
    reason = "it was not tried: the search ended at a limit"
    assert _list_stuck(result) == [("0", "cn0", f"trait {SSD}: {reason}")]


def test_moves_are_dropped_if_the_last_check_finds_another_violation(make_cloud, monkeypatch):
    """The last check is of all servers, the others of some hosts."""
    app = make_cloud(
        {"cn0": (2, []), "cn1": (2, [SSD])}, [("a", "cn0", "ssd", {}), ("b", "cn0", "small", {})]
    )

    def report(scheduler, hosts=None):
        result = report_violations(scheduler, hosts)
        if hosts is None and not result["violations"]:
            reason = {"rule": "rule", "kind": "other"}
            result["violations"] = [
                {"uuid": make_server_uuid(1), "host": "cn0", "reasons": [reason]}
            ]
        return result

    monkeypatch.setattr("placement_sched.extensions.what_if.rebalance.report_violations", report)
    result = _comply(app)
    assert (result["moves"], result["reached"], result["complete"]) == ([], False, False)
    assert [each["instance"][-1] for each in result["stuck"]] == ["0"]


def test_number_of_statements_does_not_grow_with_equal_servers(make_cloud):
    """No host has the trait, so that all servers are stuck."""
    counts = []
    for number in (2, 20):
        servers = [(str(at), "cn0", "ssd", {}) for at in range(number)]
        app = make_cloud({"cn0": (20, []), "cn1": (20, [])}, servers)
        statements = []

        def record(_connection, _cursor, statement, *_rest, into=statements):
            into.append(statement)

        event.listen(Engine, "before_cursor_execute", record)
        try:
            result = _comply(app)
        finally:
            event.remove(Engine, "before_cursor_execute", record)
        assert len(result["stuck"]) == number
        counts.append(len(statements))
    assert 0 < counts[1] <= counts[0]
    assert counts[0] < 400


def test_unknown_goal_is_an_error_with_the_nearest_goal(make_new_app):
    body = {"goal": "compyl"}
    response = make_new_app().post_json("/scheduler/v1/rebalance", body, status=400)
    detail = response.json["errors"][0]["detail"]
    assert "'compyl' is not one of" in detail
    assert "Did you mean 'comply'? (at $.goal)" in detail


def test_goal_does_not_accept_a_request(make_new_app):
    body = {"goal": "comply", "request_spec": make_spec()}
    response = make_new_app().post_json("/scheduler/v1/rebalance", body, status=400)
    assert "the goal comply does not allow a request_spec (at $.goal)" in response.text
