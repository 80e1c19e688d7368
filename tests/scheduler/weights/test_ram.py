# SPDX-License-Identifier: Apache-2.0
"""RAMWeigher: free memory counts."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.weights.weighing import weighed
from tests.support.states import a_host


def test_the_host_with_the_most_free_wins_and_less_than_nothing_is_nothing():
    hosts = [
        a_host("cn1", free_ram_mb=1024),
        a_host("cn2", free_ram_mb=2048),
        a_host("cn3", free_ram_mb=-512),
    ]
    assert weighed(RAMWeigher, hosts) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]
    turned = weighed(RAMWeigher, hosts, filter_scheduler__ram_weight_multiplier=-1.0)
    assert [name for name, _ in turned] == ["cn3", "cn1", "cn2"]


def test_an_empty_host_state_has_nothing_free():
    hosts = [HostState("cn0", "cn0"), a_host("cn1", free_ram_mb=1024)]
    assert weighed(RAMWeigher, hosts) == [("cn1", 1.0), ("cn0", 0.0)]
