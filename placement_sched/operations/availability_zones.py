"""Availability zones, as the services of hosts make them (nova's rules).

A zone is there because some host is in it: by an aggregate that is a zone, else in the default
one. Services other than ``nova-compute`` are in a zone of their own, which users do not see.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.model.service import Service
from placement_sched.store import host_aggregates, services


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone; it is available where any of its services is enabled, whether up or not.

    ``services`` are those that are enabled, by host, then binary; ``internal`` tells whether the
    zone is that of services without instances.
    """

    name: str
    internal: bool
    services: tuple[Service, ...]

    @property
    def is_available(self) -> bool:
        """Return whether instances may be asked for there."""
        return bool(self.services)


def every(connection: Connection, settings: Settings) -> tuple[Zone, ...]:
    """Return all zones, the available ones first, each kind by name; in two statements."""
    found = services.search(connection)
    named = of_services(connection, found, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    members: dict[str, list[Service]] = defaultdict(list)
    for service in found:
        members[named[service.id]].append(service)
    zones = [
        Zone(name=name, internal=name == internal, services=_enabled(some))
        for name, some in members.items()
    ]
    return tuple(sorted(zones, key=lambda zone: (not zone.is_available, zone.name)))


def of_services(
    connection: Connection, found: Collection[Service], settings: Settings
) -> dict[int, str]:
    """Return the zones of services, by the number of the service; in one statement.

    That of a compute service is its host's; that of any other is ``[DEFAULT]
    internal_service_availability_zone``.
    """
    hosts = {service.host for service in found if service.is_compute}
    named = of_hosts(connection, hosts, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    return {
        service.id: named[service.host] if service.is_compute else internal for service in found
    }


def of_hosts(connection: Connection, hosts: set[str], settings: Settings) -> dict[str, str]:
    """Return the zone of each of these hosts, ``[DEFAULT] default_availability_zone`` of the rest.

    Of a host in several, which no operation here allows, their names in order, joined by commas.
    """
    zones = host_aggregates.zones_of_hosts(connection, hosts)
    default = settings.DEFAULT.default_availability_zone
    return {
        host: ",".join(sorted(set(zones[host].values()))) if host in zones else default
        for host in hosts
    }


def _enabled(some: Sequence[Service]) -> tuple[Service, ...]:
    enabled = [service for service in some if not service.disabled]
    return tuple(sorted(enabled, key=lambda service: (service.host, service.binary)))
