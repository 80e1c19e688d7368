"""What operators may do to compute services, and what it does to the hosts' root providers."""

from collections.abc import Collection
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import NotFound
from placement_sched.model.service import Service
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.store import host_aggregates, services, traits


def disable(
    connection: Connection, hosts: Collection[str], reason: str | None, now: datetime
) -> tuple[Service, ...]:
    """Disable the compute services of hosts, and mark their root providers so.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts)
    services.set_disabled(connection, _ids(found), disabled=True, reason=reason)
    providers = host_aggregates.provider_ids_of_hosts(connection, hosts)
    traits.put_on(connection, DISABLED_TRAIT, providers, now)
    return _now(connection, hosts)


def enable(connection: Connection, hosts: Collection[str], now: datetime) -> tuple[Service, ...]:
    """Enable the compute services of hosts, and take the mark off their root providers.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts)
    services.set_disabled(connection, _ids(found), disabled=False, reason=None)
    providers = host_aggregates.provider_ids_of_hosts(connection, hosts)
    traits.take_off(connection, DISABLED_TRAIT, providers, now)
    return _now(connection, hosts)


def force_down(
    connection: Connection, hosts: Collection[str], *, forced_down: bool
) -> tuple[Service, ...]:
    """Make the compute services of hosts count as down whatever they report, or no longer.

    Returns the services as they are then; raises :class:`NotFound` where a host has none.
    """
    found = _locked(connection, hosts)
    services.set_forced_down(connection, _ids(found), forced_down=forced_down)
    return _now(connection, hosts)


def _locked(connection: Connection, hosts: Collection[str]) -> Collection[Service]:
    """Return the hosts' compute services, locked so that no report of theirs slips between."""
    found = services.by_hosts(connection, hosts, lock=True)
    if missing := sorted(set(hosts) - found.keys()):
        raise NotFound(
            f"Compute host {missing[0]} could not be found: it has no nova-compute service.",
            code="scheduler.not_found",
        )
    return found.values()


def _now(connection: Connection, hosts: Collection[str]) -> tuple[Service, ...]:
    found = services.by_hosts(connection, hosts)
    return tuple(found[host] for host in sorted(found))


def _ids(found: Collection[Service]) -> list[int]:
    return [service.id for service in found]
