# SPDX-License-Identifier: Apache-2.0
"""Host filter by the number of disk-intensive operations, as nova 34 decides."""

from placement_sched.scheduler.filters.io_ops_filter import IoOpsFilter
from tests.support.states import build_host_state, build_settings, build_spec, find_rejection


def test_earlier_instances_count_towards_the_default_maximum_of_io_operations():
    plugin, host = IoOpsFilter.with_settings(build_settings()), build_host_state(num_io_ops=7)
    assert find_rejection(plugin, host) is None
    host.consume_from_request(build_spec())
    reason = "8 instances busy with disks, the maximum is 8"
    assert find_rejection(plugin, host) == reason
    assert find_rejection(plugin, build_host_state(num_io_ops=8)) == reason


def test_maximum_of_0_io_operations_rejects_every_host():
    plugin = IoOpsFilter.with_settings(build_settings(filter_scheduler__max_io_ops_per_host=0))
    reason = "0 instances busy with disks, the maximum is 0"
    assert find_rejection(plugin, build_host_state(num_io_ops=0)) == reason
