# SPDX-License-Identifier: Apache-2.0
"""Weigher by the version of the hypervisor, as in nova 34."""

from placement_sched.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier, weigh_empty_host


def test_sign_of_the_multiplier_prefers_new_or_old_hypervisors():
    hosts = build_hosts(hypervisor_version=(7002000, 8002000, 6002000))
    check_sign_of_multiplier(HypervisorVersionWeigher, hosts)


def test_raw_weight_of_an_empty_host_state_is_0():
    assert weigh_empty_host(HypervisorVersionWeigher) == 0
