"""The NUMA nodes that a flavor and an image ask for, in so many words or by implication.

Pinned CPUs, pages of a size and persistent memory need nodes too: one, where no number is said.
Source: nova's documentation, "CPU topologies", "Huge pages" and "Attaching virtual persistent
memory to guests".
"""

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.numa_topology import InstanceNUMACell, InstanceNUMATopology
from placement_sched.scheduler.hardware.both import of_flavor
from placement_sched.scheduler.hardware.numa_cells import node_count, shares
from placement_sched.scheduler.hardware.pages import locked_memory, page_size
from placement_sched.scheduler.hardware.pinning import Pinning, pinning_of
from placement_sched.scheduler.hardware.pmem import pmem_amounts


def numa_topology(flavor: Flavor, image: Image) -> InstanceNUMATopology | None:
    """Return the NUMA nodes of the instance; None where nothing asks for any.

    Raises :class:`~placement_sched.errors.Invalid` naming the keys that cannot be, or that
    contradict each other, whether or not there are nodes then.
    """
    pinning = pinning_of(flavor, image)
    nodes = node_count(flavor, image)
    size = page_size(flavor, image)
    locked_memory(flavor, image)
    if not (nodes or size or pinning.is_asked or pmem_amounts(flavor)):
        return None
    _check_thread_policy(flavor, pinning)
    return InstanceNUMATopology(
        cells=tuple(
            InstanceNUMACell(
                id=node,
                cpuset=share.cpus - pinning.pinned,
                pcpuset=share.cpus & pinning.pinned,
                memory=share.memory,
                pagesize=None if size is None else int(size),
                cpu_policy=pinning.cpu_policy,
                cpu_thread_policy=pinning.thread_policy,
            )
            for node, share in enumerate(shares(flavor, image, nodes or 1))
        ),
        emulator_threads_policy=pinning.emulator_threads,
    )


def _check_thread_policy(flavor: Flavor, pinning: Pinning) -> None:
    """Raise :class:`Invalid` for an empty policy: it asks for nothing, but no node can have it."""
    if pinning.thread_policy is None and flavor.extra_specs.get("hw:cpu_thread_policy") == "":
        raise Invalid(f"{of_flavor('cpu_thread_policy')} is empty")
