"""A reshape: inventories and allocations move between providers in one write."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from placement_sched.db import tables
from placement_sched.db.batches import batches
from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.allocation import ConsumerClaim
from placement_sched.model.inventory import Inventory
from placement_sched.model.provider import Provider
from placement_sched.store import allocations, consumers, inventories, resource_providers


def lock(
    connection: Connection, generations: Mapping[str, int], claims: Sequence[ConsumerClaim]
) -> dict[str, Provider]:
    """Lock all that a reshape touches and return the providers whose inventories it sets.

    ``generations`` are those that the caller has seen, by provider uuid. Locks in the order in
    which claims do, so that a reshape and a claim wait for each other and do not deadlock. Raises
    :class:`Invalid` for an unknown provider and :class:`ConcurrentUpdate` for another generation,
    of a provider or of a consumer: all this before the inventories are looked at.
    """
    consumers.lock(connection, [claim.consumer for claim in claims])
    asked = {uuid for claim in claims for uuid in claim.allocations}
    found = resource_providers.by_uuids(connection, asked.union(generations))
    locked = resource_providers.lock(connection, [provider.id for provider in found.values()])
    providers = {}
    for uuid, given in generations.items():
        provider = found.get(uuid)
        if provider is None or provider.id not in locked:
            raise Invalid(
                f"Resource provider {uuid} in inventories not found: "
                f"No resource provider with uuid {uuid} found",
                code="placement.resource_provider.not_found",
            )
        actual = locked[provider.id]
        if actual != given:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {uuid}: "
                f"actual: {actual}, given: {given}"
            )
        providers[uuid] = provider._replace(generation=actual)
    allocations.check_generations(connection, claims)
    known = {uuid for uuid, provider in found.items() if provider.id in locked}
    allocations.refuse_unknown(sorted(asked), known)
    return providers


def write(
    connection: Connection,
    wanted: Mapping[int, Sequence[Inventory]],
    claims: Sequence[ConsumerClaim],
    now: datetime,
) -> None:
    """Make these the only inventories of the providers, by id, and let the claims hold.

    What is new is there before allocations move to it, what is old goes after they have left it.
    Raises what :func:`allocations.replace` raises, and :class:`InUse` where an inventory that goes
    still has allocations.
    """
    before = _classes(connection, wanted)
    inventories.put_many(connection, wanted, now)
    filled = [number for number, stock in wanted.items() if stock]
    resource_providers.bump_generations(connection, filled, now)
    allocations.replace(connection, claims, now)
    going = {
        number: before.get(number, set()) - {one.resource_class for one in stock}
        for number, stock in wanted.items()
    }
    inventories.remove_many(connection, going)
    resource_providers.bump_generations(connection, wanted, now)


def _classes(connection: Connection, provider_ids: Iterable[int]) -> dict[int, set[str]]:
    """Return the names of the classes of which providers have inventory now, by provider id."""
    names: dict[int, set[str]] = defaultdict(set)
    for batch in batches(sorted(provider_ids)):
        query = (
            select(tables.inventories.c.resource_provider_id, tables.resource_classes.c.name)
            .join(
                tables.resource_classes,
                tables.resource_classes.c.id == tables.inventories.c.resource_class_id,
            )
            .where(tables.inventories.c.resource_provider_id.in_(batch))
        )
        for number, name in connection.execute(query):
            names[number].add(name)
    return names
