"""Why the NUMA nodes of an instance do not fit on a host, with the numbers."""

from collections.abc import Iterable, Mapping, Sequence

from placement_sched.model.host_numa import NetworkMetadata, NUMACell, NUMATopology
from placement_sched.model.numa_topology import InstanceNUMACell, InstanceNUMATopology
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.hardware.host_fit_cell import Shortage


def no_nodes(instance: InstanceNUMATopology) -> Refusal:
    """Return that nothing is known of NUMA nodes of the host."""
    asked = len(instance)
    return Refusal(f"{_nodes(asked)} asked, the host tells of none", asked, 0)


def too_few_nodes(host: NUMATopology, instance: InstanceNUMATopology) -> Refusal:
    """Return that the host has fewer NUMA nodes than the instance."""
    asked, there = len(instance), len(host)
    return Refusal(f"{_nodes(asked)} asked, the host has {there}", asked, there)


def fits_nowhere(
    host: Sequence[NUMACell], asked: InstanceNUMACell, shortages: Iterable[Shortage]
) -> Refusal:
    """Return what each NUMA node of the host lacks for this one of the instance."""
    by_reason: dict[str, list[int]] = {}
    for cell, shortage in zip(host, shortages, strict=True):
        by_reason.setdefault(shortage.reason, []).append(cell.id)
    why = "; ".join(f"{_named(ids)}: {reason}" for reason, ids in by_reason.items())
    return Refusal(f"NUMA node {asked.id} of the instance fits on none of the host: {why}")


def fit_apart(host: Sequence[NUMACell], places: Mapping[int, Sequence[int]]) -> Refusal:
    """Return that each NUMA node of the instance would fit somewhere, but not all at once."""
    where = "; ".join(
        f"node {number} only on {_named([host[place].id for place in some])}"
        for number, some in places.items()
    )
    return Refusal(f"the NUMA nodes of the instance do not fit all at once: {where}")


def devices_elsewhere(devices: Mapping[int, int], asked: int) -> Refusal:
    """Return where PCI devices are, where the nodes with room are not near enough to them."""
    there = ", ".join(f"{count} at NUMA node {node}" for node, count in sorted(devices.items()))
    return Refusal(
        f"{asked} PCI request{'s' * (asked != 1)} cannot be served near NUMA nodes with room; "
        f"free devices: {there or 'none at any node'}"
    )


def networks_elsewhere(host: Iterable[NUMACell], asked: NetworkMetadata) -> Refusal:
    """Return where the networks are, where the nodes with room do not have them all."""
    wanted = sorted(asked.physnets) + ["tunnels"] * asked.tunneled
    there = [
        f"{name} at {_named([cell.id for cell in host if _has(cell, name, asked)])}"
        for name in wanted
    ]
    return Refusal(f"the NUMA nodes with room lack networks asked: {', '.join(there)}")


def _has(cell: NUMACell, name: str, asked: NetworkMetadata) -> bool:
    networks = cell.network_metadata
    return name in networks.physnets if name in asked.physnets else networks.tunneled


def _nodes(number: int) -> str:
    return f"{number} NUMA node{'s' * (number != 1)}"


def _named(ids: Sequence[int]) -> str:
    return f"NUMA node{'s' * (len(ids) != 1)} {', '.join(map(str, sorted(ids)))}"
