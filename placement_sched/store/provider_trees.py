"""Provider trees: who is whose parent, and what that allows."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete, select, update

from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.model.allocation import canonical
from placement_sched.model.provider import Provider
from placement_sched.store.resource_providers import (
    NewProvider,
    by_uuid,
    by_uuids,
    create_many,
    find,
    lock,
    locked_by_uuid,
)

_COLUMNS = resource_providers.c


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
    parent = None if parent_uuid is None else _held_parent(connection, parent_uuid, subject)
    create_many(connection, [NewProvider(uuid, name, parent)], now)
    return by_uuid(connection, uuid)


def _is_same(uuid: str | None, other: str | None) -> bool:
    """Return whether two name the same provider, however they are spelled; None names nobody."""
    if uuid is None or other is None:
        return uuid is other
    return canonical(uuid) == canonical(other)


def _held_parent(connection: Connection, uuid: str, subject: str) -> Provider:
    """Return a parent that can neither go nor move to another tree before we are done."""
    parent = find(connection, uuid)
    if parent is not None:
        lock(connection, [parent.id, parent.root_id])
        _refuse_stale(connection, [parent])
        return parent
    raise Invalid(f"{subject}: parent provider UUID does not exist.")


def _refuse_stale(connection: Connection, seen: list[Provider]) -> None:
    """Raise :class:`ConcurrentUpdate` where providers were moved or deleted before the lock."""
    now = by_uuids(connection, [provider.uuid for provider in seen])
    for provider in seen:
        if provider.uuid not in now or now[provider.uuid].root_id != provider.root_id:
            raise ConcurrentUpdate(
                f"The tree of resource provider {provider.uuid} has just been changed; try again."
            )


def move(
    connection: Connection, uuid: str, parent_uuid: str | None, *, anywhere: bool, now: datetime
) -> None:
    """Put a provider, with all below it, under another parent; None makes it a root.

    Unless ``anywhere`` (1.37 and later) only a root can be moved. Generations stay: they tell what
    a provider has, not where it stands. Raises :class:`NotFound` for the provider and
    :class:`Invalid` for a move that is not allowed or would make a loop.
    """
    provider = by_uuid(connection, uuid)
    if _is_same(provider.parent_uuid, parent_uuid):
        return
    subject = f"Unable to save resource provider {uuid}"
    if provider.parent_uuid is not None and not anywhere:
        what = "un-parenting" if parent_uuid is None else "re-parenting"
        raise Invalid(f"{subject}: {what} a provider is not currently allowed.")
    parent = None if parent_uuid is None else find(connection, parent_uuid)
    if parent_uuid is not None and parent is None:
        raise Invalid(f"{subject}: parent provider UUID does not exist.")
    affected = [provider] if parent is None else [provider, parent]
    # Whoever moves anything within a tree holds its root, so two moves cannot close a loop.
    lock(connection, {one.id for one in affected} | {one.root_id for one in affected})
    _refuse_stale(connection, affected)
    below = _with_descendants(connection, [provider]).keys()
    if parent is not None and parent.id in below:
        raise Invalid(f"{subject}: creating loop in the provider tree is not allowed.")
    _set_parent(connection, provider, parent, below, now)


def _set_parent(
    connection: Connection,
    provider: Provider,
    parent: Provider | None,
    below: Collection[int],
    now: datetime,
) -> None:
    root_id = provider.id if parent is None else parent.root_id
    for batch in batches(sorted(below)):
        connection.execute(
            update(resource_providers)
            .where(_COLUMNS.id.in_(batch))
            .values(root_provider_id=root_id)
        )
    connection.execute(
        update(resource_providers)
        .where(_COLUMNS.id == provider.id)
        .values(parent_provider_id=None if parent is None else parent.id, updated_at=now)
    )


def remove(connection: Connection, uuid: str) -> None:
    """Delete a provider with its inventories, traits and memberships.

    Raises :class:`NotFound`, and :class:`InUse` while it has children or allocations.
    """
    try:
        provider = locked_by_uuid(connection, uuid)
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
        raise InUse(
            f"Unable to delete resource provider {uuid}: Resource provider has allocations.",
            code="placement.resource_provider.inuse",
        )
    _forget(connection, [provider.id])


def remove_whole(connection: Connection, uuids: Collection[str]) -> None:
    """Delete those of these providers that are there, each with all below it.

    The number of statements does not depend on how many they are. Raises :class:`InUse` while any
    of them has allocations, and :class:`ConcurrentUpdate` where a tree is just being changed.
    """
    tops = list(by_uuids(connection, uuids).values())
    lock(connection, {number for one in tops for number in (one.id, one.root_id)})
    _refuse_stale(connection, tops)
    below = _with_descendants(connection, tops)
    lock(connection, below)
    columns = (allocations.c.resource_provider_id, allocations.c.consumer_id)
    for batch in batches(sorted(below)):
        used = select(*columns).where(allocations.c.resource_provider_id.in_(batch))
        if (held := connection.execute(used.order_by(*columns).limit(1)).first()) is not None:
            raise InUse(
                f"Unable to delete resource provider {below[held.resource_provider_id]}: "
                f"consumer {held.consumer_id} has allocations of it.",
                code="placement.resource_provider.inuse",
            )
    _forget(connection, sorted(below))


def _with_descendants(connection: Connection, tops: Collection[Provider]) -> dict[int, str]:
    """Return the uuids of providers and of all below them, by id."""
    uuids: dict[int, str] = {one.id: one.uuid for one in tops}
    children: dict[int | None, list[int]] = {}
    for batch in batches({one.root_id for one in tops}):
        tree = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.parent_provider_id)
        for number, uuid, parent in connection.execute(
            tree.where(_COLUMNS.root_provider_id.in_(batch))
        ):
            uuids[number] = uuid
            children.setdefault(parent, []).append(number)
    found = {one.id for one in tops}
    fresh = list(found)
    while fresh:
        fresh = [child for parent in fresh for child in children.get(parent, ())]
        found.update(fresh)
    return {number: uuids[number] for number in found}


def _forget(connection: Connection, ids: Collection[int]) -> None:
    """Delete providers, of whom nobody but one of them is a parent, with what they have."""
    for batch in batches(ids):
        for table in (inventories, resource_provider_aggregates, resource_provider_traits):
            connection.execute(delete(table).where(table.c.resource_provider_id.in_(batch)))
        # MariaDB keeps a row to which a row points, be it the same one.
        connection.execute(
            update(resource_providers)
            .where(_COLUMNS.id.in_(batch))
            .values(root_provider_id=None, parent_provider_id=None)
        )
    for batch in batches(ids):
        connection.execute(delete(resource_providers).where(_COLUMNS.id.in_(batch)))
