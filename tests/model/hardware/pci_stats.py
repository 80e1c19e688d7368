# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a host for tests of NUMA nodes."""

from collections.abc import Collection


class FakePciStats:
    """Devices by NUMA node, and the sets of nodes whose devices serve requests."""

    def __init__(
        self,
        pools: Collection[tuple[int | None, int]] = (),
        served_node_sets: Collection[set[int]] = (),
    ) -> None:
        self.pools = [{"numa_node": node, "count": count} for node, count in pools]
        self.served_node_sets = served_node_sets
        self.calls = []

    def support_requests(self, requests, mapping, cells):
        self.calls.append((requests, mapping))
        return {cell.id for cell in cells} in self.served_node_sets
