"""Instances and server groups in the caller's transaction, as in nova's compute API reference."""

from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.aggregates import ANTI_AFFINITY, ServerGroup
from placement_sched.model.instance import Instance
from placement_sched.store.compute import instances, server_groups
from placement_sched.store.placement import allocations


def record(connection: Connection, instance: Instance, now: datetime) -> Instance:
    """Record an instance as it is now, and return it; raises :class:`Invalid` for its group."""
    if instance.server_group is not None:
        server_groups.join(connection, instance.server_group, [instance.uuid], "$.server_group")
    instances.record(connection, [instance], now)
    return instances.by_uuid(connection, instance.uuid)


def remove(connection: Connection, uuid: str) -> None:
    """Delete the record of an instance and its allocations; raises :class:`NotFound`."""
    if not instances.remove(connection, [uuid]):
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    allocations.remove(connection, [uuid])


def get_group(connection: Connection, uuid: str) -> ServerGroup:
    """Return a group with its members and their hosts; raises :class:`NotFound`."""
    found = server_groups.by_uuid(connection, uuid)
    if found is None:
        raise NotFound(f"Instance group {uuid} could not be found.")
    return server_groups.placed(connection, found)


def create_group(connection: Connection, group: ServerGroup, now: datetime) -> None:
    """Keep a new group; several may have the same name. Raises :class:`Invalid` for its rules."""
    if group.rules and group.policy != ANTI_AFFINITY:
        raise Invalid("Only anti-affinity policy supports rules. (at $.server_group.rules)")
    server_groups.put(connection, [group], now)


def delete_group(connection: Connection, uuid: str) -> None:
    """Delete a group; its members live on in none. Raises :class:`NotFound`."""
    if not server_groups.lock(connection, uuid):
        raise NotFound(f"Instance group {uuid} could not be found.")
    server_groups.remove(connection, uuid)
