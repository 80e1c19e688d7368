"""The PCI devices that instances of a request take of a host before anything is claimed.

Source: nova's documentation, "PCI tracking in Placement", and nova 34's scheduler observed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from oslo_log import log

from placement_sched.errors import Conflict
from placement_sched.model.pci_matching import providers_of
from placement_sched.model.pci_pools import Cell
from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests
from placement_sched.model.spec import RequestSpec

LOG = log.getLogger(__name__)


class Host(Protocol):
    """What is needed of a host state."""

    host: str
    pci_stats: Any

    @property
    def allocation_candidates(self) -> list[Any]:
        """Return the ways to allocate on the host, the one to be claimed first."""


def take(host: Host, spec: RequestSpec, numa_cells: Sequence[Cell] | None = None) -> None:
    """Take the devices of one instance away from the host, those of its first candidate.

    ``numa_cells`` are those of the instance as they lie on the host, where that is known. Where no
    filter has seen to it that there are enough, that is logged, and what there is counts.
    """
    if spec.pci_requests is None or not spec.pci_requests.requests or host.pci_stats is None:
        return
    candidate = next(iter(host.allocation_candidates), None)
    mappings = candidate.get("mappings") if candidate else None
    try:
        host.pci_stats.apply_requests(spec.pci_requests.requests, mappings, numa_cells)
    except Conflict as lacking:
        LOG.warning("host %s was chosen without enough PCI devices: %s", host.host, lacking.detail)


def assigned(spec: RequestSpec, allocation_request: Mapping[str, Any] | None) -> RequestSpec:
    """Return the request with the providers of its devices written into it, as nova does.

    So that it can be told later, when other candidates are at hand, which devices it took.
    """
    mappings = (allocation_request or {}).get("mappings")
    if spec.pci_requests is None or not mappings:
        return spec
    requests = tuple(_assigned(one, mappings) for one in spec.pci_requests.requests)
    return replace(spec, pci_requests=InstancePCIRequests(requests=requests))


def _assigned(
    request: InstancePCIRequest, mappings: Mapping[str, Sequence[str]]
) -> InstancePCIRequest:
    providers = ",".join(providers_of(request, mappings).elements())
    if not providers:
        return request
    return replace(request, spec=tuple({**spec, "rp_uuids": providers} for spec in request.spec))
