# SPDX-License-Identifier: Apache-2.0
"""Weigher by the number of instances, as in nova 34."""

from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier


def test_sign_of_the_multiplier_prefers_many_or_few_instances():
    check_sign_of_multiplier(NumInstancesWeigher, build_hosts(num_instances=(5, 7, 3)))
