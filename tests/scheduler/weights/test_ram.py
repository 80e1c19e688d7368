# SPDX-License-Identifier: Apache-2.0
"""Weigher by free memory, as in nova 34."""

from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier, weigh_empty_host


def test_sign_of_the_multiplier_prefers_much_or_little_free_memory():
    check_sign_of_multiplier(RAMWeigher, build_hosts(free_ram_mb=(1024, 2048, -512)))


def test_raw_weight_of_an_empty_host_state_is_0():
    assert weigh_empty_host(RAMWeigher) == 0
