"""Allocations: who holds how much of what, and THE write through which every claim goes."""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from placement_sched.db import sql, tables
from placement_sched.db.sql import has_skip_locked
from placement_sched.errors import CapacityExceeded, ConcurrentUpdate, Invalid
from placement_sched.limits import MAX_HELD_AMOUNTS
from placement_sched.model.provider import UNCHECKED, Allocation, Consumer, ConsumerClaim, Taken
from placement_sched.store.placement import capacity, consumers, inventories
from placement_sched.store.placement import consumers as holders
from placement_sched.store.placement import resource_classes as classes
from placement_sched.store.placement import resource_providers as providers
from placement_sched.store.placement.capacity import InventoryIds, Want
from placement_sched.store.placement.consumers import PROVIDER, Owner, Record
from placement_sched.store.placement.resource_providers import BySpelling


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


_COLUMNS = tables.allocations.c
#: Times are kept in whole seconds.
_RESOLUTION = timedelta(seconds=1)

# Statements of every claim are built once: building one takes longer than sending it.
_FREE = delete(tables.allocations).where(holders.OF_CONSUMERS)
_HOLD = insert(tables.allocations)
_ALLOCATIONS: Select[Any] = (
    select(
        _COLUMNS.consumer_id,
        tables.consumers.c.generation.label("consumer_generation"),
        tables.projects.c.external_id.label("project_id"),
        tables.users.c.external_id.label("user_id"),
        tables.consumer_types.c.name.label("consumer_type"),
        tables.resource_providers.c.uuid.label("provider_uuid"),
        tables.resource_providers.c.generation.label("provider_generation"),
        tables.resource_classes.c.name.label("resource_class"),
        _COLUMNS.used,
        _COLUMNS.created_at,
        _COLUMNS.updated_at,
    )
    .join(
        tables.resource_providers, tables.resource_providers.c.id == _COLUMNS.resource_provider_id
    )
    .join(tables.resource_classes, tables.resource_classes.c.id == _COLUMNS.resource_class_id)
    .outerjoin(tables.consumers, tables.consumers.c.uuid == _COLUMNS.consumer_id)
    .outerjoin(tables.projects, tables.projects.c.id == tables.consumers.c.project_id)
    .outerjoin(tables.users, tables.users.c.id == tables.consumers.c.user_id)
    .outerjoin(
        tables.consumer_types, tables.consumer_types.c.id == tables.consumers.c.consumer_type_id
    )
    .order_by(_COLUMNS.id)
)
_OF_CONSUMER = BySpelling.of(_ALLOCATIONS, _COLUMNS.consumer_id)
# One question for the provider and what is allocated of it, without the owners.
_OF_PROVIDER = BySpelling.of(
    select(
        tables.resource_providers.c.uuid,
        func.coalesce(tables.resource_providers.c.generation, 0),
        _COLUMNS.consumer_id,
        tables.consumers.c.generation,
        tables.resource_classes.c.name,
        _COLUMNS.used,
        func.coalesce(_COLUMNS.updated_at, _COLUMNS.created_at),
    )
    .select_from(tables.resource_providers)
    .outerjoin(tables.allocations, _COLUMNS.resource_provider_id == tables.resource_providers.c.id)
    .outerjoin(tables.resource_classes, tables.resource_classes.c.id == _COLUMNS.resource_class_id)
    .outerjoin(tables.consumers, tables.consumers.c.uuid == _COLUMNS.consumer_id)
    .order_by(_COLUMNS.id)
)


def of_consumer(connection: Connection, uuid: str) -> tuple[Allocation, ...]:
    """Return what a consumer holds, under whichever spelling of its uuid, by provider and class."""
    return tuple(map(_allocation, _OF_CONSUMER.found(connection, uuid)))


def of_consumers(connection: Connection, uuids: Collection[str]) -> tuple[Allocation, ...]:
    """Return what these consumers hold, by provider and class."""
    rows = sql.rows_among(connection, _ALLOCATIONS, _COLUMNS.consumer_id, uuids)
    return tuple(map(_allocation, rows))


def of_several(
    connection: Connection, uuids: Collection[str], named_at: str
) -> tuple[Allocation, ...]:
    """Return what the consumers hold that a request names at this place.

    Raises :class:`TooComplex` where several hold more than :data:`MAX_HELD_AMOUNTS` amounts.
    """
    if len(uuids) < 2:
        return of_consumers(connection, uuids)
    query = _ALLOCATIONS.order_by(None).order_by(*holders.BY_CONSUMER).limit(MAX_HELD_AMOUNTS + 1)
    rows = list(sql.rows_among(connection, query, _COLUMNS.consumer_id, uuids))
    holders.refuse_too_many_held(len(rows), named_at)
    return tuple(map(_allocation, rows))


def of_provider(connection: Connection, uuid: str) -> tuple[int, tuple[Taken, ...]]:
    """Return a provider's generation, and what is allocated of it; raises :class:`NotFound`."""
    rows = _OF_PROVIDER.rows(connection, uuid)
    taken = tuple(
        Taken(consumer, generation, name, used, changed)
        for _, _, consumer, generation, name, used, changed in rows
        if name is not None
    )
    return rows[0][1], taken


def everything(connection: Connection) -> tuple[Allocation, ...]:
    """Return every allocation there is."""
    return tuple(map(_allocation, connection.execute(_ALLOCATIONS)))


def remove(connection: Connection, uuids: Collection[str]) -> int:
    """Free all that these consumers hold, and forget them; return how many allocations went.

    Raises no provider's generation, as OpenStack placement does not.
    """
    records = holders.lock(connection, uuids)
    freed = sum(
        connection.execute(_FREE, {"consumers": batch}).rowcount
        for batch in sql.batches(sorted(uuids))
    )
    holders.remove(connection, records.values())
    return freed


def replace(
    connection: Connection,
    claims: Sequence[ConsumerClaim],
    now: datetime,
    *,
    recorded: bool = False,
    decided: bool = False,
    named_at: str | None = None,
) -> None:
    """Make each consumer hold exactly what its claim says: all claims, or (by an error) none.

    Runs inside one write transaction of the caller's, with a number of statements that does not
    depend on how many consumers, providers and classes there are. Locks first the consumers (those
    known, then those made, each in order of uuid), then what they hold, then the providers that are
    asked, in order of id, and counts only after that: so it never over-allocates, whatever others
    write. Raises the generations of the consumers and of the providers that are asked, and, as
    OpenStack placement does, of the providers of a consumer that gives up everything (not of those
    that one moves away from).

    What is ``recorded`` is held already, whatever inventories have become since: that there is an
    inventory is all that is asked of it. Its rows are written as older than the inventories: so
    the verification of invariants knows those that an inventory may have shrunk below since.

    What is ``decided`` is a claim of the scheduler, recorded with its decision; the consumers that
    it makes are known apart from others.

    ``named_at`` is where a request names the consumers, whose work is bounded then.

    Raises :class:`Invalid` for an unknown provider or class, :class:`ConcurrentUpdate` for another
    generation than the one given, :class:`CapacityExceeded`, and, of a request, :class:`TooComplex`
    where several consumers hold more than :data:`MAX_HELD_AMOUNTS` amounts so far.
    """
    prepared = _prepare(connection, claims, now, decided=decided, named_at=named_at)
    wants = wants_of(connection, prepared.holding, prepared.provider_ids)
    _lock(connection, prepared, wants)
    times: Mapping[InventoryIds, datetime] = {}
    if recorded:
        capacity.check_stocked(connection, wants)
        changed = inventories.changed_at(connection, {want.place[0] for want in wants})
        times = {place: min(now, at - _RESOLUTION) for place, at in changed.items()}
    else:
        capacity.check(connection, wants, prepared.own)
    _write(connection, prepared, wants, now, times)


def replace_by_first(
    connection: Connection, claim: ConsumerClaim, others: Iterable[ConsumerClaim], now: datetime
) -> int:
    """Make a consumer hold what its claim says, or the first of ``others`` that there is room for.

    ``others``, the next best, are looked at only where there is no room for the claim, and are of
    the same consumer and owner. Returns the number of the claim that was written: 0 for the first,
    then 1, 2, ... What is found to have no room is judged under its lock, or by what was committed
    last; what is written, under its lock always. The scheduler alone claims so: it is ``decided``.

    Raises what :func:`replace` raises.
    """
    prepared = _prepare(connection, [claim], now, decided=True)
    wants = wants_of(connection, [claim], prepared.provider_ids)
    locked = _lock(connection, prepared, wants)
    at = 0
    try:
        capacity.check(connection, wants, prepared.own)
    except CapacityExceeded as full:
        at, wants = first_with_room(connection, others, prepared.own, locked, full)
    _write(connection, prepared, wants, now)
    return at


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What claims are written with: their consumers, locked, and what these hold so far."""

    holding: Sequence[ConsumerClaim]
    provider_ids: Mapping[str, int]
    owners: Mapping[str, Owner]
    records: Mapping[str, Record]
    held: Sequence[holders.HeldAmount]

    @property
    def left(self) -> set[int]:
        """Return the ids of the providers of consumers that give up everything."""
        return {one.place[0] for one in self.held if one.consumer not in self.owners}

    @property
    def own(self) -> dict[InventoryIds, int]:
        """Return how much the consumers hold together, by place."""
        own: dict[InventoryIds, int] = defaultdict(int)
        for one in self.held:
            own[one.place] += one.used
        return own


def _prepare(
    connection: Connection,
    claims: Sequence[ConsumerClaim],
    now: datetime,
    *,
    decided: bool,
    named_at: str | None = None,
) -> _Prepared:
    """Make and lock the consumers of claims; raise :class:`ConcurrentUpdate` as they say."""
    ordered = sorted(claims, key=lambda claim: claim.consumer)
    holding = [claim for claim in ordered if claim.allocations]
    asked = sorted({uuid for claim in holding for uuid in claim.allocations})
    ids = holders.ids_of(connection, {**holders.owner_names(holding), PROVIDER: asked})
    owners = holders.owners(connection, holding, ids, now)
    # A consumer that the caller takes to be new is made before it is looked for; one that is there
    # after all is locked when it cannot be made.
    known = [one.consumer for one in ordered if one.generation is not None or not one.allocations]
    records = holders.lock(connection, known)
    unknown = {uuid: owner for uuid, owner in owners.items() if uuid not in records}
    records |= holders.create(connection, unknown, now, decided=decided)
    before = holders.held_so_far(connection, [claim.consumer for claim in ordered], named_at)
    _check_generations(ordered, records, {one.consumer for one in before})
    refuse_unknown(asked, {uuid for kind, uuid in ids if kind == PROVIDER})
    provider_ids = {uuid: number for (kind, uuid), number in ids.items() if kind == PROVIDER}
    return _Prepared(holding, provider_ids, owners, records, before)


def _lock(connection: Connection, prepared: _Prepared, wants: Collection[Want]) -> set[int]:
    """Lock the providers that are asked or left, and return their ids; refuse one that is gone."""
    asked = {want.place[0]: want.provider_uuid for want in wants}
    locked = set(providers.lock(connection, asked.keys() | prepared.left))
    refuse_unknown(sorted(asked.values()), {asked[one] for one in locked & asked.keys()})
    return locked


def _write(
    connection: Connection,
    prepared: _Prepared,
    wants: Sequence[Want],
    now: datetime,
    times: Mapping[InventoryIds, datetime] = MappingProxyType({}),
) -> None:
    """Replace what the consumers hold, and raise the generations that this changes.

    ``times`` are those of what is held at places where it is older than ``now``.
    """
    owners, records = prepared.owners, prepared.records
    _rewrite(connection, prepared.held, [(one, times.get(one.place, now)) for one in wants])
    holders.finish(connection, {uuid: records[uuid] for uuid in owners}, owners, now)
    holders.remove(connection, [records[uuid] for uuid in records.keys() - owners.keys()])
    bumped = prepared.left | {want.place[0] for want in wants}
    providers.bump_generations(connection, bumped, now)


def check_generations(
    connection: Connection, claims: Sequence[ConsumerClaim], named_at: str
) -> None:
    """Lock the consumers that are there, and what they hold.

    Raises :class:`ConcurrentUpdate` for another generation than the one that a claim gives, and
    :class:`TooComplex` as :func:`replace` does.
    """
    ordered = sorted(claims, key=lambda claim: claim.consumer)
    uuids = [claim.consumer for claim in ordered]
    records = holders.lock(connection, uuids)
    before = holders.held_so_far(connection, uuids, named_at)
    _check_generations(ordered, records, {one.consumer for one in before})


def refuse_unknown(asked: Iterable[str], known: Container[str]) -> None:
    """Raise :class:`Invalid` where a claim asks a provider, by uuid, that is not there."""
    for uuid in asked:
        if uuid not in known:
            raise Invalid(f"Allocation for resource provider '{uuid}' that does not exist.")


def _check_generations(
    claims: Sequence[ConsumerClaim], records: Mapping[str, Record], holding: Collection[str]
) -> None:
    for claim in claims:
        record = records.get(claim.consumer)
        found, given = record.generation if record else None, claim.generation
        # OpenStack placement leaves consumers without allocations when a request of its own
        # fails; such a one is as good as new.
        as_new = given is None and claim.consumer not in holding
        if given not in {UNCHECKED, found} and not as_new:
            expected, got = ("null" if one is None else one for one in (found, given))
            raise ConcurrentUpdate(
                f"consumer generation conflict - expected {expected} but got {got} "
                f"for consumer {claim.consumer}"
            )


def _rewrite(
    connection: Connection,
    held: Collection[holders.HeldAmount],
    wants: Iterable[tuple[Want, datetime]],
) -> None:
    """Free what is held, and write what is wanted, each with its time."""
    for batch in sql.batches(sorted({one.consumer for one in held})):
        connection.execute(_FREE, {"consumers": batch})
    rows = [
        {
            "resource_provider_id": want.place[0],
            "resource_class_id": want.place[1],
            "consumer_id": want.consumer,
            "used": want.amount,
            "created_at": at,
            "updated_at": at,
        }
        for want, at in wants
    ]
    if rows:
        sql.insert_by(connection, _HOLD, rows)


def _allocation(row: Sequence[Any]) -> Allocation:
    uuid, generation, project_id, user_id, consumer_type, *held = row
    provider_uuid, provider_generation, resource_class, used, created_at, updated_at = held
    return Allocation(
        consumer=Consumer(
            uuid=uuid,
            generation=generation,
            project_id=project_id,
            user_id=user_id,
            consumer_type=consumer_type,
        ),
        provider_uuid=provider_uuid,
        provider_generation=provider_generation or 0,
        resource_class=resource_class,
        used=used,
        created_at=created_at,
        updated_at=updated_at,
    )
