# SPDX-License-Identifier: Apache-2.0
"""Weigher by failure domain."""

from dataclasses import replace

from placement_sched.model.preferences import Spread, SpreadRequest
from placement_sched.scheduler.weights.topology_spread import TopologySpreadWeigher
from tests.scheduler.weights.weighing import find_raw_weights, run_weigher, weigh_hosts
from tests.support.states import build_host_state, build_spec

RACKS_BY_HOST = {"cn1": ("r1",), "cn2": ("r2",), "cn3": ("r1", "r2")}
HOSTS = [build_host_state(name) for name in ("cn1", "cn2", "cn3", "cn4")]


def build_spread_request(*, is_hard=False, **members):
    request = SpreadRequest("rack", 1, is_hard=is_hard, path="$")
    spread = Spread(request, RACKS_BY_HOST, frozenset({"r1", "r2"})).with_members(members)
    return replace(build_spec(instance_group={"policy": "soft-affinity"}), spread=spread)


def test_spread_weight_is_the_negated_number_of_members_of_the_domain():
    spec = build_spread_request(cn1=2, cn2=1)
    weights = {"cn1": -2.0, "cn2": -1.0, "cn3": -2.0, "cn4": -3.0}
    assert find_raw_weights(TopologySpreadWeigher, HOSTS, spec) == weights
    assert weigh_hosts(TopologySpreadWeigher, HOSTS, spec)[0] == ("cn2", 1000.0)


def test_hosts_in_a_domain_are_preferred_for_the_first_member():
    weights = {"cn1": 0.0, "cn2": 0.0, "cn3": 0.0, "cn4": -1.0}
    assert find_raw_weights(TopologySpreadWeigher, HOSTS, build_spread_request()) == weights


def test_topology_spread_weigher_runs_only_for_a_soft_spread():
    for spec in (build_spec(), build_spread_request(is_hard=True, cn1=2)):
        run = run_weigher(TopologySpreadWeigher, HOSTS, spec)
        assert (run.reports, run.columns) == ((), ())
        assert {host.weight for host in run.hosts} == {0.0}
    assert TopologySpreadWeigher().weigh_hosts(HOSTS[:1], build_spec()) == [0.0]
