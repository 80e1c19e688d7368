"""Provider trees: who is whose parent, and what that allows."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.model.names import canonical
from placement_sched.model.provider import Provider
from placement_sched.store import change_counters
from placement_sched.store.placement import resource_providers as providers

_COLUMNS = resource_providers.c
#: Changes of two trees at the same moment meet, needlessly, on one in so many.
_TREES = 256


def create(
    connection: Connection, *, uuid: str, name: str, parent_uuid: str | None, now: datetime
) -> Provider:
    """Create a provider, under a parent or as the root of a tree of its own, and return it.

    Raises :class:`Invalid` for a parent that is not there or is the provider itself, and
    :class:`Duplicate` for a name or uuid that is taken.
    """
    subject = f'Unable to create resource provider "{name}", {uuid}'
    if _is_same(parent_uuid, uuid):
        raise Invalid(f"{subject}: parent provider UUID cannot be same as UUID.")
    parent = _parent(connection, parent_uuid, subject)
    if parent is not None:
        # It can neither go nor move to another tree before we are done.
        _hold(connection, [parent])
    providers.create_many(connection, [providers.NewProvider(uuid, name, parent)], now)
    return providers.by_uuid(connection, uuid)


def _is_same(uuid: str | None, other: str | None) -> bool:
    """Return whether two name the same provider, however spelled; None names no provider."""
    if uuid is None or other is None:
        return uuid is other
    return canonical(uuid) == canonical(other)


def _parent(connection: Connection, uuid: str | None, subject: str) -> Provider | None:
    if uuid is None:
        return None
    if (parent := providers.find(connection, uuid)) is None:
        raise Invalid(f"{subject}: parent provider UUID does not exist.")
    return parent


def _hold(connection: Connection, seen: Collection[Provider]) -> None:
    """Lock providers and their roots.

    Raises :class:`ConcurrentUpdate` where one was moved or deleted, or made again, before the lock.
    """
    # The locked rows may stay as they are: what other nodes learn of is this.
    change_counters.exclude(connection, {f"trees/{one.root_id % _TREES}" for one in seen})
    providers.lock(connection, {number for one in seen for number in (one.id, one.root_id)})
    now = providers.by_uuids(connection, [one.uuid for one in seen])
    for provider in seen:
        there = now.get(provider.uuid)
        if there is None or (there.id, there.root_id) != (provider.id, provider.root_id):
            raise ConcurrentUpdate(
                f"The tree of resource provider {provider.uuid} has just been changed; try again."
            )


def move(
    connection: Connection, uuid: str, parent_uuid: str | None, *, anywhere: bool, now: datetime
) -> None:
    """Put a provider, with all below it, under another parent; None makes it a root.

    Unless ``anywhere`` (1.37 and later) only a root can be moved. Generations stay: they
    are of what a provider has, not of where it is. Raises :class:`NotFound` for the provider and
    :class:`Invalid` for a move that is not allowed or would make a loop.
    """
    provider = providers.by_uuid(connection, uuid)
    if _is_same(provider.parent_uuid, parent_uuid):
        return
    subject = f"Unable to save resource provider {uuid}"
    if provider.parent_uuid is not None and not anywhere:
        what = "un-parenting" if parent_uuid is None else "re-parenting"
        raise Invalid(f"{subject}: {what} a provider is not currently allowed.")
    parent = _parent(connection, parent_uuid, subject)
    # Each move within a tree holds its root, so two moves cannot close a loop.
    _hold(connection, [provider] if parent is None else [provider, parent])
    below = _with_descendants(connection, [provider])
    if parent is not None and parent.id in below:
        raise Invalid(f"{subject}: creating loop in the provider tree is not allowed.")
    rows = update(resource_providers)
    root_id, parent_id = (parent.root_id, parent.id) if parent else (provider.id, None)
    moved = rows.values(root_provider_id=root_id)
    sql.change_among(connection, moved, _COLUMNS.id, sorted(below))
    hung = rows.values(parent_provider_id=parent_id, updated_at=now)
    connection.execute(hung.where(_COLUMNS.id == provider.id))


def remove(connection: Connection, uuid: str) -> None:
    """Delete a provider with its inventories, traits and memberships.

    Raises :class:`NotFound`, and :class:`InUse` while it has children or allocations.
    """
    try:
        provider = providers.locked_by_uuid(connection, uuid)
    except NotFound as absence:
        raise NotFound(f"{absence.detail} for delete") from None
    children = select(_COLUMNS.id).where(_COLUMNS.parent_provider_id == provider.id).limit(1)
    if connection.scalar(children) is not None:
        raise InUse(
            f"Unable to delete parent resource provider {uuid}: It has child resource providers.",
            code="placement.resource_provider.cannot_delete_parent",
        )
    used = select(allocations.c.id).where(allocations.c.resource_provider_id == provider.id)
    if connection.scalar(used.limit(1)) is not None:
        raise _in_use(uuid, "Resource provider has allocations.")
    _forget(connection, [provider.id])


def _in_use(uuid: str, why: str) -> InUse:
    return InUse(
        f"Unable to delete resource provider {uuid}: {why}",
        code="placement.resource_provider.inuse",
    )


def remove_whole(connection: Connection, uuids: Collection[str]) -> None:
    """Delete those of these providers that are there, each with all below it.

    The number of statements does not depend on how many they are. Raises :class:`InUse` while any
    of them has allocations, and :class:`ConcurrentUpdate` where a tree is just being changed.
    """
    tops = list(providers.by_uuids(connection, uuids).values())
    _hold(connection, tops)
    below = _with_descendants(connection, tops)
    providers.lock(connection, below)
    columns = (allocations.c.resource_provider_id, allocations.c.consumer_id)
    used = select(*columns).order_by(*columns).limit(1)
    for number, consumer in sql.rows_among(connection, used, columns[0], sorted(below)):
        raise _in_use(below[number], f"consumer {consumer} has allocations of it.")
    _forget(connection, sorted(below))


def _with_descendants(connection: Connection, tops: Collection[Provider]) -> dict[int, str]:
    """Return the uuids of providers and of all below them, by id."""
    query = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.parent_provider_id)
    roots = {one.root_id for one in tops}
    rows = sql.rows_among(connection, query, _COLUMNS.root_provider_id, roots)
    children = sql.grouped((parent, (number, uuid)) for number, uuid, parent in rows)
    found = {one.id: one.uuid for one in tops}
    fresh = list(found)
    while fresh:
        below = dict(child for parent in fresh for child in children.get(parent, ()))
        found |= below
        fresh = list(below)
    return found


def _forget(connection: Connection, ids: Collection[int]) -> None:
    for table in (inventories, resource_provider_aggregates, resource_provider_traits):
        sql.change_among(connection, delete(table), table.c.resource_provider_id, ids)
    # MariaDB keeps a row to which a row points, be it the same one.
    loose = update(resource_providers).values(root_provider_id=None, parent_provider_id=None)
    sql.change_among(connection, loose, _COLUMNS.id, ids)
    sql.change_among(connection, delete(resource_providers), _COLUMNS.id, ids)
