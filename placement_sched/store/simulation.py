"""What a trial writes (``db/scratch.py``): as the real writers do, and so that others hardly wait.

No change counter, generation or version rises here. Those rows are written by every writer of their
kind, all of which would wait until the trial is rolled back; and what looks at a trial remembers
nothing from before it. What is only inserted keeps no other writer waiting.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, select, update

from placement_sched.db import sql, tables
from placement_sched.db.collations import is_same_uuid
from placement_sched.model.compute_node import COMPUTE_BINARY, ComputeNode
from placement_sched.model.provider import Inventory, Provider, capacity_of
from placement_sched.store.compute import compute_nodes, host_aggregates
from placement_sched.store.placement import aggregates, inventories, resource_providers, traits
from placement_sched.store.placement import resource_classes as classes

_PROVIDERS = tables.resource_providers.c
_SERVICES = tables.services.c
_INSTANCES = tables.instances.c
_OF_PROVIDER = (
    tables.allocations,
    tables.inventories,
    tables.resource_provider_aggregates,
    tables.resource_provider_traits,
)


def disable(
    connection: Connection, hosts: Collection[str], trait: str, reason: str, now: datetime
) -> None:
    """Disable the compute services of hosts, and put a trait on their root providers."""
    theirs = update(tables.services).where(_SERVICES.binary == COMPUTE_BINARY)
    disabled = theirs.values(disabled=1, disabled_reason=reason)
    sql.change_among(connection, disabled, _SERVICES.host, sorted(hosts))
    number = traits.CARRIED.ensure(connection, [trait], now)[trait]
    roots = sorted(host_aggregates.provider_ids_of_hosts(connection, hosts))
    rows = [{"resource_provider_id": one, "trait_id": number, "created_at": now} for one in roots]
    sql.insert_missing(connection, tables.resource_provider_traits, rows)


def providers_of(connection: Connection, roots: Iterable[str]) -> tuple[Provider, ...]:
    """Return all providers of the trees of these roots, by id."""
    ids = [one.id for one in resource_providers.by_uuids(connection, roots).values()]
    query = resource_providers.PROVIDERS
    rows = sql.rows_among(connection, query, _PROVIDERS.root_provider_id, ids)
    return tuple(sorted(map(Provider._make, rows)))


def remove_hosts(connection: Connection, hosts: Collection[str], roots: Collection[str]) -> None:
    """Delete hosts, and the provider trees of these roots with all that is allocated of them."""
    names = sorted(hosts)
    for table in (tables.compute_nodes, tables.host_aggregate_hosts):
        sql.change_among(connection, delete(table), table.c.host, names)
    theirs = delete(tables.services).where(_SERVICES.binary == COMPUTE_BINARY)
    sql.change_among(connection, theirs, _SERVICES.host, names)
    ids = [one.id for one in providers_of(connection, roots)]
    for table in _OF_PROVIDER:
        sql.change_among(connection, delete(table), table.c.resource_provider_id, ids)
    # MariaDB keeps a row to which a row points, be it the same one.
    loose = update(tables.resource_providers)
    loose = loose.values(root_provider_id=None, parent_provider_id=None)
    sql.change_among(connection, loose, _PROVIDERS.id, ids)
    sql.change_among(connection, delete(tables.resource_providers), _PROVIDERS.id, ids)


def add_services(connection: Connection, uuids: Mapping[str, str], now: datetime) -> None:
    """Give hosts compute services that are enabled and up; ``uuids`` are theirs, by host."""
    times = dict.fromkeys(("last_seen_up", "created_at", "updated_at"), now)
    same = {"binary": COMPUTE_BINARY, "disabled": 0, "forced_down": 0, **times}
    rows = [{"uuid": uuid, "host": host, **same} for host, uuid in uuids.items()]
    sql.insert_rows(connection, tables.services, rows)


def add_nodes(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> None:
    """Add compute nodes, whose names and uuids are new."""
    stamps = {"version": 0, "created_at": now, "updated_at": now}
    rows = [{**compute_nodes.row_of(node), **stamps} for node in nodes]
    sql.insert_rows(connection, tables.compute_nodes, rows)


def change_nodes(connection: Connection, nodes: Iterable[ComputeNode]) -> None:
    """Make nodes say what these reports say."""
    column = tables.compute_nodes.c.uuid
    rows = [{"b_uuid": node.uuid, "report": compute_nodes.row_of(node)["report"]} for node in nodes]
    change = update(tables.compute_nodes).where(column == bindparam("b_uuid"))
    if rows:
        connection.execute(change.values(report=bindparam("report")), rows)


def add_trees(
    connection: Connection,
    like: Sequence[Provider],
    named: Sequence[Mapping[str, tuple[str, str]]],
    without: str,
    now: datetime,
) -> None:
    """Add provider trees like that of these providers: inventories, traits and aggregates.

    ``named`` gives for each tree the uuid and the name of the copy of each provider, by its uuid.
    The trait ``without`` is not copied.
    """
    ids = _add_providers(connection, like, named, now)
    stocks = inventories.by_provider_id(connection, ids)
    inventories.put(
        connection,
        {new: list(some.values()) for number, some in stocks.items() for new in ids[number]},
        now,
    )
    for table, member in (
        (tables.resource_provider_traits, tables.resource_provider_traits.c.trait_id),
        (tables.resource_provider_aggregates, tables.resource_provider_aggregates.c.aggregate_id),
    ):
        column = table.c.resource_provider_id
        found = sql.rows_among(connection, select(column, member), column, ids)
        members = [{column.name: new, member.name: key} for one, key in found for new in ids[one]]
        if table is tables.resource_provider_traits:
            left_out = traits.ids_by_name(connection, [without]).values()
            members = [row for row in members if row["trait_id"] not in left_out]
        sql.insert_rows(connection, table, [{**row, "created_at": now} for row in members])


def _add_providers(
    connection: Connection,
    like: Sequence[Provider],
    named: Sequence[Mapping[str, tuple[str, str]]],
    now: datetime,
) -> dict[int, list[int]]:
    """Add the providers of trees, level by level; return by id the ids of a provider's copies."""
    made: dict[str, Provider] = {}
    done: set[str] = set()
    while len(done) < len(like):
        level = [
            one
            for one in like
            if one.uuid not in done and (one.parent_uuid is None or one.parent_uuid in done)
        ]
        rows = []
        for one in level:
            for names in named:
                parent = made[names[one.parent_uuid][0]] if one.parent_uuid else None
                rows.append(resource_providers.NewProvider(*names[one.uuid], parent))
        resource_providers.create_many(connection, rows, now)
        made |= resource_providers.by_uuids(connection, [row.uuid for row in rows])
        done |= {one.uuid for one in level}
    return {one.id: [made[names[one.uuid][0]].id for names in named] for one in like}


def put_inventory(
    connection: Connection, provider_id: int, inventory: Inventory, now: datetime
) -> None:
    """Make an inventory of a provider what this one is, or delete it where its total is 0."""
    if inventory.total:
        inventories.put(connection, {provider_id: [inventory]}, now)
        return
    name = inventory.resource_class
    number = classes.ids_by_name(connection, [name])[name]
    gone = delete(tables.inventories).filter_by(
        resource_provider_id=provider_id, resource_class_id=number
    )
    connection.execute(gone)


def change_members(
    connection: Connection,
    aggregate: str,
    *,
    added: Collection[int],
    removed: Collection[int],
    now: datetime,
) -> None:
    """Put providers into an aggregate, by its uuid, and take others out."""
    number = aggregates.MEMBERS.ensure(connection, [aggregate], now)[aggregate]
    table = tables.resource_provider_aggregates
    rows = [
        {"resource_provider_id": one, "aggregate_id": number, "created_at": now}
        for one in sorted(added)
    ]
    sql.insert_missing(connection, table, rows)
    gone = delete(table).where(table.c.aggregate_id == number)
    sql.change_among(connection, gone, table.c.resource_provider_id, sorted(removed))


class Holding(NamedTuple):
    """An allocation as it is written: by the uuids of consumer and provider."""

    consumer: str
    provider: str
    resource_class: str
    used: int


def move(
    connection: Connection,
    held: Sequence[Holding],
    places: Mapping[str, tuple[str | None, str | None]],
    now: datetime,
) -> None:
    """Make instances hold exactly this, and be on these hosts and nodes.

    The caller knows that there is room.
    """
    table, key = tables.allocations, tables.allocations.c.consumer_id
    sql.change_among(connection, delete(table), key, sorted(places))
    ids = sql.ids_by(connection, _PROVIDERS.uuid, {one.provider for one in held})
    numbers = classes.ids_by_name(connection, {one.resource_class for one in held})
    rows = [
        {
            "consumer_id": one.consumer,
            "resource_provider_id": ids[one.provider],
            "resource_class_id": numbers[one.resource_class],
            "used": one.used,
            "created_at": now,
        }
        for one in held
    ]
    sql.insert_rows(connection, table, rows)
    for (host, node), some in sql.grouped((place, uuid) for uuid, place in places.items()).items():
        there = update(tables.instances).values(host=host, node=node)
        sql.change_among(connection, there, _INSTANCES.uuid, sorted(some))


class HostLoad(NamedTuple):
    """What a node's provider tree has of a resource class, and how much of it is allocated."""

    host: str
    node_uuid: str
    resource_class: str
    capacity: int
    used: int

    @property
    def free(self) -> int:
        """Return what is not allocated; below 0 where more is than there is."""
        return self.capacity - self.used


def loads(connection: Connection, names: Collection[str]) -> list[HostLoad]:
    """Return what the provider trees of all nodes have of these classes, in two statements."""
    nodes, stock, taken = tables.compute_nodes, tables.inventories.c, tables.allocations.c
    root = tables.resource_providers.alias("root")
    numbers = {key: name for name, key in classes.ids_by_name(connection, names).items()}
    here = (
        select(
            nodes.c.host,
            nodes.c.uuid,
            _PROVIDERS.id,
            stock.resource_class_id,
            stock.total,
            stock.reserved,
            stock.allocation_ratio,
        )
        .join(root, is_same_uuid(root.c.uuid, nodes.c.uuid))
        .join(tables.resource_providers, _PROVIDERS.root_provider_id == root.c.id)
        .join(tables.inventories, stock.resource_provider_id == _PROVIDERS.id)
        .where(stock.resource_class_id.in_(sorted(numbers)))
        .order_by(nodes.c.host, nodes.c.uuid, stock.resource_class_id)
    )
    of_class = taken.resource_class_id.in_(sorted(numbers))
    keys = (taken.resource_provider_id, taken.resource_class_id)
    sums = select(*keys, func.sum(taken.used)).where(of_class).group_by(*keys)
    used = {(one, key): int(number) for one, key, number in connection.execute(sums)}
    found: dict[tuple[str, str, str], HostLoad] = {}
    for host, uuid, number, key, total, reserved, ratio in connection.execute(here):
        place = (host, uuid, numbers[key])
        before = found.get(place, HostLoad(*place, capacity=0, used=0))
        found[place] = before._replace(
            capacity=before.capacity + capacity_of(total, reserved, ratio),
            used=before.used + used.get((number, key), 0),
        )
    return list(found.values())
