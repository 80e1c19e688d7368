"""Which NUMA nodes of a host are tried first.

Source: nova's "Configuration Options", ``[compute] packing_host_numa_cells_allocation_strategy``.
"""

from collections import Counter
from collections.abc import Sequence

from placement_sched.model.host_numa import NUMACell, NUMATopology
from placement_sched.model.numa_topology import InstanceNUMATopology
from placement_sched.scheduler.hardware.cpus import DEDICATED, MIXED
from placement_sched.scheduler.hardware.host_fit_devices import Devices


def in_order(
    host: NUMATopology,
    instance: InstanceNUMATopology,
    devices: Devices | None,
    *,
    packing: bool = False,
) -> Sequence[NUMACell]:
    """Return the host's nodes: those least used first, or, with ``packing``, those most used.

    What counts is devices, CPUs, then memory. Nodes with PCI devices come first for an instance
    that asks for some, and last for others. Where every node is needed the order stays.
    """
    if len(host) <= len(instance):
        return host.cells
    pins = instance.cpu_policy in (DEDICATED, MIXED)
    near = devices.near if devices is not None else Counter[int]()
    far = -1 if devices is not None and devices.requests else 1
    back = -1 if packing else 1

    def place(cell: NUMACell) -> tuple[int, int, int]:
        cpus = -cell.avail_pcpus if pins else cell.cpu_usage
        return far * near[cell.id], back * cpus, back * -cell.avail_memory

    return sorted(host.cells, key=place)
