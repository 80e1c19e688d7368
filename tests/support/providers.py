# SPDX-License-Identifier: Apache-2.0
"""A builder of single providers with inventories, for tests of what is allocated from them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.provider import Inventory, matches_units, may_change_usage
from placement_sched.store.placement import inventories, resource_providers
from placement_sched.store.placement.resource_providers import NewProvider

NOW = datetime(2026, 1, 1, 12, 0, 0)


def make_providers(database: Database, stocks: Sequence[Sequence[Inventory]]) -> list[str]:
    """Create one root provider for each list of inventories; return their uuids."""
    rows = [NewProvider(str(uuid4()), f"host-{uuid4()}") for _ in stocks]

    def write_rows(connection: Connection) -> None:
        ids = resource_providers.create_many(connection, rows, NOW)
        by_id = {ids[row.uuid]: stock for row, stock in zip(rows, stocks, strict=True)}
        inventories.replace_many(connection, by_id, NOW)

    database.write(write_rows)
    return [row.uuid for row in rows]


def make_provider(database: Database, *stock: Inventory, **totals: int) -> str:
    """Create a root provider with these inventories, and plain ones of ``totals``."""
    plain = [Inventory(resource_class=name, total=total) for name, total in totals.items()]
    return make_providers(database, [[*stock, *plain]])[0]


def set_inventory(database: Database, provider: str, *stock: Inventory) -> None:
    """Make these inventories of a provider match."""

    def write_rows(connection: Connection) -> None:
        found = resource_providers.by_uuid(connection, provider)
        inventories.replace_many(connection, {found.id: stock}, NOW)

    database.write(write_rows)


def fits(inventory, used, asked):
    """Return whether a new claim of ``asked`` units is allowed, as production checks it."""
    return matches_units(inventory, asked) and may_change_usage(inventory, used, 0, asked)
