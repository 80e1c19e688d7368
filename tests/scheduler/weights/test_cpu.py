# SPDX-License-Identifier: Apache-2.0
"""CPUWeigher: the number of free CPUs counts."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.cpu import CPUWeigher
from tests.scheduler.weights.weighing import weighed
from tests.support.states import a_host


def host(name, total, used, ratio):
    return a_host(name, vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio)


def test_the_host_with_the_most_free_wins_and_less_than_nothing_is_nothing():
    # 7, 14 and -5 CPUs are free.
    hosts = [host("cn1", 8, 1, 1.0), host("cn2", 4, 2, 4.0), host("cn3", 4, 9, 1.0)]
    assert weighed(CPUWeigher, hosts) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]
    turned = weighed(CPUWeigher, hosts, filter_scheduler__cpu_weight_multiplier=-1.0)
    assert [name for name, _ in turned] == ["cn3", "cn1", "cn2"]


def test_an_empty_host_state_has_nothing_free():
    hosts = [HostState("cn0", "cn0"), host("cn1", 8, 1, 1.0)]
    assert weighed(CPUWeigher, hosts) == [("cn1", 1.0), ("cn0", 0.0)]
