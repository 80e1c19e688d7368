"""Traits: names that providers may carry, standard ones and ``CUSTOM_`` ones."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from placement_sched.db import tables
from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing, inserted
from placement_sched.db.tables import resource_provider_traits, traits
from placement_sched.errors import ConcurrentUpdate, InUse, NotFound
from placement_sched.model.trait import Trait
from placement_sched.store import resource_providers

_ON_PROVIDERS = resource_provider_traits.c

_FIELDS = (traits.c.id, traits.c.name, traits.c.created_at, traits.c.updated_at)
_TRAITS: Select[tuple[int, str, datetime, datetime]] = select(*_FIELDS).order_by(traits.c.id)
_NAMED = traits.c.name.in_(bindparam("names", expanding=True))
_IDS = select(traits.c.name, traits.c.id).where(_NAMED)
_OF_NAMES = _TRAITS.where(_NAMED)
_OF_PROVIDER = _TRAITS.join(resource_provider_traits, _ON_PROVIDERS.trait_id == traits.c.id).where(
    _ON_PROVIDERS.resource_provider_id == bindparam("provider")
)
_PROVIDERS = tables.resource_providers.c
# One question for the provider and its traits: asking twice takes nearly twice as long.
_CARRIED = resource_providers.BySpelling.of(
    select(
        _PROVIDERS.id.label("provider_id"),
        _PROVIDERS.uuid,
        func.coalesce(_PROVIDERS.generation, 0).label("generation"),
        *_FIELDS,
    )
    .select_from(tables.resource_providers)
    .outerjoin(resource_provider_traits, _ON_PROVIDERS.resource_provider_id == _PROVIDERS.id)
    .outerjoin(traits, traits.c.id == _ON_PROVIDERS.trait_id)
    .order_by(traits.c.id)
)
_TAKE_OFF = delete(resource_provider_traits).where(
    _ON_PROVIDERS.resource_provider_id == bindparam("provider"),
    _ON_PROVIDERS.trait_id.in_(bindparam("traits", expanding=True)),
)
_PUT_ON = insert(resource_provider_traits)


class Carried(NamedTuple):
    """The traits that a provider has at a generation, by id."""

    provider_id: int
    generation: int
    traits: tuple[Trait, ...]


def all_names(connection: Connection) -> frozenset[str]:
    """Return the name of every trait."""
    return frozenset(connection.scalars(select(traits.c.name)))


def ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there."""
    return {
        name: number
        for batch in batches(set(names))
        for name, number in connection.execute(_IDS, {"names": batch})
    }


def by_names(connection: Connection, names: Iterable[str]) -> tuple[Trait, ...]:
    """Return those of the traits of these names that are there, by id."""
    wanted = set(names)
    found = [
        _trait(row)
        for batch in batches(wanted)
        for row in connection.execute(_OF_NAMES, {"names": batch})
        # MariaDB may compare without heed of case.
        if row.name in wanted
    ]
    return tuple(sorted(found, key=lambda trait: trait.id))


def carried_by(connection: Connection, uuid: str) -> Carried:
    """Return the traits of the provider of this uuid; raises :class:`NotFound`."""
    found = connection.execute(*_CARRIED.asked(uuid)).all()
    kept = resource_providers.meant(uuid, {row.uuid for row in found})
    rows = [row for row in found if row.uuid == kept]
    held = tuple(Trait._make(row[3:]) for row in rows if row.id is not None)
    return Carried(rows[0].provider_id, rows[0].generation, held)


def by_name(connection: Connection, name: str) -> Trait:
    """Return the trait of this name; raises :class:`NotFound`."""
    row = connection.execute(_TRAITS.where(traits.c.name == name)).one_or_none()
    # MariaDB may compare without heed of case.
    if row is None or row.name != name:
        raise _no_such(name)
    return _trait(row)


def search(
    connection: Connection,
    *,
    names: Collection[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> tuple[Trait, ...]:
    """Return the traits of these names, or that begin so, or that some provider (none) has.

    Names are compared exactly, as they are by every other question about traits.
    """
    query = _TRAITS
    if names is not None:
        query = query.where(traits.c.name.in_(set(names)))
    if prefix is not None:
        query = query.where(traits.c.name.startswith(prefix, autoescape=True))
    if associated is not None:
        used = exists().where(_ON_PROVIDERS.trait_id == traits.c.id)
        query = query.where(used if associated else ~used)
    # MariaDB compares names, and SQLite prefixes, without regard to case.
    return tuple(
        _trait(row)
        for row in connection.execute(query)
        if (names is None or row.name in names) and row.name.startswith(prefix or "")
    )


def add_missing(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the traits of these names that are not there yet."""
    insert_missing(connection, traits, [{"name": name, "created_at": now} for name in names])


def ensure(connection: Connection, name: str, now: datetime) -> bool:
    """Create the trait of this name unless it is there; return whether it was created."""
    if ids_by_name(connection, [name]):
        return False
    return inserted(connection, traits, {"name": name, "created_at": now})


def remove(connection: Connection, trait: Trait) -> None:
    """Delete a trait; raises :class:`InUse` while a provider has it."""
    in_use = InUse(f"The trait {trait.name} is in use by a resource provider.")
    users = select(_ON_PROVIDERS.trait_id).where(_ON_PROVIDERS.trait_id == trait.id).limit(1)
    if connection.scalar(users) is not None:
        raise in_use
    try:
        gone = connection.execute(delete(traits).where(traits.c.id == trait.id))
    except IntegrityError:  # a provider got it meanwhile
        raise in_use from None
    if not gone.rowcount:  # somebody else deleted it meanwhile
        raise _no_such(trait.name)


def of_provider(connection: Connection, provider_id: int) -> tuple[Trait, ...]:
    """Return the traits that a provider has."""
    return tuple(_trait(row) for row in connection.execute(_OF_PROVIDER, {"provider": provider_id}))


def replace(
    connection: Connection,
    provider_id: int,
    held: Collection[int],
    wanted: Collection[int],
    now: datetime,
) -> bool:
    """Make a provider have these traits in place of those ``held``; return whether they differ.

    The caller holds the provider's row, and bumps its generation.
    """
    gone, new = set(held).difference(wanted), set(wanted).difference(held)
    if gone:
        connection.execute(_TAKE_OFF, {"provider": provider_id, "traits": sorted(gone)})
    if new:
        _insert(connection, [(provider_id, number) for number in sorted(new)], now)
    return bool(gone or new)


def replace_many(
    connection: Connection, names_by_provider_id: Mapping[int, Collection[str]], now: datetime
) -> frozenset[int]:
    """Make these the only traits of each provider; return the ids of those that changed.

    The caller has made the traits, has locked the providers, and bumps the generations of those
    that changed. The number of statements does not depend on how many providers there are.
    """
    ids = ids_by_name(connection, {name for some in names_by_provider_id.values() for name in some})
    wanted = {
        (provider, ids[name]) for provider, some in names_by_provider_id.items() for name in some
    }
    found = {
        (provider, trait)
        for batch in batches(sorted(names_by_provider_id))
        for provider, trait in connection.execute(
            select(_ON_PROVIDERS.resource_provider_id, _ON_PROVIDERS.trait_id).where(
                _ON_PROVIDERS.resource_provider_id.in_(batch)
            )
        )
    }
    for trait in sorted({trait for _, trait in found - wanted}):
        for batch in batches(sorted(one for one, of in found - wanted if of == trait)):
            connection.execute(
                delete(resource_provider_traits).where(
                    _ON_PROVIDERS.trait_id == trait, _ON_PROVIDERS.resource_provider_id.in_(batch)
                )
            )
    if wanted - found:
        _insert(connection, sorted(wanted - found), now)
    return frozenset(provider for provider, _ in wanted ^ found)


def put_on(
    connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
) -> frozenset[int]:
    """Put a trait, made where it is missing, on providers; return the ids of those that lacked it.

    Locks these providers and bumps their generations.
    """
    wanted = set(provider_ids)
    if not wanted:
        return frozenset()
    add_missing(connection, [name], now)
    trait_id = ids_by_name(connection, [name])[name]
    present = resource_providers.lock(connection, wanted)
    lacking = frozenset(present) - _carriers(connection, trait_id, wanted)
    if lacking:
        _insert(connection, [(number, trait_id) for number in sorted(lacking)], now)
        resource_providers.bump_generations(connection, lacking, now)
    return lacking


def take_off(
    connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
) -> frozenset[int]:
    """Take a trait from providers; return the ids of those that had it.

    Locks these providers and bumps their generations.
    """
    wanted = set(provider_ids)
    trait_id = ids_by_name(connection, [name]).get(name)
    if trait_id is None or not wanted:
        return frozenset()
    resource_providers.lock(connection, wanted)
    carriers = _carriers(connection, trait_id, wanted)
    for batch in batches(sorted(carriers)):
        connection.execute(
            delete(resource_provider_traits).where(
                _ON_PROVIDERS.trait_id == trait_id, _ON_PROVIDERS.resource_provider_id.in_(batch)
            )
        )
    resource_providers.bump_generations(connection, carriers, now)
    return carriers


def _carriers(
    connection: Connection, trait_id: int, provider_ids: Collection[int]
) -> frozenset[int]:
    """Return those of the providers that have the trait."""
    return frozenset(
        number
        for batch in batches(sorted(provider_ids))
        for number in connection.scalars(
            select(_ON_PROVIDERS.resource_provider_id).where(
                _ON_PROVIDERS.trait_id == trait_id, _ON_PROVIDERS.resource_provider_id.in_(batch)
            )
        )
    )


def _no_such(name: str) -> NotFound:
    return NotFound(f"No such trait(s): {name}.")


def _insert(connection: Connection, pairs: Iterable[tuple[int, int]], now: datetime) -> None:
    """Put traits on providers; raises :class:`ConcurrentUpdate` where one is gone meanwhile."""
    rows = [
        {"resource_provider_id": provider, "trait_id": trait, "created_at": now}
        for provider, trait in pairs
    ]
    try:
        connection.execute(_PUT_ON, rows)
    except IntegrityError:
        raise ConcurrentUpdate(
            "a trait was deleted, or put on its provider, by somebody else meanwhile; try again"
        ) from None


def _trait(row: Row[tuple[int, str, datetime, datetime]]) -> Trait:
    return Trait._make(row)
