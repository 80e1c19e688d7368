"""Forgets instances that are no more, and frees what they hold."""

from placement_sched.db.connection import Connection
from placement_sched.errors import NotFound
from placement_sched.store import allocations, instances


def remove(connection: Connection, uuid: str) -> None:
    """Delete the record of an instance and its allocations; raises :class:`NotFound`."""
    if not instances.remove(connection, [uuid]):
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    allocations.remove(connection, [uuid])
