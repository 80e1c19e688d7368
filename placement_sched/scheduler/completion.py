"""What nova's API makes of flavor and image before it schedules, where the request leaves it out.

A topology of NUMA cells and requests for PCI devices; with ``[filter_scheduler]
pci_in_placement`` the latter are asked of placement, a group for each device.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, TooComplex
from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests
from placement_sched.model.requested_group import RequestedGroup
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hardware.numa import numa_topology
from placement_sched.scheduler.hardware.pci import (
    Alias,
    aliases_of,
    pci_requests,
    placement_terms,
)


def completed(spec: RequestSpec, document: Mapping[str, Any], settings: Settings) -> RequestSpec:
    """Return the request with what ``document`` does not say derived from its flavor and image.

    What is said, be it null, is taken as it is. Raises :class:`Invalid` for a flavor or image that
    cannot be, or contradict each other, naming the keys.
    """
    flavor, image = spec.flavor, spec.image
    if "numa_topology" not in document:
        spec = replace(spec, numa_topology=numa_topology(flavor, image))
    in_placement = settings.filter_scheduler.pci_in_placement
    if "pci_requests" not in document:
        requests = pci_requests(flavor, image, _aliases(settings))
        spec = replace(spec, pci_requests=InstancePCIRequests(requests=requests))
    if not in_placement or spec.pci_requests is None:
        return spec
    _check_number(spec.pci_requests, settings.placement.max_request_groups)
    derived = "pci_requests" not in document
    groups = tuple(
        group
        for position, request in enumerate(spec.pci_requests.requests)
        for group in _groups(request, _source(request, position, derived=derived))
    )
    return replace(spec, requested_resources=(*spec.requested_resources, *groups))


def _source(request: InstancePCIRequest, position: int, *, derived: bool) -> str:
    """Return where a PCI request came from."""
    if derived:
        return f"flavor extra spec 'pci_passthrough:alias', [pci] alias {request.alias_name!r}"
    return f"$.request_spec.pci_requests.requests[{position}]"


def check_aliases(settings: Settings) -> None:
    """Raise :class:`~placement_sched.errors.ConfigurationError` where ``[pci] alias`` cannot be."""
    _aliases(settings)


def _aliases(settings: Settings) -> Mapping[str, Alias]:
    texts, in_placement = settings.pci.alias, settings.filter_scheduler.pci_in_placement
    return _read_aliases(tuple(texts), in_placement=in_placement)


@lru_cache
def _read_aliases(texts: tuple[str, ...], *, in_placement: bool) -> Mapping[str, Alias]:
    return aliases_of(texts, in_placement=in_placement)


def _check_number(requests: InstancePCIRequests, most: int) -> None:
    number = sum(request.count for request in requests.requests)
    if number > most:
        raise TooComplex(
            f"{number} PCI devices are asked for, each of which is a request group, where "
            f"[placement] max_request_groups allows {most}."
        )


def _groups(request: InstancePCIRequest, source: str) -> Iterator[RequestedGroup]:
    """Yield a group for each device, for which any provider of the tree will do.

    Devices of neutron's ports are none of placement's, as in nova.
    """
    if request.alias_name is None:
        return
    if len(request.spec) != 1:
        raise Invalid(
            f"[filter_scheduler] pci_in_placement takes one spec for a request, not "
            f"{len(request.spec)} (at {source}.spec)"
        )
    try:
        resource_class, traits = placement_terms(request)
    except Invalid as wrong:
        raise Invalid(f"{wrong.detail} (at {source})") from None
    for number in range(request.count):
        yield RequestedGroup(
            requester_id=f"{request.request_id}-{number}",
            resources={resource_class: 1},
            required_traits=frozenset(traits),
            source=source,
        )
