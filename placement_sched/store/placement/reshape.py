# SPDX-License-Identifier: Apache-2.0
"""Reshape: moves of inventories and allocations between providers."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from placement_sched.db import sql
from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.provider import ConsumerClaim, Inventory, Provider
from placement_sched.store.placement import allocations, consumers, inventories, resource_providers


def lock(
    connection: Connection, generations: Mapping[str, int], claims: Sequence[ConsumerClaim]
) -> dict[str, Provider]:
    """Lock all rows of a reshape, and return its providers.

    ``generations`` are the expected generations by provider uuid. Rows are locked in the same order
    as by claims, so that reshapes and claims cannot deadlock. Before the inventories are read,
    raises :class:`Invalid` for an unknown provider, and :class:`ConcurrentUpdate` for a generation
    conflict of a provider or consumer.
    """
    consumers.lock(connection, [claim.consumer for claim in claims])
    requested = {uuid for claim in claims for uuid in claim.allocations}
    candidates = resource_providers.by_uuids(connection, requested.union(generations))
    locked = resource_providers.lock(connection, [provider.id for provider in candidates.values()])
    existing = {
        uuid: provider._replace(generation=locked[provider.id])
        for uuid, provider in candidates.items()
        if provider.id in locked
    }
    for uuid, expected in generations.items():
        if uuid not in existing:
            raise Invalid(
                f"Resource provider {uuid} in inventories not found: "
                f"No resource provider with uuid {uuid} found",
                code="placement.resource_provider.not_found",
            )
        if (actual := existing[uuid].generation) != expected:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {uuid}: "
                f"actual: {actual}, given: {expected}"
            )
    allocations.check_generations(connection, claims)
    allocations.check_names(sorted(requested), existing)
    return {uuid: existing[uuid] for uuid in generations}


def write(
    connection: Connection,
    wanted: Mapping[int, Sequence[Inventory]],
    claims: Sequence[ConsumerClaim],
    now: datetime,
) -> None:
    """Replace the inventories of providers, and write the claims.

    New inventories are written before allocations move to them. Inventories are removed after their
    allocations have moved away. Raises the errors of :func:`allocations.replace`, and
    :class:`InUse` if a removed inventory still has allocations.
    """
    # Read once, as no other transaction changes the inventories of a locked provider.
    existing = inventories.find(connection, wanted)
    inventories.put(connection, wanted, now, existing)
    filled = [provider_id for provider_id, rows in wanted.items() if rows]
    resource_providers.bump_generations(connection, filled, now)
    allocations.replace(connection, claims, now)
    remaining = {(key, row.resource_class) for key, rows in wanted.items() for row in rows}
    gone = sql.grouped(existing.keys() - remaining)
    # In the order of the request: the error names the first inventory in use.
    to_remove = {key: set(gone[key]) for key in wanted if key in gone}
    inventories.remove(connection, to_remove, existing)
    resource_providers.bump_generations(connection, wanted, now)
