# SPDX-License-Identifier: Apache-2.0
"""Instances that fit with nova's default weighers and with StrandedResourcesWeigher.

``make bench WHAT=packing``, or ``python bench/packing.py --help``. A trace has 20 000 arrivals and
departures of instances. It is placed on the same empty cloud under each set of weighers, by the
filters and the weighing step of the scheduler, on host states in memory. Sums of amounts take the
place of placement's candidates search. ``placed`` is the number of instances placed before the
first refusal, and ``empty`` the number of hosts without an instance at the end.
"""

import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

import harness

from placement_sched.config.settings import Settings
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import NUMACell, NUMAPagesTopology, NUMATopology
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.model.hardware.pci_requests import InstancePCIRequests, aliases_of
from placement_sched.model.request_spec import RequestSpec, request_spec_from
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.host_state import HostState, set_candidates
from placement_sched.scheduler.plugins import Plugins, plugins_for, read_settings
from placement_sched.scheduler.weighing import run_weighers

#: The seeds of the published figures. Definitions of the weigher were compared with 1 to 3.
SEEDS = range(101, 111)
#: The part of the events until the load is highest.
FILLING = 0.7
PINNED = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "1048576"}
DEVICE = {"vendor_id": "10de", "product_id": "20b0", "dev_type": "type-PCI"}
ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "20b0", "device_type": "type-PCI"}'
ALIASES = aliases_of((ALIAS,), in_placement=False)
MULTIPLIER = "filter_scheduler.stranded_resources_weight_multiplier"
FILTERS = ["NUMATopologyFilter", "PciPassthroughFilter"]
#: The weighers that may differ between hosts here. All others give every host the same weight.
WEIGHERS = {"CPUWeigher", "DiskWeigher", "PCIWeigher", "RAMWeigher", "StrandedResourcesWeigher"}
FIGURES = ("placed", "refused", "empty")
Amounts = Counter[str]
#: A request for an instance with its amounts, and a flavor with its share of the requests.
Request = tuple[RequestSpec, Amounts]
Size = tuple[Flavor, float]


def _size(vcpus: int, ratio: float, share: float, **extra_specs: str) -> Size:
    specs = {name.replace("__", ":"): value for name, value in extra_specs.items()}
    memory, disk = int(vcpus * ratio * 1024), 20 + 4 * vcpus
    flavor = Flavor(vcpus=vcpus, memory_mb=memory, root_gb=disk, extra_specs=specs)
    return flavor, share


#: Returns a flavor with dedicated CPUs and huge pages.
_pinned = partial(_size, **PINNED)


@dataclass(eq=False)
class Host:
    """A host state, and the amounts that placement would count as free."""

    state: HostState
    free: Amounts
    devices: Counter[int]
    #: The verdicts of filters by flavor, until the host changes.
    verdicts: dict[int, bool] = field(default_factory=dict)

    def place(self, spec: RequestSpec, demand: Amounts) -> Callable[[], None]:
        """Place an instance, and return the function that removes it."""
        state, topology, devices = self.state, self.state.numa_topology, self.devices
        state.consume_from_request(spec)
        state.num_io_ops = 0  # it is built before the next instance arrives
        self.free -= demand
        self.verdicts.clear()
        self.devices = Counter({pool["numa_node"]: pool["count"] for pool in state.pci_stats.now})
        pairs = zip(topology.cells, state.numa_topology.cells, strict=True) if topology else ()
        used = [_difference(before, after) for before, after in pairs]
        return partial(self._remove, spec, demand, used, devices - self.devices)

    def _remove(
        self, spec: RequestSpec, demand: Amounts, used: Sequence[NUMACell], taken: Counter[int]
    ) -> None:
        state = self.state
        state.free_ram_mb += spec.memory_mb
        state.free_disk_mb += spec.root_gb * 1024
        state.vcpus_used -= spec.vcpus
        state.num_instances -= 1
        self.free += demand
        self.verdicts.clear()
        if used:
            cells = zip(used, state.numa_topology.cells, strict=True)
            state.numa_topology = NUMATopology(_difference(each, cell) for each, cell in cells)
        if taken:
            self.devices += taken
            state.pci_stats = _build_pools(self.devices)


def _difference(used: NUMACell, cell: NUMACell) -> NUMACell:
    """Return a node without the CPUs, memory and pages that are used in another."""
    pages = zip(used.mempages, cell.mempages, strict=True)
    return replace(
        cell,
        cpu_usage=cell.cpu_usage - used.cpu_usage,
        memory_usage=cell.memory_usage - used.memory_usage,
        pinned_cpus=cell.pinned_cpus - used.pinned_cpus,
        mempages=tuple(replace(each, used=each.used - gone.used) for gone, each in pages),
    )


def _build_pools(devices: Mapping[int, int]) -> PciPools:
    pools = ({**DEVICE, "numa_node": node, "count": count} for node, count in devices.items())
    return PciPools.of([pool for pool in pools if pool["count"]])


def _build_host(
    number: int, cpus: int, memory_gb: int, *, cell: NUMACell | None = None, devices: int = 0
) -> Host:
    """Return an empty host, or a host of two NUMA nodes like ``cell`` with devices at each."""
    cells = [replace(cell, id=node) for node in (0, 1)] if cell else []
    by_node = Counter({0: devices, 1: devices})
    state = HostState(f"cn{number:03}", f"cn{number:03}", vcpus_total=cpus)
    state.total_usable_ram_mb = state.free_ram_mb = memory_gb * 1024
    state.total_usable_disk_gb, state.free_disk_mb = 8000, 8000 * 1024
    state.numa_topology, state.pci_stats = NUMATopology(cells) or None, _build_pools(by_node)
    state.cpu_allocation_ratio = state.ram_allocation_ratio = state.disk_allocation_ratio = 1.0
    set_candidates(state, [{"allocations": {}, "mappings": {}}])
    dedicated = sum(len(each.pcpuset) for each in cells)
    amounts = {"VCPU": cpus - dedicated, "PCPU": dedicated, "MB": memory_gb * 1024, "GB": 8000}
    return Host(state, Counter({**amounts, "gpu": 2 * devices}), by_node)


NODE = NUMACell(
    id=0,
    cpuset=frozenset(range(8)),
    pcpuset=frozenset(range(8, 32)),
    memory=256 * 1024,
    mempages=(
        NUMAPagesTopology(size_kb=4, total=64 * 1024 * 256),
        NUMAPagesTopology(size_kb=1048576, total=192),
    ),
)
#: Shares of sizes from 1 CPU on, each twice the size before. Most machines are small.
_SMALL, _EVEN = (0.25, 0.35, 0.22, 0.1, 0.06, 0.02), (0.2, 0.25, 0.25, 0.2, 0.1)


def _family(ratio: float, share: float, shares: Sequence[float]) -> list[Size]:
    return [_size(2**step, ratio, share * part) for step, part in enumerate(shares)]


def _build_spec(flavor: Flavor, flavors: tuple[Flavor, ...]) -> Request:
    spec = request_spec_from({"flavor": flavor.as_document()})
    requests = spec.hardware.pci_requests(ALIASES)
    pci, numa = InstancePCIRequests(requests=requests), spec.hardware.numa_topology
    spec = replace(spec, numa_topology=numa, pci_requests=pci, cloud_flavors=flavors)
    cpus = "PCPU" if numa else "VCPU"
    amounts = {cpus: flavor.vcpus, "MB": flavor.memory_mb, "GB": flavor.root_gb}
    return spec, Counter({**amounts, "gpu": sum(request.count for request in requests)})


class Trace(NamedTuple):
    """Hosts and flavors of a trace, the deviation of the logarithm of lifetimes, and loads."""

    hosts: Callable[[], list[Host]]
    sizes: Sequence[Size]
    deviation: float
    #: The highest load, and the load at the end. All hosts are full at 1 if instances are alike.
    full: float = 1.3
    ebb: float = 0.4

    def requests(self) -> list[Request]:
        """Return the request for an instance of each flavor, and its amounts."""
        flavors = tuple(flavor for flavor, _ in self.sizes)
        return [_build_spec(flavor, flavors) for flavor in flavors]


TRACES = {
    "azure": Trace(
        lambda: [_build_host(number, 64, 320) for number in range(100)],
        [*_family(2, 0.3, _SMALL), *_family(4, 0.5, _SMALL), *_family(8, 0.2, _SMALL)],
        deviation=2.5,
    ),
    "balanced": Trace(
        lambda: [_build_host(number, *((48, 192), (64, 384))[number % 2]) for number in range(100)],
        [*_family(2, 0.3, _EVEN), *_family(4, 0.4, _EVEN), *_family(8, 0.3, _EVEN)],
        deviation=1.0,
    ),
    "numa": Trace(
        lambda: [_build_host(n, 64, 512, cell=NODE, devices=0 if n % 3 else 2) for n in range(100)],
        [
            *_family(4, 0.4, (0.4, 0.4, 0.2)),
            *(_pinned(2, 4, 0.12), _pinned(4, 8, 0.14), _pinned(8, 8, 0.1), _pinned(4, 16, 0.04)),
            *(_pinned(12, 8, 0.05), _pinned(24, 8, 0.02), _pinned(16, 8, 0.03, hw__numa_nodes="2")),
            _pinned(6, 8, 0.07, pci_passthrough__alias="gpu:1"),
            _pinned(12, 8, 0.03, pci_passthrough__alias="gpu:2"),
        ],
        deviation=1.5,
        full=2.2,
        ebb=0.7,
    ),
}


def _iterate_events(trace: Trace, seed: int, events: int) -> Iterator[tuple[int, int | None]]:
    """Yield number and flavor of each arrival, and number and None of each departure.

    The load, the sum of the scarcest share of all instances, rises to ``full`` and falls to
    ``ebb``. Lifetimes are log-normal, so a few instances outlive thousands of others.
    """
    random, total, alive = Random(seed), Amounts(), list[tuple[float, int, float]]()
    for host in trace.hosts():
        total += host.free
    needs, shares = [need for _, need in trace.requests()], [share for _, share in trace.sizes]
    loads = [max(need[name] / total[name] for name in +need) for need in needs]
    load, clock, turn = 0.0, 0.0, events * FILLING
    for event in range(events):
        rest = (event - turn) / (events - turn)
        full, ebb = trace.full, trace.ebb
        target = full * event / turn if event < turn else full + (ebb - full) * rest
        if not alive or random.random() < 0.5 + 10 * (target - load):
            clock += 1
            (kind,) = random.choices(range(len(loads)), shares)
            end = clock + random.lognormvariate(6, trace.deviation)
            heappush(alive, (end, event, loads[kind]))
            load += loads[kind]
            yield event, kind
        else:
            _, number, gone = heappop(alive)
            load -= gone
            yield number, None


def _run(trace: Trace, seed: int, settings: Settings, events: int) -> tuple[int, int, int]:
    plugins, hosts, requests = plugins_for(settings), trace.hosts(), trace.requests()
    differing = [each for each in plugins.weighers if type(each).__name__ in WEIGHERS]
    plugins = replace(plugins, weighers=tuple(differing))
    placed: dict[int, Callable[[], None]] = {}
    refused = until_refusal = 0
    for number, kind in _iterate_events(trace, seed, events):
        if kind is None:
            placed.pop(number, lambda: None)()
            continue
        host = _choose(plugins, hosts, requests[kind])
        if host is None:
            refused += 1
            continue
        until_refusal += not refused
        placed[number] = host.place(*requests[kind])
    return until_refusal, refused, sum(not host.state.num_instances for host in hosts)


def _choose(plugins: Plugins, hosts: Sequence[Host], request: Request) -> Host | None:
    """Return the best host for an instance, or None."""
    (spec, demand), fitting = request, hosts
    for name, amount in (+demand).items():
        fitting = [host for host in fitting if host.free[name] >= amount]
    by_id = {id(host.state): host for host in fitting}
    if spec.numa_topology:
        new = [host for host in fitting if id(spec) not in host.verdicts]
        passed = set(map(id, run_filters(plugins.filters, [x.state for x in new], spec).hosts))
        for host in new:
            host.verdicts[id(spec)] = id(host.state) in passed
        fitting = [host for host in fitting if host.verdicts[id(spec)]]
    states = [host.state for host in fitting]
    best = run_weighers(plugins.weighers, states, spec).hosts[:1]
    return by_id[id(best[0].obj)] if best else None


def main() -> int:
    """Place the traces, and print a row for each seed and the medians."""
    parser = harness.Options(f"{__doc__} It uses no database.")
    parser.add_argument("--traces", default=",".join(TRACES))
    parser.add_sized("--seeds", ",".join(map(str, SEEDS)), "101", "seeds of the traces")
    parser.add_sized("--events", 20_000, 1_000, "arrivals and departures")
    options = parser.parse()
    base = {"filter_scheduler.enabled_filters": FILTERS, "pci.alias": [ALIAS]}
    settings = {
        name: read_settings().with_overrides({**base, MULTIPLIER: multiplier})
        for name, multiplier in (("default", 0.0), ("stranded", 10.0))
    }
    columns = [f"{name} {figure}" for figure in FIGURES for name in settings]
    for name in options.traces.split(","):
        rows: list[list[object]] = []
        for seed in map(int, options.seeds.split(",")):
            harness.report_progress(f"{name}, {seed}")
            results = [_run(TRACES[name], seed, each, options.events) for each in settings.values()]
            rows.append([seed, *(number for pair in zip(*results, strict=True) for number in pair)])
        medians = [f"{statistics.median(column):g}" for column in zip(*rows, strict=True)]
        rows.append(["median", *medians[1:]])
        table = harness.build_table(("seed", *columns), rows)
        print(harness.build_section(name, table), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
