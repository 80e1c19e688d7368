# SPDX-License-Identifier: Apache-2.0
"""Weigher of free disk space."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.disk import DiskWeigher
from tests.scheduler.weights.weighing import weigh_hosts
from tests.support.states import build_host_state


def test_host_with_the_most_free_disk_is_best():
    hosts = [
        build_host_state("cn1", free_disk_mb=1024),
        build_host_state("cn2", free_disk_mb=2048),
        build_host_state("cn3", free_disk_mb=-512),
    ]
    assert weigh_hosts(DiskWeigher, hosts) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]
    reverse_order = weigh_hosts(DiskWeigher, hosts, filter_scheduler__disk_weight_multiplier=-1.0)
    assert [name for name, _ in reverse_order] == ["cn3", "cn1", "cn2"]


def test_empty_host_state_has_no_free_disk():
    hosts = [HostState("cn0", "cn0"), build_host_state("cn1", free_disk_mb=1024)]
    assert weigh_hosts(DiskWeigher, hosts) == [("cn1", 1.0), ("cn0", 0.0)]
