"""The recorded instances that request pinned CPUs or PCI devices, and the nodes they are on."""

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, select

from placement_sched.db.tables import compute_nodes, embedded_flavors, instances
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.instance import Instance
from placement_sched.store.compute import compute_nodes as nodes_store
from placement_sched.store.compute import instances as instances_store

_INSTANCES, _NODES = instances.c, compute_nodes.c
#: What the flavor or the image of such an instance has in it; others are not even read.
_PINNING = ("%cpu_policy%", "%PCPU%")
_DEVICES = ("%pci_passthrough:alias%",)


def demanding(connection: Connection) -> tuple[Instance, ...]:
    """Return the instances on a node that may request pinned CPUs or PCI devices."""
    digests = select(embedded_flavors.c.digest).where(
        _has(embedded_flavors.c.flavor, *_PINNING, *_DEVICES)
    )
    asking = sa.or_(
        _has(_INSTANCES.flavor, *_PINNING, *_DEVICES),
        _has(_INSTANCES.image, *_PINNING),
        _INSTANCES.flavor_digest.in_(digests),
    )
    query = select(instances).where(_INSTANCES.host.is_not(None), _INSTANCES.node.is_not(None))
    rows = connection.execute(query.where(asking).order_by(_INSTANCES.id)).all()
    return instances_store.of_rows(connection, rows)


def nodes_of(connection: Connection, hosts: set[str]) -> tuple[ComputeNode, ...]:
    """Return the compute nodes of these hosts with what they reported last."""
    found = nodes_store.uuids_by_name(connection, hosts)
    return nodes_store.by_uuids(connection, found.values())


def _has(column: ColumnElement[str], *words: str) -> ColumnElement[bool]:
    return sa.or_(*(column.like(word) for word in words))
