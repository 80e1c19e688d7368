# SPDX-License-Identifier: Apache-2.0
"""The reported amounts of nodes in a trace run."""

import pytest

from placement_sched.extensions.traces.cloud import TracedNodes, Usage
from tests.support.reports import node_uuid, parse_node_report

USAGE = Usage(vcpus=2, memory_mb=4096, disk_gb=20)


def change(node, *signs):
    """Return the node after a usage was added (1) or removed (-1)."""
    nodes = TracedNodes([node])
    for sign in signs:
        nodes.change(node.uuid, USAGE, sign)
    return nodes.by_uuid[node.uuid]


def get_amounts(node):
    used = (node.vcpus_used, node.memory_mb_used, node.local_gb_used)
    return *used, node.free_ram_mb, node.free_disk_gb, node.stats.get("num_instances")


def test_usage_is_added_and_removed():
    node = parse_node_report(memory_mb_used=512, reserved={"MEMORY_MB": 512, "VCPU": 4})
    used = change(node, 1)
    assert get_amounts(used)[:3] == (2, 4608, 20)
    assert used.free_ram_mb == node.free_ram_mb - 4096
    assert used.free_disk_gb == node.free_disk_gb - 20
    assert used.stats["num_instances"] == "1"
    assert get_amounts(change(node, 1, -1))[:5] == get_amounts(node)[:5]


@pytest.mark.parametrize(("memory", "freed"), [(0, 0), (512, 0), (1024, 512), (8192, 4096)])
def test_report_that_lacks_a_removed_server_stays_possible(memory, freed):
    node = parse_node_report(memory_mb_used=memory, reserved={"MEMORY_MB": 512})
    nodes = TracedNodes([node])
    nodes.free(node.uuid, USAGE)
    freer = nodes.by_uuid[node.uuid]
    assert freer.memory_mb_used == memory - freed
    assert freer.free_ram_mb == node.free_ram_mb + freed
    assert (freer.vcpus_used, freer.stats["num_instances"]) == (0, "0")
    assert freer.uuid == node_uuid(1)
