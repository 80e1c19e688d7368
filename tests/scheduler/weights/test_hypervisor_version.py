# SPDX-License-Identifier: Apache-2.0
"""HypervisorVersionWeigher, as nova 34 weighs the same hosts."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from tests.scheduler.weights.weighing import raw, weighed
from tests.support.states import a_host, aggregates

HOSTS = [
    a_host("cn1", hypervisor_version=6_002_000),
    a_host("cn2", hypervisor_version=8_002_000),
    a_host("cn3", hypervisor_version=7_002_000),
]
MULTIPLIER = "filter_scheduler__hypervisor_version_weight_multiplier"


def test_newest_hypervisor_wins():
    assert weighed(HypervisorVersionWeigher, HOSTS) == [("cn2", 1.0), ("cn3", 0.5), ("cn1", 0.0)]


def test_oldest_wins_with_a_negative_multiplier():
    told = weighed(HypervisorVersionWeigher, HOSTS, **{MULTIPLIER: -1.0})
    assert told == [("cn1", 0.0), ("cn3", -0.5), ("cn2", -1.0)]


def test_hosts_of_one_version_are_equal():
    hosts = [a_host("cn1"), a_host("cn2")]
    assert weighed(HypervisorVersionWeigher, hosts) == [("cn1", 0.0), ("cn2", 0.0)]


def test_host_of_which_nothing_is_known_has_version_0():
    assert raw(HypervisorVersionWeigher, [HostState("cn0", "cn0"), *HOSTS])["cn0"] == 0


def test_aggregates_may_have_another_multiplier():
    told = {"hypervisor_version_weight_multiplier": "5"}
    hosts = [*HOSTS, a_host("cn4", hypervisor_version=7_002_000, aggregates=aggregates(told))]
    assert weighed(HypervisorVersionWeigher, hosts)[0] == ("cn4", 2.5)
