"""Virtual CPUs that float over the shared CPUs of a host's NUMA node.

Source: nova's documentation, "CPU topologies" and "Configuring overcommit ratios".
"""

from placement_sched.model.host_numa import NUMACell, NUMATopologyLimits
from placement_sched.model.numa_topology import InstanceNUMACell


def shared_shortage(
    host: NUMACell, asked: InstanceNUMACell, limits: NUMATopologyLimits | None
) -> str | None:
    """Return what shared CPUs are missing, None where there are enough.

    One instance never gets more than the node really has.
    """
    wanted, there = len(asked.cpuset), len(host.cpuset)
    if wanted > there:
        return f"{wanted} shared CPUs asked, {there} in all"
    if limits is None:
        return None
    ratio = limits.cpu_allocation_ratio
    limit = there * ratio
    if host.cpu_usage + wanted <= limit:
        return None
    free = limit - host.cpu_usage
    return f"{wanted} shared CPUs asked, {free:.12g} free of {there} x {ratio:.12g}"
