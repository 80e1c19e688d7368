# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a host, as far as NUMA nodes care for them."""

from collections.abc import Collection


class Stats:
    """So many devices at each node; requests are served near these sets of nodes."""

    def __init__(
        self, pools: Collection[tuple[int | None, int]] = (), near: Collection[set[int]] = ()
    ) -> None:
        self.pools = [{"numa_node": node, "count": count} for node, count in pools]
        self.near = near
        self.asked = []

    def support_requests(self, requests, mapping, cells):
        self.asked.append((requests, mapping))
        return {cell.id for cell in cells} in self.near
