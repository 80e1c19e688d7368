"""What filters and weighers see of a host: nova's HostState, attribute for attribute.

Unscoped extra specs are looked up here by name (ComputeCapabilitiesFilter), so there is no public
attribute that nova's HostState lacks; whatever else is needed goes on the plugin or the service.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from oslo_log import log

from placement_sched.errors import Conflict
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import ComputeNode, Metric, Service
from placement_sched.model.hardware.numa import FittedNUMACell, InstanceNUMACell
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.hardware.pci_devices import PciPools, devices_of, with_providers
from placement_sched.model.instance import HostInstance
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal

LOG = log.getLogger(__name__)


def service_view(service: Service) -> Mapping[str, Any]:
    """Return a compute service, read like nova's: ``host_state.service["disabled"]``."""
    return MappingProxyType(service._asdict())


#: The service of a host none is known of: it was never seen up.
NO_SERVICE: Mapping[str, Any] = MappingProxyType(
    {"disabled": False, "disabled_reason": None, "forced_down": False, "last_seen_up": None}
)


class _Annotated:
    """Takes the attributes that third-party plugins set on a host."""

    __slots__ = ("__dict__",)


@dataclass(slots=True, eq=False, repr=False)
class HostState(_Annotated):
    """One compute node and what is left of it; memory in MB, disk in GB or MB as named.

    ``HostState(host, node, cell_uuid)`` is an empty one, of which nothing is known. Filters may
    write ``limits`` and ``allocation_candidates``; :meth:`consume_from_request` takes away what an
    earlier instance of the same request was given.
    """

    host: str
    nodename: str
    cell_uuid: str | None = None
    uuid: str | None = None
    host_ip: str | None = None
    hypervisor_type: str | None = None
    hypervisor_version: int | None = None
    hypervisor_hostname: str | None = None
    cpu_info: str | None = None
    supported_instances: list[list[str]] | None = None
    total_usable_ram_mb: int = 0
    total_usable_disk_gb: int = 0
    disk_mb_used: int = 0
    free_ram_mb: int = 0
    free_disk_mb: int = 0
    vcpus_total: int = 0
    vcpus_used: int = 0
    pci_stats: Any = None
    numa_topology: Any = None
    num_instances: int = 0
    num_io_ops: int = 0
    failed_builds: int = 0
    cpu_allocation_ratio: float | None = None
    ram_allocation_ratio: float | None = None
    disk_allocation_ratio: float | None = None
    metrics: tuple[Metric, ...] | None = None
    stats: Mapping[str, str] = field(default_factory=dict)
    updated: datetime | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    aggregates: tuple[HostAggregate, ...] = ()
    service: Mapping[str, Any] = field(default_factory=lambda: NO_SERVICE)
    instances: MutableMapping[str, HostInstance] = field(default_factory=dict)
    _candidates: Sequence[Any] = ()

    @property
    def allocation_candidates(self) -> list[Any]:
        """Return the ways to allocate on this host, the one to be claimed first.

        Each is what ``PUT /allocations`` takes. They are made when first looked at: of a thousand
        hosts one is chosen.
        """
        if not isinstance(self._candidates, list):
            self._candidates = [request.as_json() for request in self._candidates]
        return self._candidates

    @allocation_candidates.setter
    def allocation_candidates(self, candidates: Iterable[Any]) -> None:
        self._candidates = list(candidates)

    def consume_from_request(self, spec_obj: RequestSpec) -> None:
        """Take away what one instance of this request needs, so that the next one sees less."""
        self.free_ram_mb -= spec_obj.memory_mb
        self.free_disk_mb -= (spec_obj.root_gb + spec_obj.ephemeral_gb) * 1024
        self.vcpus_used += spec_obj.vcpus
        self.num_instances += 1
        # The new instance is being built, and building is I/O.
        self.num_io_ops += 1
        numa_cells = _take_numa(self, spec_obj)
        uuid = spec_obj.instance_uuid
        if uuid is not None and spec_obj.instance_group is not None:  # as nova 34 does
            built = HostInstance.being_built(uuid, spec_obj, self.host, self.nodename)
            self.instances[uuid] = built
        take_devices(self, spec_obj, numa_cells or None)

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}"
        )


#: The attributes that follow from a node's report: those before ``limits``.
_REPORTED = HostState.__slots__[: HostState.__slots__.index("limits")]
_values_of = attrgetter(*_REPORTED)
# Takes the values of all fields in their order.
_new = cast("Callable[..., HostState]", HostState)


def make(
    node: ComputeNode,
    service: Mapping[str, Any] = NO_SERVICE,
    aggregates: tuple[HostAggregate, ...] = (),
    instances: MutableMapping[str, HostInstance] | None = None,
    ratios: Mapping[str, float] = MappingProxyType({}),
) -> HostState:
    """Return the state of ``node``; ``instances`` are those recorded on its host, by uuid.

    As in nova, a node whose free disk is unknown keeps an empty state. ``service`` is a
    :func:`service_view`; ``ratios``, by name, stand over those that the node reports. (Not a
    method: every name on the class is one that extra specs may ask for.)
    """
    values = node.derived.get("host_state")
    if values is None:
        values = node.derived["host_state"] = _values_of(_as_reported(node))
    recorded = {} if instances is None else instances
    state = _new(*values, {}, aggregates, service, recorded)
    if node.free_disk_gb is not None:
        state.pci_stats = PciPools(node.reported_pools)  # what is taken of them is the state's own
        if ratios:
            for name, ratio in ratios.items():
                setattr(state, name, ratio)
    return state


def offer(state: HostState, requests: Sequence[Any]) -> None:
    """Give a host the ways to allocate on it: what the candidates search found, or JSON of it."""
    state._candidates = requests  # noqa: SLF001 - a public method would be one of nova's


def candidates_of(state: HostState) -> Sequence[Any]:
    """Return the ways to allocate on a host, as :func:`offer` takes them."""
    return state._candidates  # noqa: SLF001 - as above


def with_candidates(states: Iterable[HostState]) -> list[HostState]:
    """Return the hosts on which there is a way to allocate, without a look at which."""
    return [state for state in states if state._candidates]  # noqa: SLF001 - as above


def _take_numa(state: HostState, spec: RequestSpec) -> Sequence[FittedNUMACell]:
    """Take NUMA nodes away, and return them as the instance has them; none where it asks for none.

    What does not fit takes nothing: the filter that would reject the host is not enabled.
    """
    if not spec.numa_topology or not state.numa_topology:
        return ()
    first: Mapping[str, Any] = next(iter(state.allocation_candidates), {})
    fitted = fit_to_host(
        state.numa_topology,
        spec.numa_topology,
        state.limits.get("numa_topology"),
        devices_of(state.pci_stats, spec.pci_requests, first.get("mappings")),
    )
    if isinstance(fitted, Refusal):
        return ()
    state.numa_topology = with_usage(state.numa_topology, fitted)
    return fitted


def take_devices(
    state: HostState, spec: RequestSpec, numa_cells: Sequence[InstanceNUMACell] | None = None
) -> None:
    """Take the PCI devices of one instance away from a host, those of its first candidate.

    ``numa_cells`` are those of the instance as they lie on the host, where that is known. Where no
    filter has seen to it that there are enough, that is logged, and what there is counts. Source:
    nova's documentation, "PCI tracking in Placement", and nova 34's scheduler observed.
    """
    if spec.pci_requests is None or not spec.pci_requests.requests or state.pci_stats is None:
        return
    candidate: Mapping[str, Any] = next(iter(state.allocation_candidates), {})
    try:
        requests, mappings = spec.pci_requests.requests, candidate.get("mappings")
        state.pci_stats.apply_requests(requests, mappings, numa_cells)
    except Conflict as lacking:
        LOG.warning("host %s was chosen without enough PCI devices: %s", state.host, lacking.detail)


def assigned(spec: RequestSpec, allocation_request: Mapping[str, Any] | None) -> RequestSpec:
    """Return the request with the providers of its devices written into it, as nova does.

    So that it is known later, with other candidates, which devices it took.
    """
    mappings = (allocation_request or {}).get("mappings")
    if spec.pci_requests is None or not mappings:
        return spec
    return replace(spec, pci_requests=with_providers(spec.pci_requests, mappings))


def _as_reported(node: ComputeNode) -> HostState:
    """Return a state with what the node's report says alone.

    All states of a node share its values, requests side by side, but for its PCI devices.
    """
    state = HostState(node.host, node.hypervisor_hostname, node.cell_uuid)
    if node.free_disk_gb is not None:
        _take_over(state, node, node.free_disk_gb)
    return state


def _take_over(state: HostState, node: ComputeNode, free_disk_gb: int) -> None:
    """Fill in what the node's report says."""
    if node.disk_available_least is not None:
        free_disk_gb = min(free_disk_gb, node.disk_available_least)
    free_ram_mb = node.free_ram_mb
    state.uuid = node.uuid
    state.host_ip = node.host_ip
    state.hypervisor_type = node.hypervisor_type
    state.hypervisor_version = node.hypervisor_version
    state.hypervisor_hostname = node.hypervisor_hostname
    state.cpu_info = node.cpu_info
    state.supported_instances = [list(specs) for specs in node.supported_hv_specs]
    state.total_usable_ram_mb = node.memory_mb
    state.total_usable_disk_gb = node.local_gb
    state.disk_mb_used = node.local_gb_used * 1024
    state.free_ram_mb = node.memory_mb - node.memory_mb_used if free_ram_mb is None else free_ram_mb
    state.free_disk_mb = free_disk_gb * 1024
    state.vcpus_total = node.vcpus
    state.vcpus_used = node.vcpus_used
    state.pci_stats = PciPools(node.reported_pools)
    state.numa_topology = None if node.numa_topology is None else node.numa_topology.topology
    state.num_instances = int(node.stats.get("num_instances", 0))
    state.num_io_ops = int(node.stats.get("io_workload", 0))
    state.failed_builds = int(node.stats.get("failed_builds", 0))
    state.cpu_allocation_ratio = node.cpu_allocation_ratio
    state.ram_allocation_ratio = node.ram_allocation_ratio
    state.disk_allocation_ratio = node.disk_allocation_ratio
    state.metrics = node.reported_metrics
    state.stats = node.stats
    state.updated = node.updated_at
