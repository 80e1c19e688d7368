# SPDX-License-Identifier: Apache-2.0
"""Traits, their providers, and the traits that ``sync_traits`` has added."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Delete, Select, bindparam, delete, exists, select, update

from placement_sched.db import sql, tables
from placement_sched.db.tables import (
    get_max_length,
    resource_provider_traits,
    synced_traits,
    traits,
)
from placement_sched.errors import InUse, NotFound
from placement_sched.model.aggregates import ProviderTrait
from placement_sched.model.grouping import split_batches
from placement_sched.model.provider import Trait
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.aggregates import Associations

_ON_PROVIDERS, _PROVIDERS = resource_provider_traits.c, tables.resource_providers.c
_FIELDS = (traits.c.id, traits.c.name, traits.c.created_at, traits.c.updated_at)
_TRAITS: Select[tuple[int, str, datetime, datetime]] = select(*_FIELDS).order_by(traits.c.id)
_OF_NAMES = _TRAITS.where(traits.c.name.in_(bindparam("names", expanding=True)))
_DETAILS = resource_providers.DetailsQuery(
    _FIELDS,
    (resource_provider_traits, _ON_PROVIDERS.resource_provider_id == _PROVIDERS.id),
    (traits, traits.c.id == _ON_PROVIDERS.trait_id),
    order=traits.c.id,
)
#: The traits of providers.
ASSOCIATIONS = Associations(
    "a trait", resource_provider_traits, _ON_PROVIDERS.trait_id, traits.c.name
)
map_ids = ASSOCIATIONS.map_ids
replace = ASSOCIATIONS.replace
replace_many = ASSOCIATIONS.replace_many
add_to_providers = ASSOCIATIONS.add
remove_from_providers = ASSOCIATIONS.remove
map_providers = ASSOCIATIONS.map_providers
map_by_provider_id = ASSOCIATIONS.map_by_provider_id


class ProviderTraits(NamedTuple):
    """The traits of a provider, sorted by id, with the provider's generation."""

    provider_id: int
    generation: int
    traits: tuple[Trait, ...]


def list_names(connection: Connection) -> frozenset[str]:
    """Return the names of all traits."""
    return frozenset(connection.scalars(select(traits.c.name)))


def list_by_names(connection: Connection, names: Iterable[str]) -> tuple[Trait, ...]:
    """Return the existing traits with these names, sorted by id."""
    unique_names = set(names)
    rows = [
        Trait._make(row)
        for batch in split_batches(unique_names)
        for row in connection.execute(_OF_NAMES, {"names": batch})
        # MariaDB ignores the case of names.
        if row.name in unique_names
    ]
    return tuple(sorted(rows, key=lambda trait: trait.id))


def get_provider_traits(connection: Connection, uuid: str) -> ProviderTraits:
    """Return the traits of a provider, or raise :class:`NotFound`."""
    provider_id, generation, rows = _DETAILS.read(connection, uuid)
    return ProviderTraits(provider_id, generation, tuple(map(Trait._make, rows)))


def get_by_name(connection: Connection, name: str) -> Trait:
    """Return a trait, or raise :class:`NotFound` if it does not exist."""
    if not (matching := list_by_names(connection, [name])):
        raise _build_not_found(name)
    return matching[0]


def search(
    connection: Connection,
    *,
    names: Collection[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> tuple[Trait, ...]:
    """Return the traits that match all filters (None: no filter).

    ``associated`` is whether any provider has the trait. The case of names must match.
    """
    if prefix is not None and len(prefix) > get_max_length(traits.c.name):
        return ()
    query = _TRAITS
    if names is not None:
        query = query.where(traits.c.name.in_(set(names)))
    if prefix is not None:
        query = query.where(traits.c.name.startswith(prefix, autoescape=True))
    if associated is not None:
        is_used = exists().where(_ON_PROVIDERS.trait_id == traits.c.id)
        query = query.where(is_used if associated else ~is_used)
    # MariaDB ignores the case of names, and SQLite the case of prefixes.
    return tuple(
        Trait._make(row)
        for row in connection.execute(query)
        if (names is None or row.name in names) and row.name.startswith(prefix or "")
    )


def add_missing(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the traits with these names that do not exist."""
    sql.insert_missing(connection, traits, [{"name": name, "created_at": now} for name in names])


def ensure(connection: Connection, name: str, now: datetime) -> bool:
    """Create a trait unless it exists, and return whether it was created."""
    row = {"name": name, "created_at": now}
    return not map_ids(connection, [name]) and sql.try_insert(connection, traits, row)


def remove(connection: Connection, trait: Trait) -> None:
    """Delete a trait, or raise :class:`InUse`, or NotFound if it is gone."""
    in_use = InUse(f"The trait {trait.name} is in use by a resource provider.")
    users = select(_ON_PROVIDERS.trait_id).where(_ON_PROVIDERS.trait_id == trait.id).limit(1)
    if connection.scalar(users) is not None:
        raise in_use
    with sql.translate_rejection(in_use):  # another request has put it on a provider
        result = connection.execute(delete(traits).where(traits.c.id == trait.id))
    if not result.rowcount:  # another request has deleted it
        raise _build_not_found(trait.name)


def _build_not_found(name: str) -> NotFound:
    return NotFound(f"No such trait(s): {name}.")


_SYNCED = synced_traits.c

_OF_PAIR = (_SYNCED.provider_uuid == bindparam("provider"), _SYNCED.trait == bindparam("name"))
_FORGET = delete(synced_traits).where(*_OF_PAIR)
# Provider ids are never reused: if the id is gone, a provider with the same uuid is a new provider.
_IS_PROVIDER_DELETED = _SYNCED.provider_id.is_not(None) & ~exists().where(
    tables.resource_providers.c.id == _SYNCED.provider_id
)
_REBIND = (
    update(synced_traits)
    .where(*_OF_PAIR)
    .values(aggregate_uuid=bindparam("aggregate"), updated_at=bindparam("now"))
)


def read_synced(connection: Connection) -> dict[ProviderTrait, str]:
    """Map recorded pairs of provider and trait to the requiring aggregates."""
    query = select(_SYNCED.provider_uuid, _SYNCED.trait, _SYNCED.aggregate_uuid)
    rows = connection.execute(query.where(~_IS_PROVIDER_DELETED))
    return {(provider, trait): aggregate for provider, trait, aggregate in rows}


def record_synced(
    connection: Connection,
    pairs: Mapping[ProviderTrait, str],
    ids: Mapping[str, int],
    now: datetime,
) -> None:
    """Record the aggregate that requires each trait added to a provider.

    ``sync_traits`` has added the traits. ``pairs`` maps pairs of provider uuid and trait name to
    the uuid of the aggregate, which replaces an earlier record. ``ids`` maps provider uuids to ids.
    """
    rows = [
        {
            "provider_uuid": provider,
            "trait": trait,
            "aggregate_uuid": aggregate,
            "provider_id": ids[provider],
            "created_at": now,
            "updated_at": now,
        }
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    key, changing = ("provider_uuid", "trait"), ("aggregate_uuid", "provider_id", "updated_at")
    sql.insert_or_update(connection, synced_traits, rows, key=key, changing=changing)


def rebind_synced(
    connection: Connection, pairs: Mapping[ProviderTrait, str], now: datetime
) -> None:
    """Replace the recorded aggregates of pairs of provider uuid and trait."""
    rows = [
        {"provider": provider, "name": trait, "aggregate": aggregate, "now": now}
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    if rows:
        connection.execute(_REBIND, rows)


def forget_synced(
    connection: Connection, pairs: Collection[ProviderTrait], statement: Delete = _FORGET
) -> None:
    """Remove pairs of provider uuid and trait from the record."""
    if rows := [{"provider": provider, "name": trait} for provider, trait in sorted(pairs)]:
        connection.execute(statement, rows)


def forget_deleted_providers(connection: Connection) -> None:
    """Remove the pairs of deleted providers from the record."""
    # The query locks no providers.
    query = select(_SYNCED.provider_uuid, _SYNCED.trait).where(_IS_PROVIDER_DELETED)
    pairs = [(provider, trait) for provider, trait in connection.execute(query)]
    forget_synced(connection, pairs, _FORGET.where(_IS_PROVIDER_DELETED))
