# SPDX-License-Identifier: Apache-2.0
"""Host states, with the attributes of nova's HostState.

Unscoped extra specs name these attributes (ComputeCapabilitiesFilter), so a host state must have no
public attribute that nova's HostState lacks. Other data must be in private attributes.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from oslo_log import log

from placement_sched.errors import NotExamined
from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.compute_node import COMPUTE_BINARY, ComputeNode, Metric, Service
from placement_sched.model.hardware.numa import FittedNUMACell, InstanceNUMACell
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.hardware.pci_devices import (
    PciPools,
    TooFewDevices,
    build_devices,
    with_providers,
)
from placement_sched.model.instance import HostInstance
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec

LOG = log.getLogger(__name__)


def build_service_view(service: Service) -> Mapping[str, Any]:
    """Return a compute service as the mapping ``host_state.service``."""
    version = OLDEST_SERVICE_VERSION if service.version is None else service.version
    return MappingProxyType({**_UNRECORDED, **service._asdict(), "version": version})


#: The service version of nova 27 to 29 (Antelope to Caracal), the oldest nova that is supported.
#: Hosts without a recorded version have it. Source: the history of versions that nova publishes.
OLDEST_SERVICE_VERSION = 66
#: The keys of nova's services that are not recorded.
_UNRECORDED: Mapping[str, Any] = {
    "topic": "compute",
    "report_count": 0,
    "deleted_at": None,
    "deleted": False,
}
#: The service of a host without a recorded compute service: enabled, but never up.
NO_SERVICE: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(Service._fields),
        **_UNRECORDED,
        "binary": COMPUTE_BINARY,
        "disabled": False,
        "forced_down": False,
        "version": OLDEST_SERVICE_VERSION,
    }
)


#: Functions that return further attributes of a host for third-party plugins.
_HOST_ATTRIBUTES: list[Callable[[Any, frozenset[str]], Mapping[str, Any]]] = []


def set_host_attributes(
    functions: Iterable[Callable[[Any, frozenset[str]], Mapping[str, Any]]],
) -> None:
    """Set the functions from a host and its traits to further attributes."""
    _HOST_ATTRIBUTES[:] = functions


def has_host_attributes() -> bool:
    """Return whether functions for further attributes of hosts are set."""
    return bool(_HOST_ATTRIBUTES)


#: The attributes that are unset if a field of the report is unknown, with that field.
UNKNOWN_ATTRIBUTES: Mapping[str, str] = {
    "metrics": "metrics",
    "numa_topology": "numa_topology",
    "pci_stats": "pci_device_pools",
    "supported_instances": "supported_hv_specs",
    **dict.fromkeys(("stats", "num_io_ops", "failed_builds"), "stats"),
}


class _Annotated:
    """Storage for attributes that third-party plugins set or read on a host."""

    __slots__ = ("__dict__",)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that a function of a third-party package adds.

        These functions (entry points ``placement_sched.host_attributes``) are called at most once
        for each host, when a plugin first reads an attribute that nova's HostState lacks. Raises
        :class:`NotExamined` for an attribute whose value is unknown.
        """
        if name in UNKNOWN_ATTRIBUTES:
            raise NotExamined(UNKNOWN_ATTRIBUTES[name])
        if not name.startswith("_") and _HOST_ATTRIBUTES and "_is_complete" not in self.__dict__:
            self.__dict__["_is_complete"] = True
            read_traits = self.__dict__.get("_read_traits", dict)
            traits = read_traits().get(str(self.uuid), frozenset())
            for read_attributes in _HOST_ATTRIBUTES:
                self.__dict__ = {**read_attributes(self, traits), **self.__dict__}
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"'HostState' object has no attribute {name!r}")


@dataclass(slots=True, eq=False, repr=False)
class HostState(_Annotated):
    """A compute node and its remaining resources.

    Memory is in MB. Disk is in GB or MB, as the names of the attributes show. ``HostState(host,
    node, cell_uuid)`` has no resources. Filters may write ``limits`` and ``allocation_candidates``.
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
    #: Allocation requests as a tuple, or their JSON as a list.
    _candidates: tuple[AllocationRequest, ...] | list[Any] = ()
    _traits: frozenset[str] = frozenset()

    @property
    def allocation_candidates(self) -> list[Any]:
        """Return the allocation requests on this host, as placement's JSON.

        The first is claimed. The JSON is built when a filter reads it, and may be changed in place.
        """
        if not isinstance(self._candidates, list):
            self._candidates = [request.as_json() for request in self._candidates]
        return self._candidates

    @allocation_candidates.setter
    def allocation_candidates(self, candidates: Iterable[Any]) -> None:
        self._candidates = list(candidates)

    def consume_from_request(self, spec_obj: RequestSpec) -> None:
        """Subtract the resources of an instance from the remaining resources."""
        self.free_ram_mb -= spec_obj.memory_mb
        self.free_disk_mb -= (spec_obj.root_gb + spec_obj.ephemeral_gb) * 1024
        self.vcpus_used += spec_obj.vcpus
        self.num_instances += 1
        # The new instance is being built, and building is I/O.
        with suppress(NotExamined):
            self.num_io_ops += 1
        numa_cells = _consume_numa(self, spec_obj)
        uuid = spec_obj.instance_uuid
        if uuid is not None and spec_obj.instance_group is not None:  # as nova 34 does
            built = HostInstance.from_request_spec(uuid, spec_obj, self.host, self.nodename)
            self.instances[uuid] = built
        take_devices(self, spec_obj, numa_cells or None)

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {get_known(self, 'num_io_ops')} instances: {self.num_instances}"
        )


#: The attributes that derive from the report of a node.
_REPORTED = HostState.__slots__[: HostState.__slots__.index("limits")]
_values_of = attrgetter(*_REPORTED)
# A constructor with the values of all fields in their order.
_create = cast("Callable[..., HostState]", HostState)


def make_host_state(
    node: ComputeNode,
    service: Mapping[str, Any] = NO_SERVICE,
    aggregates: tuple[HostAggregate, ...] = (),
    instances: MutableMapping[str, HostInstance] | None = None,
    ratios: Mapping[str, float] = MappingProxyType({}),
) -> HostState:
    """Build the state of ``node``, with the instances on its host by uuid.

    As in nova, the state of a node that does not report its free disk has no resources. ``service``
    is a :func:`build_service_view`. ``ratios``, such as ``cpu_allocation_ratio``, replace ratios of
    the node. This is no method of HostState, because extra specs name attributes of host states.
    """
    values = node.derived.get("host_state")
    if values is None:
        values = node.derived["host_state"] = _values_of(_from_report(node))
    recorded = {} if instances is None else instances
    state = _create(*values, {}, aggregates, service, recorded)
    if node.free_disk_gb is not None:
        state.pci_stats = PciPools(node.reported_pools)  # each state consumes its own pools
        if ratios:
            for name, ratio in ratios.items():
                setattr(state, name, ratio)
    for name, field_name in UNKNOWN_ATTRIBUTES.items() if node.unknown else ():
        if field_name in node.unknown:
            delattr(state, name)  # a reader gets NotExamined
    return state


def get_known(state: HostState, name: str) -> Any:
    """Return an attribute of a host state, or None if its value is unknown."""
    try:
        return getattr(state, name)
    except NotExamined:
        return None


def set_candidates(state: HostState, requests: Sequence[AllocationRequest]) -> None:
    """Set the allocation requests on a host."""
    state._candidates = tuple(requests)  # noqa: SLF001 - nova's HostState has no such method


def get_candidates(state: HostState) -> Sequence[AllocationRequest]:
    """Return the allocation requests on a host.

    If a filter has read their JSON, which it may have changed, they are read from it.
    """
    candidates = state._candidates  # noqa: SLF001 - as above
    if isinstance(candidates, tuple):
        return candidates
    return [AllocationRequest.from_json(each, state.uuid or "") for each in candidates]


def set_trait_reader(
    state: HostState, read_traits: Callable[[], Mapping[str, frozenset[str]]]
) -> None:
    """Set the function that maps the uuids of nodes to all their traits."""
    state.__dict__["_read_traits"] = read_traits


def set_traits(state: HostState, traits: frozenset[str]) -> None:
    """Set the preferred and avoided traits of the request that a host has."""
    state._traits = traits  # noqa: SLF001 - as above


def get_traits(state: HostState) -> frozenset[str]:
    """Return the traits that :func:`set_traits` has set."""
    return state._traits  # noqa: SLF001 - as above


def with_candidates(states: Iterable[HostState]) -> list[HostState]:
    """Return the hosts with candidates, without converting candidates."""
    return [state for state in states if state._candidates]  # noqa: SLF001 - as above


def _consume_numa(state: HostState, spec: RequestSpec) -> Sequence[FittedNUMACell]:
    """Consume NUMA cells if they fit, and return the fitted instance cells."""
    if not spec.numa_topology or not (topology := get_known(state, "numa_topology")):
        return ()
    first = next(iter(get_candidates(state)), None)
    fitted = fit_to_host(
        topology,
        spec.numa_topology,
        state.limits.get("numa_topology"),
        build_devices(get_known(state, "pci_stats"), spec.pci_requests, first and first.mappings),
    )
    if isinstance(fitted, Rejection):
        return ()
    state.numa_topology = with_usage(topology, fitted)
    return fitted


def take_devices(
    state: HostState, spec: RequestSpec, numa_cells: Sequence[InstanceNUMACell] | None = None
) -> None:
    """Consume the PCI devices of the first candidate of an instance on a host.

    ``numa_cells`` are the instance's cells as fitted, None without a topology. If devices are
    missing because no filter checks them, a warning is logged, and the available devices are
    consumed. Source: nova's documentation, "PCI tracking in Placement", and nova 34's behaviour.
    """
    if spec.pci_requests is None or not spec.pci_requests.requests:
        return
    if (pools := get_known(state, "pci_stats")) is None:
        return
    candidate = next(iter(get_candidates(state)), None)
    try:
        requests, mappings = spec.pci_requests.requests, candidate and candidate.mappings
        pools.apply_requests(requests, mappings, numa_cells)
    except TooFewDevices as error:
        reason = describe_rejection(error.rejection)
        LOG.warning("Host %s has too few PCI devices: %s", state.host, reason)


def with_device_providers(
    spec: RequestSpec, allocation_request: AllocationRequest | None
) -> RequestSpec:
    """Return the request with the providers of its PCI devices, as in nova.

    The devices can then be found again after the candidates of the host have changed.
    """
    if spec.pci_requests is None or allocation_request is None or not allocation_request.mappings:
        return spec
    pci_requests = with_providers(spec.pci_requests, allocation_request.mappings)
    return replace(spec, pci_requests=pci_requests)


def _from_report(node: ComputeNode) -> HostState:
    """Build the state that all states of a report share, except PCI devices."""
    if node.free_disk_gb is None:
        return HostState(node.host, node.hypervisor_hostname, node.cell_uuid)
    least, free_ram_mb = node.disk_available_least, node.free_ram_mb
    free_disk_gb = node.free_disk_gb if least is None else min(node.free_disk_gb, least)
    return HostState(
        node.host,
        node.hypervisor_hostname,
        node.cell_uuid,
        uuid=node.uuid,
        host_ip=node.host_ip,
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        hypervisor_hostname=node.hypervisor_hostname,
        cpu_info=node.cpu_info,
        supported_instances=[list(specs) for specs in node.supported_hv_specs],
        total_usable_ram_mb=node.memory_mb,
        total_usable_disk_gb=node.local_gb,
        disk_mb_used=node.local_gb_used * 1024,
        free_ram_mb=node.memory_mb - node.memory_mb_used if free_ram_mb is None else free_ram_mb,
        free_disk_mb=free_disk_gb * 1024,
        vcpus_total=node.vcpus,
        vcpus_used=node.vcpus_used,
        pci_stats=PciPools(node.reported_pools),
        numa_topology=None if node.numa_topology is None else node.numa_topology.topology,
        num_instances=int(node.stats.get("num_instances", 0)),
        num_io_ops=int(node.stats.get("io_workload", 0)),
        failed_builds=int(node.stats.get("failed_builds", 0)),
        cpu_allocation_ratio=node.cpu_allocation_ratio,
        ram_allocation_ratio=node.ram_allocation_ratio,
        disk_allocation_ratio=node.disk_allocation_ratio,
        metrics=node.reported_metrics,
        stats=node.stats,
        updated=node.updated_at,
    )
