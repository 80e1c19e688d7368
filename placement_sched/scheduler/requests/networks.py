"""What request filters need to know of networks and ports: what neutron knows of them.

It is asked before the database is, so that no transaction waits for neutron.
"""

from dataclasses import replace
from functools import cache
from typing import Protocol

from placement_sched.errors import Invalid
from placement_sched.model.request_spec import NetworkRequest, Port, RequestSpec
from placement_sched.remote.neutron import Neutron
from placement_sched.remote.service import by_options
from placement_sched.settings import Settings

_PLACE = "$.request_spec.requested_networks"


class NetworkDirectory(Protocol):
    """What knows networks; raises :class:`~placement_sched.errors.ServiceFailed`."""

    def port(self, port_id: str) -> Port | None:
        """Return a port, or None where there is none."""

    def segments_of_subnet(self, subnet_id: str) -> tuple[str, ...] | None:
        """Return the segment that a subnet is on, if any, or None where there is no subnet."""

    def segments_of_network(self, network_id: str) -> tuple[str, ...]:
        """Return the segments of a network; none where it is not routed."""


def neutron_of(settings: Settings) -> Neutron | None:
    """Return the neutron that ``[neutron]`` describes; None where it describes none.

    Raises :class:`~placement_sched.errors.ConfigurationError` where its options do not fit.
    """
    options = settings.neutron
    adapter = by_options(settings.conf, "neutron", retries=options.http_retries)
    if adapter is None:
        return None
    return Neutron(adapter, remembered=options.extension_sync_interval)


def with_facts(
    spec: RequestSpec, neutron: NetworkDirectory | None, settings: Settings
) -> RequestSpec:
    """Return the request with what the enabled request filters need to know of its networks.

    What the caller gave is not asked, and everything else once. Raises :class:`Invalid` for a
    port or subnet that is not there, and what ``neutron`` raises.
    """
    if neutron is None or spec.is_rebuild or not spec.requested_networks:
        return spec
    asking = _Asking(
        neutron, bool(settings.scheduler.query_placement_for_routed_network_aggregates)
    )
    networks = tuple(
        asking.complete(network, f"{_PLACE}[{position}]")
        for position, network in enumerate(spec.requested_networks)
    )
    return replace(spec, requested_networks=networks)


class _Asking:
    """The questions of one request, each of which is asked of neutron once.

    ``routed`` says whether segments are of interest.
    """

    def __init__(self, neutron: NetworkDirectory, routed: bool) -> None:
        self._routed = routed
        self._port = cache(neutron.port)
        self._segments_of_subnet = cache(neutron.segments_of_subnet)
        self._segments_of_network = cache(neutron.segments_of_network)

    def complete(self, network: NetworkRequest, place: str) -> NetworkRequest:
        """Return a network or port with what is of interest and was not given."""
        if network.port_id and self._lacks_port(network):
            port = self._port(network.port_id)
            if port is None:
                raise Invalid(f"neutron has no port {network.port_id}", at=f"{place}.port_id")
            network = network.with_port(port)
        if not self._routed or network.segments is not None or network.is_open:
            return network
        if network.subnet_id is None:
            named = network.named_network
            return network.reaching(self._segments_of_network(named) if named else ())
        found = self._segments_of_subnet(network.subnet_id)
        if found is None:
            raise Invalid(f"neutron has no subnet {network.subnet_id}", at=place)
        return network.reaching(found)

    def _lacks_port(self, network: NetworkRequest) -> bool:
        """Return whether the port has to be asked for: its type, or where it may be reached."""
        if network.vnic_type is None:
            return True
        if not self._routed or network.segments is not None or network.subnet_id:
            return False
        return network.subnet_ids is None or network.network_id is None
