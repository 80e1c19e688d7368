# SPDX-License-Identifier: Apache-2.0
"""Changes of services, instances and server groups.

The functions run within the caller's transaction. Functions that change a service lock it first.
The rules for services are nova's (compute API reference, "Compute services"): an enabled service
has no disabled reason, and the service of a host with instances cannot be deleted.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, InUse, Invalid, NotFound
from placement_sched.model.aggregates import ANTI_AFFINITY, ServerGroup
from placement_sched.model.compute_node import Service
from placement_sched.model.instance import Instance
from placement_sched.operations.reports import DISABLED_TRAIT
from placement_sched.store import change_counters, checks
from placement_sched.store.compute import (
    compute_nodes,
    ended_instances,
    host_aggregates,
    instances,
    server_groups,
    services,
)
from placement_sched.store.placement import allocations, resource_providers, traits

#: Maximum number of consumers that an error names.
MAX_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChange:
    """A change of a service, with None for unchanged values."""

    disabled: bool | None = None
    reason: str | None = None
    forced_down: bool | None = None


def update(connection: Connection, uuid: str, change: ServiceChange, now: datetime) -> Service:
    """Change a compute service, or raise NotFound or :class:`Invalid`."""
    service = services.get(connection, uuid, lock=True)
    if not service.is_compute:
        raise Invalid(
            f"Updating a {service.binary} service is not supported. "
            "Only nova-compute services can be updated."
        )
    _change(connection, service, change, now)
    return services.get(connection, uuid)


def update_by_name(
    connection: Connection, host: str, binary: str, change: ServiceChange, now: datetime
) -> None:
    """Change the service of a host and binary, or raise :class:`NotFound`."""
    service = services.map_by_host(connection, [host], binary=binary, lock=True).get(host)
    if service is None:
        problem = f"Could not find binary {binary} on host {host}."
        raise NotFound(problem, code="scheduler.not_found")
    _change(connection, service, change, now)


def delete(connection: Connection, key: int | str) -> None:
    """Delete a service by id (int) or uuid (str).

    A compute service is deleted with the compute nodes and provider trees of its host, and the host
    is removed from its aggregates. Raises :class:`NotFound`, :class:`Conflict` if the host has
    instances, and :class:`InUse` if its providers have allocations.
    """
    service = services.get(connection, key, lock=True)
    if service.is_compute:
        host = service.host
        if host_aggregates.find_hosts_with_instances(connection, [host]):
            raise Conflict(
                "Unable to delete compute service that is hosting instances. "
                f"Migrate or delete the instances of {host} first."
            )
        nodes = compute_nodes.remove_of_host(connection, host)
        change_counters.bump(connection, host_aggregates.SUBJECT)
        host_aggregates.remove_host_everywhere(connection, host)
        try:
            resource_providers.remove_whole(connection, nodes)
        except InUse as in_use:
            raise _describe_use(connection, nodes, in_use) from None
    services.remove(connection, [service.id])


def _describe_use(connection: Connection, nodes: Collection[str], in_use: InUse) -> InUse:
    uuids = checks.list_consumers_in_trees(connection, nodes)
    hosts = {row.uuid: row.host for row in instances.list_by_uuids(connection, uuids[:MAX_NAMED])}
    named = [
        f"instance {uuid} is on {hosts[uuid]} now"
        if uuid in hosts
        else f"consumer {uuid} is not a recorded instance"
        for uuid in uuids[:MAX_NAMED]
    ]
    more = len(uuids) - len(named)
    words = "; ".join(named) + (f"; and {more} more" if more else "")
    remove = "openstack resource provider allocation unset --provider PROVIDER CONSUMER"
    return InUse(
        f"{in_use.detail} Consumers with allocations on this host: {words}. placement-sched "
        "placement audit --delete deletes the allocations that instances left on a host that is "
        f"down. {remove} deletes the allocations of any consumer.",
        code=in_use.code,
    )


def _change(connection: Connection, service: Service, change: ServiceChange, now: datetime) -> None:
    if change.forced_down is not None:
        services.set_forced_down(connection, [service.id], forced_down=change.forced_down)
    if change.disabled is None:
        return
    disabled = change.disabled
    services.set_disabled(connection, [service.id], disabled=disabled, reason=change.reason)
    if service.is_compute:
        providers = host_aggregates.find_provider_ids(connection, [service.host])
        mark = traits.add_to_providers if disabled else traits.remove_from_providers
        mark(connection, DISABLED_TRAIT, providers, now)


def record(connection: Connection, instance: Instance, now: datetime) -> Instance:
    """Record an instance, or raise Invalid if it cannot join its group."""
    if instance.server_group is not None:
        server_groups.lock_existing(connection, instance.server_group, "$.server_group")
    instances.record(connection, [instance], now)
    return instances.get_by_uuid(connection, instance.uuid)


def remove(connection: Connection, uuid: str, now: datetime) -> None:
    """Delete an instance and its allocations, or raise :class:`NotFound`."""
    ended_instances.record(connection, [uuid], now)
    if not instances.remove(connection, [uuid]):
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    allocations.remove(connection, [uuid])


def get_group(connection: Connection, uuid: str) -> ServerGroup:
    """Return a group with members and hosts, or raise :class:`NotFound`."""
    group = server_groups.find_by_uuid(connection, uuid)
    if group is None:
        raise NotFound(f"Instance group {uuid} could not be found.")
    return server_groups.with_members(connection, group)


def create_group(connection: Connection, group: ServerGroup, now: datetime) -> None:
    """Store a group, or raise Invalid for rules that its policy lacks."""
    if group.rules and group.policy != ANTI_AFFINITY:
        raise Invalid("Only anti-affinity policy supports rules. (at $.server_group.rules)")
    server_groups.put(connection, [group], now)


def delete_group(connection: Connection, uuid: str) -> None:
    """Delete a group, but not its members, or raise :class:`NotFound`."""
    if not server_groups.lock(connection, uuid):
        raise NotFound(f"Instance group {uuid} could not be found.")
    server_groups.remove(connection, uuid)
