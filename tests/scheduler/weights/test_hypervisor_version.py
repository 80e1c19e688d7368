# SPDX-License-Identifier: Apache-2.0
"""Weigher of hypervisor versions, as nova 34 weighs the same hosts."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from tests.scheduler.weights.weighing import raw_weights, weigh_hosts
from tests.support.states import build_aggregates, build_host_state

HOSTS = [
    build_host_state("cn1", hypervisor_version=6_002_000),
    build_host_state("cn2", hypervisor_version=8_002_000),
    build_host_state("cn3", hypervisor_version=7_002_000),
]
MULTIPLIER = "filter_scheduler__hypervisor_version_weight_multiplier"


def test_newest_hypervisor_is_best_unless_the_multiplier_is_negative():
    assert weigh_hosts(HypervisorVersionWeigher, HOSTS) == [
        ("cn2", 1.0),
        ("cn3", 0.5),
        ("cn1", 0.0),
    ]
    weights = weigh_hosts(HypervisorVersionWeigher, HOSTS, **{MULTIPLIER: -1.0})
    assert weights == [("cn1", 0.0), ("cn3", -0.5), ("cn2", -1.0)]
    hosts = [build_host_state("cn1"), build_host_state("cn2")]
    assert weigh_hosts(HypervisorVersionWeigher, hosts) == [("cn1", 0.0), ("cn2", 0.0)]
    assert raw_weights(HypervisorVersionWeigher, [HostState("cn0", "cn0"), *HOSTS])["cn0"] == 0


def test_aggregates_may_have_another_multiplier():
    answer = {"hypervisor_version_weight_multiplier": "5"}
    hosts = [
        *HOSTS,
        build_host_state("cn4", hypervisor_version=7_002_000, aggregates=build_aggregates(answer)),
    ]
    assert weigh_hosts(HypervisorVersionWeigher, hosts)[0] == ("cn4", 2.5)
