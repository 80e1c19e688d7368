# SPDX-License-Identifier: Apache-2.0
"""Writes within a simulation, a transaction that is rolled back.

Unlike regular writes, they increment no change counter, generation or version, because every writer
of these rows would wait until the simulation (``db/transaction.py``) is rolled back. Code that runs
in a simulation uses no values cached before it. Inserted rows block no other writer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update

from placement_sched.db import sql, tables
from placement_sched.model.compute_node import COMPUTE_BINARY, ComputeNode
from placement_sched.model.grouping import group_rows
from placement_sched.model.provider import Inventory, Provider
from placement_sched.store.compute import compute_nodes, host_aggregates, hosts
from placement_sched.store.placement import aggregates, inventories, resource_providers, traits
from placement_sched.store.placement import resource_classes as classes

_PROVIDERS = tables.resource_providers.c
_SERVICES = tables.services.c
_INSTANCES = tables.instances.c


def disable(
    connection: Connection, hosts: Collection[str], trait: str, reason: str, now: datetime
) -> None:
    """Disable compute services of hosts, and add a trait to root providers."""
    compute_services = update(tables.services).where(_SERVICES.binary == COMPUTE_BINARY)
    statement = compute_services.values(disabled=1, disabled_reason=reason)
    sql.change_in_batches(connection, statement, _SERVICES.host, sorted(hosts))
    trait_id = traits.ASSOCIATIONS.ensure(connection, [trait], now)[trait]
    roots = sorted(host_aggregates.find_provider_ids(connection, hosts))
    rows = [{"resource_provider_id": r, "trait_id": trait_id, "created_at": now} for r in roots]
    sql.insert_missing(connection, tables.resource_provider_traits, rows)


def list_tree_providers(connection: Connection, roots: Iterable[str]) -> tuple[Provider, ...]:
    """Return all providers of the trees with these roots, sorted by id."""
    ids = [provider.id for provider in resource_providers.map_by_uuid(connection, roots).values()]
    query = resource_providers.PROVIDERS
    rows = sql.select_in_batches(connection, query, _PROVIDERS.root_provider_id, ids)
    return tuple(sorted(map(Provider._make, rows)))


def remove_hosts(connection: Connection, hosts: Collection[str], roots: Collection[str]) -> None:
    """Delete hosts, and the provider trees of ``roots`` with all allocations."""
    names = sorted(hosts)
    for table in (tables.compute_nodes, tables.host_aggregate_hosts):
        sql.change_in_batches(connection, delete(table), table.c.host, names)
    compute_services = delete(tables.services).where(_SERVICES.binary == COMPUTE_BINARY)
    sql.change_in_batches(connection, compute_services, _SERVICES.host, names)
    ids = [provider.id for provider in list_tree_providers(connection, roots)]
    statement, provider = delete(tables.allocations), tables.allocations.c.resource_provider_id
    sql.change_in_batches(connection, statement, provider, ids)
    resource_providers.delete_rows(connection, ids)


def add_services(connection: Connection, uuids: Mapping[str, str], now: datetime) -> None:
    """Create enabled compute services that are up, by host and uuid."""
    times = dict.fromkeys(("last_seen_up", "created_at", "updated_at"), now)
    common = {"binary": COMPUTE_BINARY, "disabled": 0, "forced_down": 0, **times}
    rows = [{"uuid": uuid, "host": host, **common} for host, uuid in uuids.items()]
    sql.insert_rows(connection, tables.services, rows)


def add_nodes(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> None:
    """Create compute nodes with new names and uuids."""
    stamps = {"version": 0, "created_at": now, "updated_at": now}
    rows = [{**compute_nodes.build_row(node), **stamps} for node in nodes]
    sql.insert_rows(connection, tables.compute_nodes, rows)


def change_nodes(connection: Connection, nodes: Iterable[ComputeNode]) -> None:
    """Replace the reports of compute nodes."""
    column = tables.compute_nodes.c.uuid
    rows = [
        {"b_uuid": node.uuid, "report": compute_nodes.build_row(node)["report"]} for node in nodes
    ]
    statement = update(tables.compute_nodes).where(column == bindparam("b_uuid"))
    if rows:
        connection.execute(statement.values(report=bindparam("report")), rows)


def add_trees(
    connection: Connection,
    tree: Sequence[Provider],
    name_maps: Sequence[Mapping[str, tuple[str, str]]],
    without: str,
    now: datetime,
) -> None:
    """Add copies of a provider tree, with inventories, traits and aggregates.

    ``tree`` has the providers to copy. ``name_maps`` has a mapping for each copy, from the uuid of
    each provider to the uuid and name of the new provider. The trait ``without`` is not copied.
    """
    rows = [
        (*names[node.uuid], node.parent_uuid and names[node.parent_uuid][0])
        for names in name_maps
        for node in tree
    ]
    created = resource_providers.create_trees(connection, rows, now)
    ids = {node.id: [created[names[node.uuid][0]].id for names in name_maps] for node in tree}
    inventories_by_id = inventories.map_by_provider_id(connection, ids)
    inventories.put(
        connection,
        {
            copy: list(amounts.values())
            for key, amounts in inventories_by_id.items()
            for copy in ids[key]
        },
        now,
    )
    for table, member in (
        (tables.resource_provider_traits, tables.resource_provider_traits.c.trait_id),
        (tables.resource_provider_aggregates, tables.resource_provider_aggregates.c.aggregate_id),
    ):
        column = table.c.resource_provider_id
        pairs = sql.select_in_batches(connection, select(column, member), column, ids)
        members = [{column.name: copy, member.name: m} for owner, m in pairs for copy in ids[owner]]
        if table is tables.resource_provider_traits:
            excluded_ids = traits.map_ids(connection, [without]).values()
            members = [row for row in members if row["trait_id"] not in excluded_ids]
        sql.insert_rows(connection, table, [{**row, "created_at": now} for row in members])


def put_inventory(
    connection: Connection, provider_id: int, inventory: Inventory, now: datetime
) -> None:
    """Set an inventory of a provider, or delete it if its total is 0."""
    if inventory.total:
        inventories.put(connection, {provider_id: [inventory]}, now)
        return
    name = inventory.resource_class
    class_id = classes.map_ids(connection, [name])[name]
    statement = delete(tables.inventories).filter_by(
        resource_provider_id=provider_id, resource_class_id=class_id
    )
    connection.execute(statement)


def change_members(
    connection: Connection,
    aggregate: str,
    *,
    added: Collection[int],
    removed: Collection[int],
    now: datetime,
) -> None:
    """Add providers to the aggregate with a uuid, and remove providers."""
    aggregate_id = aggregates.ASSOCIATIONS.ensure(connection, [aggregate], now)[aggregate]
    table = tables.resource_provider_aggregates
    rows = [
        {"resource_provider_id": provider_id, "aggregate_id": aggregate_id, "created_at": now}
        for provider_id in sorted(added)
    ]
    sql.insert_missing(connection, table, rows)
    statement = delete(table).where(table.c.aggregate_id == aggregate_id)
    sql.change_in_batches(connection, statement, table.c.resource_provider_id, sorted(removed))


class SimulatedAllocation(NamedTuple):
    """An allocation to write, with the uuids of consumer and provider."""

    consumer: str
    provider: str
    resource_class: str
    used: int


def move(
    connection: Connection,
    new_allocations: Sequence[SimulatedAllocation],
    places: Mapping[str, tuple[str | None, str | None]],
    now: datetime,
) -> None:
    """Replace the allocations of instances, and set their hosts and nodes.

    ``places`` maps instances to host and node. The caller has checked the capacity.
    """
    table, key = tables.allocations, tables.allocations.c.consumer_id
    sql.change_in_batches(connection, delete(table), key, sorted(places))
    ids = sql.map_ids(
        connection, _PROVIDERS.uuid, {allocation.provider for allocation in new_allocations}
    )
    class_ids = classes.map_ids(
        connection, {allocation.resource_class for allocation in new_allocations}
    )
    rows = [
        {
            "consumer_id": allocation.consumer,
            "resource_provider_id": ids[allocation.provider],
            "resource_class_id": class_ids[allocation.resource_class],
            "used": allocation.used,
            "created_at": now,
        }
        for allocation in new_allocations
    ]
    sql.insert_rows(connection, table, rows)
    for (host, node), uuids in group_rows((place, uuid) for uuid, place in places.items()).items():
        statement = update(tables.instances).values(host=host, node=node)
        sql.change_in_batches(connection, statement, _INSTANCES.uuid, sorted(uuids))


class HostLoad(NamedTuple):
    """Capacity and usage of a resource class in the tree of a compute node."""

    host: str
    node_uuid: str
    resource_class: str
    capacity: int
    used: int

    @property
    def free(self) -> int:
        """Return the free amount, below 0 if allocations exceed the capacity."""
        return self.capacity - self.used


def list_loads(connection: Connection, names: Collection[str]) -> list[HostLoad]:
    """Return the loads of all nodes for classes, sorted by host and uuid."""
    nodes = sorted(hosts.list_served_nodes(connection), key=attrgetter("host", "uuid"))
    amounts = hosts.sum_amounts(connection, None, names)
    return [
        HostLoad(node.host, node.uuid, name, capacity, used)
        for node in nodes
        for name, (capacity, used) in amounts.get(node.root_id, {}).items()
    ]
