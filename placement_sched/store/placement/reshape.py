"""A reshape: inventories and allocations move between providers in one write."""

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
    """Lock all that a reshape touches and return the providers whose inventories it sets.

    ``generations`` are those that the caller has seen, by provider uuid. Locks in the order in
    which claims do, so that a reshape and a claim wait for each other and do not deadlock. Raises
    :class:`Invalid` for an unknown provider and :class:`ConcurrentUpdate` for another generation,
    of a provider or of a consumer, and :class:`TooComplex` where the consumers hold too much: all
    this before the inventories are looked at.
    """
    consumers.lock(connection, [claim.consumer for claim in claims])
    asked = {uuid for claim in claims for uuid in claim.allocations}
    found = resource_providers.by_uuids(connection, asked.union(generations))
    locked = resource_providers.lock(connection, [provider.id for provider in found.values()])
    known = {
        uuid: provider._replace(generation=locked[provider.id])
        for uuid, provider in found.items()
        if provider.id in locked
    }
    for uuid, given in generations.items():
        if uuid not in known:
            raise Invalid(
                f"Resource provider {uuid} in inventories not found: "
                f"No resource provider with uuid {uuid} found",
                code="placement.resource_provider.not_found",
            )
        if (actual := known[uuid].generation) != given:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {uuid}: "
                f"actual: {actual}, given: {given}"
            )
    allocations.check_generations(connection, claims, "$.allocations")
    allocations.refuse_unknown(sorted(asked), known)
    return {uuid: known[uuid] for uuid in generations}


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
    # Looked at once: others change no inventory of a locked provider.
    before = inventories.find(connection, wanted)
    inventories.put(connection, wanted, now, before)
    filled = [number for number, stock in wanted.items() if stock]
    resource_providers.bump_generations(connection, filled, now)
    allocations.replace(connection, claims, now)
    kept = {(number, one.resource_class) for number, stock in wanted.items() for one in stock}
    gone = sql.grouped(before.keys() - kept)
    # In the order asked for: of several that are in use, the first is named.
    going = {number: set(gone[number]) for number in wanted if number in gone}
    inventories.remove(connection, going, before)
    resource_providers.bump_generations(connection, wanted, now)
