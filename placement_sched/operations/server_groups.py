"""What may be done with server groups, within the caller's transaction.

The rules are nova's (compute API reference, "Server groups").
"""

from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.server_group import ANTI_AFFINITY, ServerGroup
from placement_sched.store import server_groups as store


def get(connection: Connection, uuid: str) -> ServerGroup:
    """Return a group with its members and their hosts; raises :class:`NotFound`."""
    found = store.by_uuid(connection, uuid)
    if found is None:
        raise NotFound(f"Instance group {uuid} could not be found.")
    return store.placed(connection, found)


def create(connection: Connection, group: ServerGroup, now: datetime) -> None:
    """Keep a new group; several may have the same name. Raises :class:`Invalid` for its rules."""
    if group.rules and group.policy != ANTI_AFFINITY:
        raise Invalid("Only anti-affinity policy supports rules. (at $.server_group.rules)")
    store.add(connection, group, now)


def delete(connection: Connection, uuid: str) -> None:
    """Delete a group; its members live on in none. Raises :class:`NotFound`."""
    if not store.lock(connection, uuid):
        raise NotFound(f"Instance group {uuid} could not be found.")
    store.remove(connection, uuid)
