# SPDX-License-Identifier: Apache-2.0
"""The placement database of a nova: a provider for each host, and what its instances hold."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Table, insert, literal, select

from bench import bulk
from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow

#: Total, reserved and allocation ratio of a host, as in ``tests.support.nova_clouds.node_row``.
STOCK = {"VCPU": (32, 0, 16.0), "MEMORY_MB": (65536, 512, 1.5), "DISK_GB": (1000, 0, 1.0)}
#: What each instance holds.
HELD = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}
#: Every host has the first so many of these traits, about as many as a libvirt host has.
_TRAITS = ("COMPUTE_NET_%", "COMPUTE_VOLUME_%", "COMPUTE_IMAGE_%", "HW_CPU_X86_%")
_TRAITS_OF_A_HOST = 40


def fill(database: Database, nodes: Mapping[str, str], instances: Sequence[str]) -> None:
    """Write a provider for each node, given as uuids by names, into an empty prepared database.

    ``instances`` are dealt out to the nodes in turn.
    """
    now = utcnow()
    with bulk.filling(database) as connection:
        providers = [
            (number, uuid, name, 5, number) for number, (name, uuid) in enumerate(nodes.items(), 1)
        ]
        columns = ("id", "uuid", "name", "generation", "root_provider_id")
        _write(connection, tables.resource_providers, columns, providers, now)
        _stock(connection, now)
        _mark(connection, now)
        held = [(uuid, at % len(nodes) + 1) for at, uuid in enumerate(instances)]
        _consume(connection, held, now)
    filled = (tables.resource_providers, tables.inventories, tables.resource_provider_traits)
    owners = (tables.projects, tables.users, tables.consumers, tables.allocations)
    bulk.settle(database, (*filled, *owners))


def _write(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[object, ...]],
    now: datetime,
) -> None:
    stamped = [(now, now, *row) for row in rows]
    bulk.write(connection, table, ("created_at", "updated_at", *columns), stamped)


def _classes(connection: Connection) -> dict[str, int]:
    known = tables.resource_classes
    found = connection.execute(select(known.c.name, known.c.id).where(known.c.name.in_(STOCK)))
    return dict(map(tuple, found))


def _stock(connection: Connection, now: datetime) -> None:
    provider = tables.resource_providers.c.id
    ids = _classes(connection)
    for name, (total, reserved, ratio) in STOCK.items():
        row = {
            "resource_class_id": ids[name],
            "total": total,
            "reserved": reserved,
            "min_unit": 1,
            "max_unit": total,
            "step_size": 1,
            "allocation_ratio": ratio,
            "created_at": now,
            "updated_at": now,
        }
        values = select(provider, *map(literal, row.values()))
        connection.execute(
            insert(tables.inventories).from_select(["resource_provider_id", *row], values)
        )


def _mark(connection: Connection, now: datetime) -> None:
    """Give each provider the traits of its CPU and driver, and that it is nova's."""
    name = tables.traits.c.name
    found: list[int] = []
    for pattern in _TRAITS:
        statement = select(tables.traits.c.id).where(name.like(pattern)).order_by(name)
        found += connection.scalars(statement)
    chosen = found[:_TRAITS_OF_A_HOST]
    chosen += connection.scalars(select(tables.traits.c.id).where(name == "OWNER_NOVA"))
    for trait in chosen:
        values = select(tables.resource_providers.c.id, *map(literal, (trait, now)))
        connection.execute(
            insert(tables.resource_provider_traits).from_select(
                ["resource_provider_id", "trait_id", "created_at"], values
            )
        )


def _consume(connection: Connection, held: Sequence[tuple[str, int]], now: datetime) -> None:
    """Write consumers, given with the provider of each, and their allocations."""
    for table, name in ((tables.projects, "demo"), (tables.users, "ann")):
        _write(connection, table, ("id", "external_id"), [(1, name)], now)
    consumers = [(uuid, 1, 1, 1) for uuid, _ in held]
    columns = ("uuid", "project_id", "user_id", "generation")
    _write(connection, tables.consumers, columns, consumers, now)
    columns = ("consumer_id", "resource_provider_id", "resource_class_id", "used")
    ids = _classes(connection)
    for name, used in HELD.items():
        rows = [(*one, ids[name], used) for one in held]
        _write(connection, tables.allocations, columns, rows, now)
