# SPDX-License-Identifier: Apache-2.0
"""Weigher of free CPUs."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.cpu import CPUWeigher
from tests.scheduler.weights.weighing import weigh_hosts
from tests.support.states import build_host_state


def host(name, total, used, ratio):
    return build_host_state(name, vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio)


def test_host_with_the_most_free_cpus_is_best():
    # 7, 14 and -5 CPUs are free.
    hosts = [host("cn1", 8, 1, 1.0), host("cn2", 4, 2, 4.0), host("cn3", 4, 9, 1.0)]
    assert weigh_hosts(CPUWeigher, hosts) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]
    reverse_order = weigh_hosts(CPUWeigher, hosts, filter_scheduler__cpu_weight_multiplier=-1.0)
    assert [name for name, _ in reverse_order] == ["cn3", "cn1", "cn2"]


def test_empty_host_state_has_no_free_cpus():
    hosts = [HostState("cn0", "cn0"), host("cn1", 8, 1, 1.0)]
    assert weigh_hosts(CPUWeigher, hosts) == [("cn1", 1.0), ("cn0", 0.0)]
