"""Small clouds as plain values, a loader, and a naive search that is plainly right.

The naive model knows nothing of SQL: it looks at every provider in turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import NAMESPACE_DNS, uuid5

from sqlalchemy import Connection, insert, select

from placement_sched.db.insert import insert_missing
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
from placement_sched.model.inventory import Inventory, fits
from placement_sched.model.query import RequestGroup

NOW = datetime(2026, 1, 1, 12, 0, 0)


def uuid_of(name: str) -> str:
    """Return the uuid that a cloud gives to the thing of this name, always the same."""
    return str(uuid5(NAMESPACE_DNS, name))


@dataclass(frozen=True)
class Stock:
    """An inventory and how much of it is used."""

    inventory: Inventory
    used: int = 0


@dataclass(frozen=True)
class Host:
    """A root provider: what it has, its traits, the names of its aggregates."""

    name: str
    stocks: Mapping[str, Stock]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    @property
    def uuid(self) -> str:
        return uuid_of(self.name)


@dataclass(frozen=True)
class Cloud:
    """Hosts, in the order in which they were made."""

    hosts: tuple[Host, ...] = field(default=())


def stock(name: str, total: int, used: int = 0, **more: object) -> dict[str, Stock]:
    """Return a stock of one class, to be merged into a host's."""
    return {name: Stock(Inventory(resource_class=name, total=total, **more), used)}


def candidates(cloud: Cloud, group: RequestGroup) -> list[str]:
    """Return the uuids of the hosts that can serve ``group``, looking at one after the other."""
    return [host.uuid for host in cloud.hosts if _serves(host, group)]


def _serves(host: Host, group: RequestGroup) -> bool:
    aggregates = {uuid_of(name) for name in host.aggregates}
    return (
        all(
            name in host.stocks and fits(host.stocks[name].inventory, host.stocks[name].used, asked)
            for name, asked in group.resources
        )
        and all(host.traits & any_of for any_of in group.traits.required)
        and not host.traits & group.traits.forbidden
        and all(aggregates & any_of for any_of in group.aggregates.member_of)
        and not aggregates & group.aggregates.forbidden
        and group.in_tree in {None, host.uuid}
    )


def load(database: Database, cloud: Cloud) -> None:
    """Write a cloud into an empty database, in a few statements whatever its size."""

    def write(connection: Connection) -> None:
        hosts = cloud.hosts
        if not hosts:
            return
        connection.execute(
            insert(resource_providers),
            [{"uuid": host.uuid, "name": host.name, "generation": 0} for host in hosts],
        )
        connection.execute(
            resource_providers.update().values(root_provider_id=resource_providers.c.id)
        )
        ids = _ids(connection, resource_providers, "uuid")
        _load_traits(connection, hosts, ids)
        _load_aggregates(connection, hosts, ids)
        _load_stocks(connection, hosts, ids)

    database.write(write)


def give_traits(database: Database, hosts: Sequence[Host]) -> None:
    """Give hosts that are there already the traits that these values have."""

    def write(connection: Connection) -> None:
        _load_traits(connection, hosts, _ids(connection, resource_providers, "uuid"))

    database.write(write)


def _ids(connection: Connection, table, column: str) -> dict[str, int]:
    return dict(connection.execute(select(table.c[column], table.c.id)).all())


def _load_traits(connection: Connection, hosts: Sequence[Host], ids: dict[str, int]) -> None:
    names = {name for host in hosts for name in host.traits}
    insert_missing(connection, traits, [{"name": name} for name in sorted(names)])
    trait_ids = _ids(connection, traits, "name")
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
    aggregate_ids = _ids(connection, placement_aggregates, "uuid")
    rows = [
        {"resource_provider_id": ids[host.uuid], "aggregate_id": aggregate_ids[uuid_of(name)]}
        for host in hosts
        for name in host.aggregates
    ]
    if rows:
        connection.execute(insert(resource_provider_aggregates), rows)


def _load_stocks(connection: Connection, hosts: Sequence[Host], ids: dict[str, int]) -> None:
    class_ids = _ids(connection, resource_classes, "name")
    stocks = [
        (ids[host.uuid], class_ids[name], held)
        for host in hosts
        for name, held in host.stocks.items()
    ]
    if not stocks:
        return
    connection.execute(
        insert(inventories),
        [
            {
                "resource_provider_id": provider,
                "resource_class_id": key,
                "total": held.inventory.total,
                "reserved": held.inventory.reserved,
                "min_unit": held.inventory.min_unit,
                "max_unit": held.inventory.max_unit,
                "step_size": held.inventory.step_size,
                "allocation_ratio": held.inventory.allocation_ratio,
            }
            for provider, key, held in stocks
        ],
    )
    rows = [
        {
            "resource_provider_id": provider,
            "resource_class_id": key,
            "consumer_id": uuid_of(f"consumer {provider}"),
            "used": held.used,
        }
        for provider, key, held in stocks
        if held.used
    ]
    if rows:
        connection.execute(insert(allocations), rows)
