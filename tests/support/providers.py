# SPDX-License-Identifier: Apache-2.0
"""Providers with inventories, for tests of allocations."""

from collections.abc import Sequence
from uuid import uuid4

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import inventories, resource_providers
from placement_sched.store.placement.resource_providers import NewProvider
from tests.support.clouds import NOW


def make_providers(database: Database, stocks: Sequence[Sequence[Inventory]]) -> list[str]:
    """Create a root provider for each list of inventories and return their uuids."""
    rows = [NewProvider(str(uuid4()), f"host-{uuid4()}") for _ in stocks]

    def write_rows(connection: Connection) -> None:
        ids = resource_providers.create_many(connection, rows, NOW)
        by_id = {ids[row.uuid]: stock for row, stock in zip(rows, stocks, strict=True)}
        inventories.put(connection, by_id, NOW)

    database.write(write_rows)
    return [row.uuid for row in rows]


def make_provider(database: Database, *stock: Inventory, **totals: int) -> str:
    """Create a root provider with ``stock`` and an inventory for each of ``totals``."""
    plain = [Inventory(resource_class=name, total=total) for name, total in totals.items()]
    return make_providers(database, [[*stock, *plain]])[0]
