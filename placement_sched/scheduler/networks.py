"""What request filters need to know of networks and ports: what neutron tells of them.

It is asked before the database is: nobody waits for neutron inside a transaction.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.model.network_request import NetworkRequest, Port
from placement_sched.model.spec import RequestSpec
from placement_sched.remote.access import by_options
from placement_sched.remote.neutron import Neutron

_PLACE = "$.request_spec.requested_networks"


class NetworkDirectory(Protocol):
    """Who tells of networks; raises :class:`~placement_sched.errors.ServiceFailed`."""

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

    What the caller told is not asked, and everything else once. Raises :class:`Invalid` for a
    port or subnet that is not there, and what ``neutron`` raises.
    """
    if neutron is None or spec.is_rebuild or not spec.requested_networks:
        return spec
    asking = _Asking(
        routed=bool(settings.scheduler.query_placement_for_routed_network_aggregates),
        port=cache(neutron.port),
        segments_of_subnet=cache(neutron.segments_of_subnet),
        segments_of_network=cache(neutron.segments_of_network),
    )
    networks = tuple(
        asking.complete(network, f"{_PLACE}[{position}]")
        for position, network in enumerate(spec.requested_networks)
    )
    return replace(spec, requested_networks=networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """The questions of one request, each of which is asked of neutron once.

    ``routed`` says whether segments are of interest.
    """

    routed: bool
    port: Callable[[str], Port | None]
    segments_of_subnet: Callable[[str], tuple[str, ...] | None]
    segments_of_network: Callable[[str], tuple[str, ...]]

    def complete(self, network: NetworkRequest, place: str) -> NetworkRequest:
        """Return a network or port with what is of interest and was not told."""
        if network.port_id and self._lacks_port(network):
            port = self.port(network.port_id)
            if port is None:
                raise Invalid(f"neutron has no port {network.port_id} (at {place}.port_id)")
            network = network.told(port)
        if not self.routed or network.segments is not None or network.is_open:
            return network
        return network.reaching(self._segments(network, place))

    def _lacks_port(self, network: NetworkRequest) -> bool:
        """Return whether the port has to be asked for: its type, or where it may be reached."""
        if network.vnic_type is None:
            return True
        if not self.routed or network.segments is not None or network.subnet_id:
            return False
        return network.subnet_ids is None or network.network_id is None

    def _segments(self, network: NetworkRequest, place: str) -> tuple[str, ...]:
        """Return the segment of the port's subnet, else those of the network."""
        if network.subnet_id is None:
            return self.segments_of_network(network.named_network) if network.named_network else ()
        found = self.segments_of_subnet(network.subnet_id)
        if found is None:
            raise Invalid(f"neutron has no subnet {network.subnet_id} (at {place})")
        return found
