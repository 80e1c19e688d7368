"""Networks near the NUMA nodes that an instance gets.

Source: nova's documentation, "Networking" ("NUMA Affinity").
"""

from collections.abc import Collection

from placement_sched.model.host_numa import NetworkMetadata, NUMACell, NUMATopology


def networks_of(cells: Collection[NUMACell]) -> NetworkMetadata:
    """Return all networks that any of these NUMA nodes has the cards of."""
    return NetworkMetadata(
        physnets=frozenset().union(*(cell.network_metadata.physnets for cell in cells)),
        tunneled=any(cell.network_metadata.tunneled for cell in cells),
    )


def bound_to_nodes(host: NUMATopology, asked: NetworkMetadata | None) -> NetworkMetadata:
    """Return those of the networks asked that the host has at certain nodes; others are free."""
    if asked is None:
        return NetworkMetadata()
    there = networks_of(host.cells)
    return NetworkMetadata(
        physnets=asked.physnets & there.physnets, tunneled=asked.tunneled and there.tunneled
    )


def reach(cells: Collection[NUMACell], asked: NetworkMetadata) -> bool:
    """Return whether these NUMA nodes have the cards of all networks asked."""
    there = networks_of(cells)
    return asked.physnets <= there.physnets and (there.tunneled or not asked.tunneled)
