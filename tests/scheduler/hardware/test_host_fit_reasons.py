"""Reasons carry numbers, and the two sides of what failed."""

from placement_sched.scheduler.hardware.host_fit_reasons import devices_elsewhere, too_few_nodes
from tests.scheduler.hardware.fitting import a_cell, a_host, an_instance, asked


def test_too_few_nodes_are_told_with_both_numbers():
    refusal = too_few_nodes(a_host(a_cell()), an_instance(asked(0), asked(1)))
    assert (refusal.asked, refusal.has) == (2, 1)


def test_devices_at_no_node_are_told_as_such():
    assert devices_elsewhere({}, 2).reason == (
        "2 PCI requests cannot be served near NUMA nodes with room; free devices: none at any node"
    )
