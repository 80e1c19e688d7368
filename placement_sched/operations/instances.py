"""Records instances, and forgets those that are no more, which frees what they hold."""

from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import NotFound
from placement_sched.model.instance import Instance
from placement_sched.store import allocations, instances, server_groups


def record(connection: Connection, instance: Instance, now: datetime) -> Instance:
    """Record an instance as it is now, a member of the server group it names, and return it.

    Raises :class:`Invalid` where there is no such group.
    """
    if instance.server_group is not None:
        server_groups.join(connection, instance.server_group, "$.server_group")
    instances.record(connection, [instance], now)
    return instances.by_uuid(connection, instance.uuid)


def remove(connection: Connection, uuid: str) -> None:
    """Delete the record of an instance and its allocations; raises :class:`NotFound`."""
    if not instances.remove(connection, [uuid]):
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    allocations.remove(connection, [uuid])
