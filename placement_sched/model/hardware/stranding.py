# SPDX-License-Identifier: Apache-2.0
"""Stranded resources: free amounts of hosts that flavors cannot use.

The stranded amounts for a flavor are the amounts that remain free after as many instances of the
flavor as fit are placed on the host. An instance with NUMA nodes fits if its nodes fit on different
nodes of the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    InstanceNUMATopology,
    NUMACell,
    NUMATopology,
)
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.hardware.pci_devices import (
    PciPools,
    Pools,
    count_devices,
    select_matching_pools,
)
from placement_sched.model.hardware.pci_requests import Alias, InstancePCIRequest
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.rejection import Rejection

Amounts = NDArray[np.float64]

#: Prefixes of extra specs that request amounts which host states do not have.
_UNREPORTED = ("resources", "accel:device_profile", "hw:pmem")
#: The first columns of hosts and of NUMA nodes. PCPU, pages and devices follow.
_HOST_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
_NODE_CLASSES = ("VCPU", "MEMORY_MB")
#: Maximum number of cached hosts. Above it the cache is cleared. An entry has some hundred bytes.
_MAX_CACHED_HOSTS = 100_000
#: NUMA affinity policies that require a device near to a NUMA node of the instance.
_NEAR_POLICIES = ("legacy", "required")


class FreeAmounts(NamedTuple):
    """The free amounts of hosts, in the columns of a :class:`FlavorTable`.

    ``hosts`` has a row for each host. ``nodes`` has a matrix for each host, with a row for each
    NUMA node, filled up with rows of 0. A class that is false in ``limited`` does not limit the
    host and is never stranded there. For example, a host that reports no disk may use shared
    storage.
    """

    hosts: Amounts
    nodes: Amounts
    limited: NDArray[np.bool_]

    def subtract(self, demand: Sequence[int]) -> "FreeAmounts":
        """Return free amounts less the amounts of an instance on each host."""
        hosts = self.hosts.copy()
        hosts[:, : len(demand)] -= demand
        return self._replace(hosts=np.maximum(hosts, 0.0))


class FlavorAmounts(NamedTuple):
    """The amounts of a flavor: in total, per NUMA node, and its node count."""

    total: Mapping[str, int]
    node: Mapping[str, int]
    nodes: int


class _Nodes(NamedTuple):
    """The NUMA nodes of a host: their ids and free amounts.

    ``pcpus`` is the number of CPUs for pinning that are not shared. ``pinned`` of them are pinned.
    """

    ids: Sequence[int]
    rows: Sequence[Sequence[int]]
    pcpus: int
    pinned: int


_NO_NODES = _Nodes((), (), 0, 0)
#: Nodes by ``id()`` of their topology and by CPU allocation ratio. The entry keeps the topology.
_NodesByTopology = dict[tuple[int, float | None], tuple[NUMATopology, _Nodes]]
_values_of = attrgetter(
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio", "vcpus_total"),
    *("total_usable_ram_mb", "total_usable_disk_gb", "vcpus_used", "free_ram_mb", "free_disk_mb"),
)


@dataclass(frozen=True)
class FlavorTable:
    """The amounts of a cloud's flavors, with a column for each class.

    Classes are resource classes, page sizes and PCI aliases. Flavors with equal amounts count once.
    ``pages`` has the page size or keyword of each class of pages, and ``devices`` a PCI request for
    each alias. ``cache`` has the NUMA nodes of hosts by the instance that was placed on them (None:
    no instance).
    """

    flavors: Sequence[FlavorAmounts]
    pages: dict[str, int] = field(default_factory=dict)
    devices: dict[str, InstancePCIRequest] = field(default_factory=dict)
    cache: dict[InstanceNUMATopology | None, _NodesByTopology] = field(default_factory=dict)

    @classmethod
    def from_flavors(cls, flavors: Iterable[Flavor], aliases: Mapping[str, Alias]) -> "FlavorTable":
        """Build the table of flavors.

        Disabled and invalid flavors, and flavors with :data:`_UNREPORTED` amounts, are left out.
        """
        table = cls(())
        amounts = (table._build_amounts(flavor, aliases) for flavor in flavors)
        by_key = {repr(each): each for each in amounts if each is not None}
        return cls([*by_key.values()], table.pages, table.devices)

    def _build_amounts(self, flavor: Flavor, aliases: Mapping[str, Alias]) -> FlavorAmounts | None:
        if flavor.disabled or any(key.startswith(_UNREPORTED) for key in flavor.extra_specs):
            return None
        hardware = RequestedHardware(flavor, Image())
        try:
            topology, requests = hardware.numa_topology, hardware.build_pci_requests(aliases)
        except Invalid:
            return None
        total = {
            "VCPU": flavor.vcpus,
            "MEMORY_MB": flavor.memory_mb,
            "DISK_GB": flavor.root_gb + flavor.ephemeral_gb,
        }
        node: dict[str, int] = {}
        if topology:
            pinned = sum(len(cell.pcpuset) for cell in topology.cells)
            total["VCPU"] -= pinned
            node = self._build_node_amounts(topology)
            total |= {"PCPU": pinned + topology.emulator_threads_isolated}
            total |= {name: flavor.memory_mb for name in self.pages if name in node}
        for request in requests:
            name = str(request.alias_name)
            self.devices[name] = request
            total[name] = total.get(name, 0) + request.count
            if len(topology or ()) == 1 and request.numa_policy in _NEAR_POLICIES:
                node[name] = total[name]
        return FlavorAmounts(total, node, len(topology or ()))

    def _build_node_amounts(self, topology: InstanceNUMATopology) -> dict[str, int]:
        """Return the largest amounts of any NUMA node of the instance."""
        node = {
            "VCPU": max(len(cell.cpuset) for cell in topology.cells),
            "PCPU": max(len(cell.pcpuset) for cell in topology.cells)
            + topology.emulator_threads_isolated,
        }
        memory = max(cell.memory for cell in topology.cells)
        size = topology.cells[0].pagesize or PAGES_ANY
        if size == PAGES_ANY:
            return node | {"MEMORY_MB": memory}
        words = {PAGES_SMALL: "small pages", PAGES_LARGE: "large pages"}
        name = words.get(size, f"{size} KiB pages")
        self.pages[name] = size
        return node | {name: memory}

    @cached_property
    def has_nodes(self) -> bool:
        """Return whether any flavor has NUMA nodes."""
        return any(flavor.nodes for flavor in self.flavors)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the columns of hosts."""
        return (*_HOST_CLASSES, "PCPU", *self.pages, *self.devices)

    @cached_property
    def node_classes(self) -> tuple[str, ...]:
        """Return the names of the columns of NUMA nodes."""
        return (*_NODE_CLASSES, "PCPU", *self.pages, *self.devices)

    @cached_property
    def totals(self) -> Amounts:
        """Return the total amounts, with a row for each flavor."""
        return _build_rows((flavor.total for flavor in self.flavors), self.classes)

    @cached_property
    def units(self) -> Amounts:
        """Return the mean amount of each class over the flavors that use it."""
        users = np.maximum((self.totals > 0).sum(axis=0), 1)
        units: Amounts = np.maximum(self.totals.sum(axis=0) / users, 1.0)
        return units

    def count_fits(self, free: FreeAmounts) -> Amounts:
        """Count the instances that fit on each host, for each flavor alone."""
        fits: Amounts = np.full((len(free.hosts), len(self.flavors)), np.inf)
        _limit_fits(fits, free.hosts, self.totals, free.limited)
        for count, (numbers, amounts) in self._by_node_count.items():
            on_nodes: Amounts = np.full((*free.nodes.shape[:2], len(numbers)), np.inf)
            _limit_fits(on_nodes, free.nodes, amounts)
            spread = _count_spread(np.floor(on_nodes), count)
            fits[:, numbers] = np.minimum(fits[:, numbers], spread)
        return np.floor(fits)

    @cached_property
    def _by_node_count(self) -> Mapping[int, tuple[Sequence[int], Amounts]]:
        """Map node counts to the indexes of flavors and their amounts per node."""
        places: dict[int, list[int]] = {}
        for place, flavor in enumerate(self.flavors):
            if flavor.nodes:
                places.setdefault(flavor.nodes, []).append(place)
        return {
            count: (
                numbers,
                _build_rows((self.flavors[at].node for at in numbers), self.node_classes),
            )
            for count, numbers in places.items()
        }

    def compute_stranded(self, free: FreeAmounts) -> tuple[Amounts, Amounts]:
        """Compute the mean and the minimum stranded amounts of each host.

        The first array has the mean over all flavors, and the second array the minimum, the amounts
        that remain whichever flavor fills the host. Columns are classes.
        """
        fits = self.count_fits(free)
        mean = free.hosts - fits @ self.totals / len(self.flavors)
        by_flavor = np.ascontiguousarray(fits.T)
        max_used = [(by_flavor * amounts[:, None]).max(axis=0) for amounts in self.totals.T]
        min_stranded = free.hosts - np.stack(max_used, axis=1)
        return np.where(free.limited, mean, 0.0), np.where(free.limited, min_stranded, 0.0)

    def read(
        self,
        hosts: Sequence[Any],
        demand: Sequence[int] = (0, 0, 0),
        instance: InstanceNUMATopology | None = None,
        *,
        is_cached: bool = True,
    ) -> FreeAmounts:
        """Read the free amounts of host states, less an instance on each host.

        Free amounts include overcommit. ``demand`` has the instance's virtual CPUs, memory in MB
        and disk in GB, and ``instance`` is its NUMA topology, or None. Set ``is_cached`` to false
        for temporary host states, whose nodes should not be cached.
        """
        columns = np.array([_values_of(host) for host in hosts], dtype=np.float64).T
        cpu_ratio, ram_ratio, disk_ratio, cpus, ram, disk, cpus_used, free_ram, free_disk = columns
        free: Amounts = np.zeros((len(hosts), len(self.classes)))
        limited = np.ones(free.shape, dtype=np.bool_)
        limited[:, 2] = disk > 0
        nodes = self._list_nodes(hosts, instance, is_cached=is_cached) if self.has_nodes else []
        if nodes:
            pcpus = np.array([(near.pcpus, near.pinned) for near in nodes], dtype=np.float64).T
            cpus, cpus_used = cpus - pcpus[0], cpus_used - pcpus[1]
        free[:, 0] = _overcommit(cpus, cpu_ratio) - cpus_used - demand[0]
        free[:, 1] = _overcommit(ram, ram_ratio) - (ram - free_ram) - demand[1]
        free[:, 2] = _overcommit(disk, disk_ratio) - (disk - free_disk // 1024) - demand[2]
        node_amounts = self._stack_nodes(nodes)
        first = len(_NODE_CLASSES)
        if nodes:
            free[:, 3 : 4 + len(self.pages)] = node_amounts.sum(axis=1)[:, first:]
        if self.devices:
            node_amounts = self._with_devices(hosts, nodes, free, node_amounts)
        return FreeAmounts(np.maximum(free, 0.0), np.maximum(node_amounts, 0.0), limited)

    def _stack_nodes(self, nodes: Sequence[_Nodes]) -> Amounts:
        """Return an array of hosts, nodes and classes, without devices."""
        width = max((len(near.ids) for near in nodes), default=0)
        filler = [[0] * (len(_NODE_CLASSES) + 1 + len(self.pages))]
        rows = [[*near.rows, *filler * (width - len(near.rows))] for near in nodes]
        return np.array(rows, dtype=np.float64).reshape(len(rows), width, len(filler[0]))

    def _with_devices(
        self, hosts: Sequence[Any], nodes: Sequence[_Nodes], free: Amounts, node_amounts: Amounts
    ) -> Amounts:
        """Add devices to ``free`` and append columns to ``node_amounts``."""
        near: Amounts = np.zeros((*node_amounts.shape[:2], len(self.devices)))
        for number, host in enumerate(hosts):
            ids = nodes[number].ids if nodes else ()
            for place, request in enumerate(self.devices.values()):
                pools = select_matching_pools(_get_pools(host), request)
                if not pools:
                    continue
                free[number, len(free[number]) - len(self.devices) + place] = count_devices(pools)
                for at, node in enumerate(ids):
                    near[number, at, place] = count_devices(
                        pool for pool in pools if pool["numa_node"] in (node, None)
                    )
        return np.concatenate([node_amounts, near], axis=2) if nodes else node_amounts

    def _list_nodes(
        self, hosts: Sequence[Any], instance: InstanceNUMATopology | None, *, is_cached: bool
    ) -> list[_Nodes]:
        """Return the NUMA nodes of each host, cached for further requests."""
        if sum(map(len, self.cache.values())) > _MAX_CACHED_HOSTS:
            self.cache.clear()
        cache = self.cache.setdefault(instance, {}) if is_cached else {}
        result = []
        for host in hosts:
            topology: NUMATopology = host.numa_topology
            key = id(topology), host.cpu_allocation_ratio
            entry = cache.get(key) if topology else (topology, _NO_NODES)
            if entry is None:
                after = _add_instance(host, instance) if instance else topology
                nodes = _read_nodes(after, host.cpu_allocation_ratio, tuple(self.pages.values()))
                entry = cache[key] = topology, nodes
            result.append(entry[1])
        return result


def _build_rows(amounts: Iterable[Mapping[str, int]], classes: Sequence[str]) -> Amounts:
    rows = [[each.get(name, 0) for name in classes] for each in amounts]
    return np.array(rows, dtype=np.float64).reshape(-1, len(classes))


def _overcommit(total: Amounts, ratio: Amounts) -> Amounts:
    return np.floor(total * np.nan_to_num(ratio, nan=1.0))  # an empty host state has no ratio


def _get_pools(host: Any) -> Pools:
    stats = host.pci_stats
    # A third-party plugin may have set an object of nova's form.
    return stats.current_pools if isinstance(stats, PciPools) else getattr(stats, "pools", ())


def _add_instance(host: Any, instance: InstanceNUMATopology) -> NUMATopology:
    """Return the host's NUMA nodes, with the instance added if it fits."""
    limits = host.limits.get("numa_topology")
    fitted = fit_to_host(host.numa_topology, instance, limits)
    topology: NUMATopology = host.numa_topology
    return topology if isinstance(fitted, Rejection) else with_usage(topology, fitted)


def _read_nodes(topology: NUMATopology, ratio: float | None, sizes: Sequence[int]) -> _Nodes:
    cells = topology.cells
    rows = [
        [
            int(len(cell.cpuset) * (ratio or 1.0)) - cell.cpu_usage,
            _sum_free_pages(cell, PAGES_SMALL) if cell.mempages else cell.avail_memory,
            cell.avail_pcpus,
            *(_sum_free_pages(cell, size) for size in sizes),
        ]
        for cell in cells
    ]
    # Before Train, CPUs for pinning were also shared.
    pcpus = sum(len(cell.pcpuset - cell.cpuset) for cell in cells)
    pinned = sum(len(cell.pinned_cpus - cell.cpuset) for cell in cells)
    return _Nodes(tuple(cell.id for cell in cells), rows, pcpus, pinned)


def _limit_fits(
    fits: Amounts, free: Amounts, amounts: Amounts, limited: NDArray[np.bool_] | None = None
) -> None:
    """Limit ``fits`` to the free amounts divided by each row of ``amounts``."""
    for number, column in enumerate(amounts.T):
        users = column > 0
        if not users.any():
            continue
        available = free[..., number, None]
        if limited is not None:
            available = np.where(limited[:, number, None], available, np.inf)
        selected = slice(None) if users.all() else np.flatnonzero(users)
        fits[..., selected] = np.minimum(fits[..., selected], available / column[selected])


def _count_spread(on_nodes: Amounts, count: int) -> Amounts:
    """Count the instances that fit if each needs ``count`` different nodes.

    ``on_nodes`` has the number of instance nodes that fit on each node of a host. An instance has
    at most ``skip`` nodes on the ``skip`` largest nodes of a host. The other host nodes must hold
    its remaining nodes. The result is the minimum over all ``skip`` below ``count``.
    """
    if on_nodes.shape[1] < count:
        return np.zeros((len(on_nodes), *on_nodes.shape[2:]))
    sums = np.sort(on_nodes, axis=1).cumsum(axis=1)
    last = on_nodes.shape[1] - 1
    quotients = [sums[:, last - skip] // (count - skip) for skip in range(count)]
    fits: Amounts = np.min(quotients, axis=0)
    return fits


def _sum_free_pages(cell: NUMACell, size: int) -> int:
    """Return the free memory in MB, in pages of a size or keyword."""
    smallest = min((pages.size_kb for pages in cell.mempages), default=0)
    return sum(
        pages.free_kb // 1024
        for pages in cell.mempages
        if pages.size_kb == (smallest if size == PAGES_SMALL else size)
        or (size == PAGES_LARGE and pages.size_kb > smallest)
    )
