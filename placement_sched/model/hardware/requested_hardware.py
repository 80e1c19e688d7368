"""What a flavor and an image, read together, request of the hardware, and so which NUMA nodes.

Pinned CPUs, pages of a size and persistent memory need nodes too: one, where no number is set.
Source: nova's documentation, "CPU topologies" ("Customizing instance NUMA placement policies"),
"Huge pages" and "Attaching virtual persistent memory to guests".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPUS, MAX_NUMA_NODES
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.cpu_policy import RequestedCPUs
from placement_sched.model.hardware.cpu_sets import all_cpus, cpu_set
from placement_sched.model.hardware.flavor_image import FlavorImage, of_flavor, of_image
from placement_sched.model.hardware.numa import InstanceNUMACell, InstanceNUMATopology
from placement_sched.model.hardware.requested_devices import RequestedDevices
from placement_sched.model.hardware.requested_memory import RequestedMemory
from placement_sched.model.hardware.requested_pci import Alias, InstancePCIRequest, pci_requests

_CPUS = f"{of_flavor('numa_cpus.N')} or {of_image('numa_cpus.N')}"
_MEM = f"{of_flavor('numa_mem.N')} or {of_image('numa_mem.N')}"
#: What one NUMA node has of an instance: virtual CPUs, and memory in MB.
_Share = tuple[frozenset[int], int]


def _node_count(both: FlavorImage) -> int | None:
    """Return how many NUMA nodes are requested; None where that is not set."""
    by_flavor, by_image = both.values("numa_nodes")
    if by_flavor and by_image:
        raise both.conflict("numa_nodes", "only one of them may be set")
    if not by_flavor and by_image in (None, ""):
        return None
    text = str(by_flavor or by_image)
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if str(number) != text or not 1 <= number <= MAX_CPUS:
        where = both.source("numa_nodes")
        raise Invalid(f"{where}: expected a number of nodes from 1 to {MAX_CPUS}, got {text!r}")
    return number


def _shares(both: FlavorImage, nodes: int) -> Iterable[_Share]:
    """Return the share of each node, as flavor or image set it, else equal shares."""
    flavor, cpus = both.flavor, _by_node(both, "numa_cpus", cpu_set)
    memory = _by_node(both, "numa_mem", _memory)
    if cpus is None and memory is None:
        return _equal_shares(both, nodes)
    if cpus is None or memory is None or not len(cpus) == len(memory) == nodes:
        raise Invalid(
            f"{_CPUS} and {_MEM} must both be set for each of the {nodes} nodes of "
            f"{of_flavor('numa_nodes')} or {of_image('numa_nodes')}, and for no other"
        )
    _check_cpus(flavor, cpus)
    if min(memory) < 0 or sum(memory) != flavor.memory_mb:
        raise Invalid(
            f"{_MEM}: {memory} must be amounts of 0 or more that add up to the flavor's "
            f"{flavor.memory_mb} MB"
        )
    return zip(cpus, memory, strict=True)


def _by_node(both: FlavorImage, key: str, read: Callable[[str, str], Any]) -> Sequence[Any] | None:
    """Return the values that flavor or image set for the nodes from 0 on; None where neither."""
    extra_specs = both.flavor.extra_specs
    keys = (f"{key}.{node}" for node in range(MAX_NUMA_NODES))
    given = takewhile(lambda name: f"hw:{name}" in extra_specs, keys)
    by_flavor = [read(extra_specs[f"hw:{name}"], of_flavor(name)) for name in given]
    by_image: Sequence[Any] | None = both.image.properties.get(f"hw_{key}")
    if by_flavor and by_image is not None:
        raise Invalid(
            f"{of_flavor(f'{key}.0')} and {of_image(f'{key}.0')}: only one of them may be set"
        )
    return by_flavor or by_image


def _memory(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{where}: expected an amount of MB, got {text!r}") from None


def _equal_shares(both: FlavorImage, nodes: int) -> Iterable[_Share]:
    flavor = both.flavor
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise Invalid(
            f"{both.source('numa_nodes')}: {flavor.vcpus} vcpus and {flavor.memory_mb} MB cannot "
            f"be split into {nodes} equal shares; set {_CPUS} and {_MEM}"
        )
    every, width = sorted(all_cpus(flavor)), flavor.vcpus // nodes
    starts = (node * width for node in range(nodes))
    return [(frozenset(every[at : at + width]), flavor.memory_mb // nodes) for at in starts]


def _check_cpus(flavor: Flavor, by_node: Sequence[frozenset[int]]) -> None:
    every, named = all_cpus(flavor), frozenset().union(*by_node)
    if not named <= every:
        raise Invalid(f"{_CPUS}: CPU {min(named - every)} is not one of {flavor.vcpus} vcpus")
    if len(named) < sum(map(len, by_node)):
        raise Invalid(f"{_CPUS}: a CPU is on two nodes")
    if named != every:
        raise Invalid(f"{_CPUS}: CPU {min(every - named)} is on no node")


class RequestedHardware(FlavorImage):
    """What a flavor and an image request of the hardware.

    Each value is read when first looked at, and kept: a request that gives its NUMA nodes itself is
    not refused for what its flavor says of them.
    """

    @cached_property
    def cpus(self) -> RequestedCPUs:
        """Return what is requested of CPUs."""
        return RequestedCPUs(self.flavor, self.image)

    @cached_property
    def memory(self) -> RequestedMemory:
        """Return what is requested of memory."""
        return RequestedMemory(self.flavor, self.image)

    @cached_property
    def devices(self) -> RequestedDevices:
        """Return what is requested of devices and firmware."""
        return RequestedDevices(self.flavor, self.image)

    @cached_property
    def numa_topology(self) -> InstanceNUMATopology | None:
        """Return the NUMA nodes of the instance; None where none are requested.

        Raises :class:`Invalid`, naming the keys, for values that are not valid or contradict each
        other, whether or not there are nodes then.
        """
        pinning, nodes, size = self.cpus.pinning, _node_count(self), self.memory.page_size
        self.memory.is_locked  # noqa: B018 - is checked even where no node is requested
        if not (nodes or size or pinning.is_requested or self.devices.pmem_namespaces):
            return None
        if pinning.thread_policy is None and self.values("cpu_thread_policy")[0] == "":
            # An empty policy requests nothing, but no node can have it.
            raise Invalid(f"{of_flavor('cpu_thread_policy')} is empty")
        cells = (
            InstanceNUMACell(
                id=node,
                cpuset=cpus - pinning.pinned,
                pcpuset=cpus & pinning.pinned,
                memory=memory,
                pagesize=None if size is None else int(size),
                cpu_policy=pinning.cpu_policy,
                cpu_thread_policy=pinning.thread_policy,
            )
            for node, (cpus, memory) in enumerate(_shares(self, nodes or 1))
        )
        threads = pinning.emulator_threads
        return InstanceNUMATopology(cells=tuple(cells), emulator_threads_policy=threads)

    def pci_requests(self, aliases: Mapping[str, Alias]) -> tuple[InstancePCIRequest, ...]:
        """Return the requests for the devices of the flavor's aliases."""
        return pci_requests(self.flavor, self.devices.pci_affinity_policy, aliases)
