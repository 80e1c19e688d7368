"""Where a claim may go instead: the first of several of which there is room for what they ask."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from sqlalchemy import Connection

from placement_sched.db.sql import has_skip_locked
from placement_sched.errors import CapacityExceeded, Invalid
from placement_sched.model.provider import ConsumerClaim
from placement_sched.store.placement import capacity, consumers
from placement_sched.store.placement import resource_classes as classes
from placement_sched.store.placement import resource_providers as providers
from placement_sched.store.placement.capacity import InventoryIds, Want


def wants_of(
    connection: Connection, claims: Sequence[ConsumerClaim], provider_ids: Mapping[str, int]
) -> list[Want]:
    """Return every amount that the claims ask, in their order, with the ids of its place.

    Raises :class:`Invalid` for an unknown resource class.
    """
    asked = [
        (claim.consumer, uuid, name, amount)
        for claim in claims
        for uuid, amounts in claim.allocations.items()
        for name, amount in amounts.items()
    ]
    class_ids = classes.ids_by_name(connection, {name for _, _, name, _ in asked})
    for consumer, _, name, _ in asked:
        if name not in class_ids:
            raise Invalid(
                f"Unable to allocate inventory for consumer {consumer}: "
                f"No such resource class {name}."
            )
    return [
        Want(consumer, (provider_ids[uuid], class_ids[name]), uuid, name, amount)
        for consumer, uuid, name, amount in asked
    ]


def first_with_room(
    connection: Connection,
    claims: Iterable[ConsumerClaim],
    held: Mapping[InventoryIds, int],
    locked: Collection[int],
    full: CapacityExceeded,
) -> tuple[int, list[Want]]:
    """Return the first of the claims that there is room for, by number from 1 on, and its amounts.

    Its providers are locked then, beside those with the ids ``locked``. What is read of all claims
    at once is not locked, and says only which have no room; those that may have some are locked
    one after the other until one has. ``held`` is as in :func:`capacity.check`. Providers are
    locked in the order of their ids; to wait for one that comes before those that are locked could
    be a deadlock, so it is passed over if another transaction has locked it, or if the server
    cannot leave out locked rows.

    Raises ``full`` if there is none.
    """
    every = tuple(claims)
    uuids = sorted({uuid for claim in every for uuid in claim.allocations})
    found = consumers.ids_of(connection, {consumers.PROVIDER: uuids})
    ids = {uuid: number for (_, uuid), number in found.items()}
    there = {
        at: claim
        for at, claim in enumerate(every, start=1)
        if claim.allocations.keys() <= ids.keys()
    }
    amounts = iter(wants_of(connection, list(there.values()), ids))
    wants = {
        at: list(islice(amounts, sum(map(len, claim.allocations.values()))))
        for at, claim in there.items()
    }
    rooms = capacity.read(connection, {one.place for some in wants.values() for one in some})
    mine = set(locked)
    for at, some in wants.items():
        if not capacity.fits(rooms, some, held):
            continue
        more = {want.place[0] for want in some} - mine
        is_before = bool(more) and min(more) < max(mine)
        if is_before and not has_skip_locked(connection):
            continue
        locked_now = providers.lock(connection, more, without_waiting=is_before).keys()
        mine |= locked_now
        if locked_now != more:
            continue
        try:
            capacity.check(connection, some, held)
        except CapacityExceeded:  # taken since the rooms were read
            continue
        return at, some
    raise full
