"""Removes compute nodes that are no more, with what their reports made."""

from placement_sched.db.connection import Connection
from placement_sched.errors import NotFound
from placement_sched.store import compute_nodes, provider_trees, resource_providers, services


def remove(connection: Connection, uuid: str) -> None:
    """Delete a compute node, its root provider, and with a host's last node its compute service.

    Raises :class:`NotFound`, and :class:`InUse` while the provider has allocations or children.
    """
    seen = compute_nodes.by_uuid(connection, uuid)
    # Services are locked before nodes everywhere, so that no two wait for each other.
    service = services.by_hosts(connection, [seen.host], lock=True).get(seen.host)
    node = compute_nodes.by_uuid(connection, uuid, lock=True)
    if uuid in resource_providers.by_uuids(connection, [uuid]):
        _remove_provider(connection, uuid)
    compute_nodes.remove(connection, node)
    if (
        service is not None
        and service.host == node.host
        and compute_nodes.is_last(connection, node)
    ):
        services.remove(connection, [service.id])


def _remove_provider(connection: Connection, uuid: str) -> None:
    try:
        provider_trees.remove(connection, uuid)
    except NotFound:
        # Somebody deleted it before we had its lock: what was wanted is done.
        return
