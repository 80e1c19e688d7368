"""Who is where: aggregates, hosts and compute nodes together."""

from collections import defaultdict

from sqlalchemy import Connection, select

from placement_sched.db.tables import compute_nodes, services
from placement_sched.model.host_map import HostMap
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.store import host_aggregates


def read(connection: Connection) -> HostMap:
    """Return all host aggregates, hosts and compute nodes, in three statements."""
    aggregates = host_aggregates.snapshot(connection)
    nodes: dict[str, set[str]] = defaultdict(set)
    for host, uuid in connection.execute(select(compute_nodes.c.host, compute_nodes.c.uuid)):
        nodes[host].add(uuid)
    serving = connection.scalars(select(services.c.host).where(services.c.binary == COMPUTE_BINARY))
    return HostMap(
        aggregates=aggregates,
        known=frozenset(serving) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )
