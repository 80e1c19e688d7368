# SPDX-License-Identifier: Apache-2.0
"""Weigher by disk-intensive operations, as in nova 34."""

from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier


def test_sign_of_the_multiplier_prefers_many_or_few_disk_operations():
    check_sign_of_multiplier(IoOpsWeigher, build_hosts(num_io_ops=(2, 4, -3)))
