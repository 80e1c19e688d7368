"""What operators may do to services, and what it does to the hosts' root providers.

Each function works within the caller's transaction and locks services first, as whoever records a
report does, so that no report slips between. The rules are nova's (compute API reference, "Compute
services"): an enabled service has no reason, only a host without instances loses its service.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Conflict, Invalid, NotFound
from placement_sched.model.service import COMPUTE_BINARY, Service
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.store import (
    change_counters,
    compute_nodes,
    host_aggregates,
    provider_trees,
    services,
    traits,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to become of a service; None leaves it as it is. The reason is why it is disabled."""

    disabled: bool | None = None
    reason: str | None = None
    forced_down: bool | None = None


def disable(
    connection: Connection,
    hosts: Collection[str],
    reason: str | None,
    now: datetime,
    *,
    binary: str = COMPUTE_BINARY,
) -> tuple[Service, ...]:
    """Disable the services of hosts; of compute services, mark the root providers so.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts, binary)
    _bar(connection, found, Change(disabled=True, reason=reason), now)
    return _now(connection, hosts, binary)


def enable(
    connection: Connection, hosts: Collection[str], now: datetime, *, binary: str = COMPUTE_BINARY
) -> tuple[Service, ...]:
    """Enable the services of hosts; of compute services, take the mark off the root providers.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts, binary)
    _bar(connection, found, Change(disabled=False), now)
    return _now(connection, hosts, binary)


def force_down(
    connection: Connection,
    hosts: Collection[str],
    *,
    forced_down: bool,
    binary: str = COMPUTE_BINARY,
) -> tuple[Service, ...]:
    """Make the services of hosts count as down whatever they report, or no longer.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts, binary)
    services.set_forced_down(connection, _ids(found), forced_down=forced_down)
    return _now(connection, hosts, binary)


def update(connection: Connection, uuid: str, change: Change, now: datetime) -> Service:
    """Change the compute service of a uuid, and return it as it is then.

    Raises :class:`NotFound`, and :class:`Invalid` where it is another than a compute service.
    """
    service = services.get(connection, uuid, lock=True)
    if not service.is_compute:
        raise Invalid(
            f"Updating a {service.binary} service is not supported. "
            "Only nova-compute services can be updated."
        )
    if change.disabled is not None:
        _bar(connection, [service], change, now)
    if change.forced_down is not None:
        services.set_forced_down(connection, [service.id], forced_down=change.forced_down)
    return services.get(connection, uuid)


def delete(connection: Connection, key: int | str) -> None:
    """Delete the service of a number (int) or uuid (str).

    With a compute service go its host's compute nodes and their whole provider trees, and the host
    leaves its aggregates. Raises :class:`NotFound`, :class:`Conflict` while the host has instances
    and :class:`InUse` while anybody has allocations of its providers.
    """
    service = services.get(connection, key, lock=True)
    if service.is_compute:
        _remove_host(connection, service.host)
    services.remove(connection, [service.id])


def _remove_host(connection: Connection, host: str) -> None:
    if host_aggregates.hosts_with_instances(connection, [host]):
        raise Conflict(
            "Unable to delete compute service that is hosting instances. "
            f"Migrate or delete the instances of {host} first."
        )
    nodes = compute_nodes.remove_of_host(connection, host)
    change_counters.bump(connection, host_aggregates.SUBJECT)
    host_aggregates.remove_host_everywhere(connection, host)
    provider_trees.remove_whole(connection, nodes)


def _locked(connection: Connection, hosts: Collection[str], binary: str) -> Collection[Service]:
    """Return the services of this binary of hosts, locked so that no report slips between."""
    found = services.by_hosts(connection, hosts, binary=binary, lock=True)
    if missing := sorted(set(hosts) - found.keys()):
        raise NotFound(
            f"Could not find binary {binary} on host {missing[0]}.", code="scheduler.not_found"
        )
    return found.values()


def _bar(connection: Connection, found: Collection[Service], change: Change, now: datetime) -> None:
    """Disable or enable services that the caller has locked, and mark or unmark their hosts."""
    disabled = bool(change.disabled)
    services.set_disabled(connection, _ids(found), disabled=disabled, reason=change.reason)
    hosts = [service.host for service in found if service.is_compute]
    providers = host_aggregates.provider_ids_of_hosts(connection, hosts)
    mark = traits.put_on if disabled else traits.take_off
    mark(connection, DISABLED_TRAIT, providers, now)


def _now(connection: Connection, hosts: Collection[str], binary: str) -> tuple[Service, ...]:
    found = services.by_hosts(connection, hosts, binary=binary)
    return tuple(found[host] for host in sorted(found))


def _ids(found: Collection[Service]) -> list[int]:
    return [service.id for service in found]
