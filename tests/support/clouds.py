# SPDX-License-Identifier: Apache-2.0
"""Small clouds as plain values, and a loader.

``tests.candidates.reference`` has the expected candidates of a cloud.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import NAMESPACE_DNS, uuid5

from sqlalchemy import Connection, bindparam, insert, select

from placement_sched.db.sql import insert_missing
from placement_sched.db.tables import (
    allocations,
    inventories,
    placement_aggregates,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)
from placement_sched.db.transaction import Database
from placement_sched.model.provider import Inventory

NOW = datetime(2026, 1, 1, 12, 0, 0)
INVENTORY_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def uuid_of(name: str) -> str:
    """Return the uuid of the provider or aggregate of this name, always the same."""
    return str(uuid5(NAMESPACE_DNS, name))


@dataclass(frozen=True)
class InventoryUsage:
    """An inventory and its used amount."""

    inventory: Inventory
    used: int = 0

    @property
    def capacity(self) -> int:
        """Return the amount that can be allocated, including overcommit."""
        inventory = self.inventory
        return int((inventory.total - inventory.reserved) * inventory.allocation_ratio)

    def can_take(self, amount: int) -> bool:
        """Return whether a new allocation of an amount is allowed."""
        units = self.inventory
        return (
            units.min_unit <= amount <= units.max_unit
            and amount % units.step_size == 0
            and self.used + amount <= self.capacity
        )


@dataclass(frozen=True)
class Host:
    """A provider with its inventories, traits, and names of aggregates and parent."""

    name: str
    inventories: Mapping[str, InventoryUsage] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    parent: str | None = None

    @property
    def uuid(self) -> str:
        return uuid_of(self.name)


@dataclass(frozen=True)
class Cloud:
    """Hosts in order of creation, parents before their children."""

    hosts: tuple[Host, ...] = field(default=())

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def list_host_and_ancestors(self, host: Host) -> list[Host]:
        """Return a host and its ancestors, the root last."""
        line = [host]
        while line[-1].parent is not None:
            line.append(self[line[-1].parent])
        return line

    def root(self, host: Host) -> Host:
        return self.list_host_and_ancestors(host)[-1]


def build_inventory(
    name: str, total: int, used: int = 0, **more: object
) -> dict[str, InventoryUsage]:
    """Return inventory and usage of a single resource class, by class."""
    return {name: InventoryUsage(Inventory(resource_class=name, total=total, **more), used)}


def load_cloud(database: Database, cloud: Cloud) -> None:
    """Write a cloud into an empty database with a constant number of statements."""

    def write_rows(connection: Connection) -> None:
        hosts = cloud.hosts
        if not hosts:
            return
        connection.execute(
            insert(resource_providers),
            [{"uuid": host.uuid, "name": host.name, "generation": 0} for host in hosts],
        )
        ids = _read_row_ids_by_column(connection, resource_providers, "uuid")
        connection.execute(
            resource_providers.update()
            .where(resource_providers.c.id == bindparam("key"))
            .values(root_provider_id=bindparam("root"), parent_provider_id=bindparam("parent")),
            [
                {
                    "key": ids[host.uuid],
                    "root": ids[cloud.root(host).uuid],
                    "parent": ids[uuid_of(host.parent)] if host.parent else None,
                }
                for host in hosts
            ],
        )
        _load_traits(connection, hosts, ids)
        _load_aggregates(connection, hosts, ids)
        _load_inventories(connection, hosts, ids)

    database.write(write_rows)


def add_traits(database: Database, hosts: Sequence[Host]) -> None:
    """Write the traits of these values to hosts of the database."""

    def write_rows(connection: Connection) -> None:
        _load_traits(
            connection, hosts, _read_row_ids_by_column(connection, resource_providers, "uuid")
        )

    database.write(write_rows)


def _read_row_ids_by_column(connection: Connection, table, column: str) -> dict[str, int]:
    return dict(connection.execute(select(table.c[column], table.c.id)).all())


def _load_traits(connection: Connection, hosts: Sequence[Host], ids: dict[str, int]) -> None:
    names = {name for host in hosts for name in host.traits}
    insert_missing(connection, traits, [{"name": name} for name in sorted(names)])
    trait_ids = _read_row_ids_by_column(connection, traits, "name")
    rows = [
        {"resource_provider_id": ids[host.uuid], "trait_id": trait_ids[name]}
        for host in hosts
        for name in host.traits
    ]
    if rows:
        connection.execute(insert(resource_provider_traits), rows)


def _load_aggregates(connection: Connection, hosts: Sequence[Host], ids: dict[str, int]) -> None:
    names = {name for host in hosts for name in host.aggregates}
    rows = [{"uuid": uuid_of(name)} for name in sorted(names)]
    insert_missing(connection, placement_aggregates, rows)
    aggregate_ids = _read_row_ids_by_column(connection, placement_aggregates, "uuid")
    rows = [
        {"resource_provider_id": ids[host.uuid], "aggregate_id": aggregate_ids[uuid_of(name)]}
        for host in hosts
        for name in host.aggregates
    ]
    if rows:
        connection.execute(insert(resource_provider_aggregates), rows)


def _load_inventories(connection: Connection, hosts: Sequence[Host], ids: dict[str, int]) -> None:
    class_ids = _read_row_ids_by_column(connection, resource_classes, "name")
    entries = [
        (ids[host.uuid], class_ids[name], held)
        for host in hosts
        for name, held in host.inventories.items()
    ]
    if not entries:
        return
    connection.execute(
        insert(inventories),
        [
            {
                "resource_provider_id": provider,
                "resource_class_id": key,
                **{name: getattr(held.inventory, name) for name in INVENTORY_FIELDS},
            }
            for provider, key, held in entries
        ],
    )
    rows = [
        {
            "resource_provider_id": provider,
            "resource_class_id": key,
            "consumer_id": uuid_of(f"consumer {provider}"),
            "used": held.used,
        }
        for provider, key, held in entries
        if held.used
    ]
    if rows:
        connection.execute(insert(allocations), rows)
