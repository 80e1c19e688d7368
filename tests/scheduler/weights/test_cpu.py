# SPDX-License-Identifier: Apache-2.0
"""Weigher by free virtual CPUs, as in nova 34."""

from placement_sched.scheduler.weights.cpu import CPUWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier, weigh_empty_host


def test_sign_of_the_multiplier_prefers_many_or_few_free_cpus():
    figures = {"vcpus_total": (8, 4, 4), "vcpus_used": (1, 2, 9)}
    hosts = build_hosts(cpu_allocation_ratio=(1.0, 4.0, 1.0), **figures)  # 7, 14 and -5 are free
    check_sign_of_multiplier(CPUWeigher, hosts)


def test_raw_weight_of_an_empty_host_state_is_0():
    assert weigh_empty_host(CPUWeigher) == 0
