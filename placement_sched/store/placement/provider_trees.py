# SPDX-License-Identifier: Apache-2.0
"""Provider trees: parents, moves and deletion."""

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
from placement_sched.model.names import canonical_uuid
from placement_sched.model.provider import Provider
from placement_sched.store import change_counters
from placement_sched.store.placement import resource_providers as providers

_COLUMNS = resource_providers.c
#: Number of lock subjects: concurrent changes of two trees conflict needlessly once in 256 times.
_TREE_LOCKS = 256


def create(
    connection: Connection, *, uuid: str, name: str, parent_uuid: str | None, now: datetime
) -> Provider:
    """Create a provider as a child or as a root.

    Raises :class:`Invalid` if the parent does not exist or is the provider itself, and
    :class:`Duplicate` if the name or uuid is already used.
    """
    subject = f'Unable to create resource provider "{name}", {uuid}'
    if _is_same(parent_uuid, uuid):
        raise Invalid(f"{subject}: parent provider UUID cannot be same as UUID.")
    parent = _get_parent(connection, parent_uuid, subject)
    if parent is not None:
        # The parent can neither be deleted nor moved before the transaction ends.
        _lock_unchanged(connection, [parent])
    providers.create_many(connection, [providers.NewProvider(uuid, name, parent)], now)
    return providers.by_uuid(connection, uuid)


def _is_same(uuid: str | None, other: str | None) -> bool:
    """Return whether two uuids are equal in any spelling, or both are None."""
    if uuid is None or other is None:
        return uuid is other
    return canonical_uuid(uuid) == canonical_uuid(other)


def _get_parent(connection: Connection, uuid: str | None, subject: str) -> Provider | None:
    if uuid is None:
        return None
    if (parent := providers.find(connection, uuid)) is None:
        raise Invalid(f"{subject}: parent provider UUID does not exist.")
    return parent


def _lock_unchanged(connection: Connection, expected: Collection[Provider]) -> None:
    """Lock providers and their roots.

    Raises :class:`ConcurrentUpdate` if any provider was moved, deleted or created again before the
    lock.
    """
    # The locked rows may stay unchanged, so other Galera nodes notice only this exclusion.
    change_counters.prevent_remote_access(
        connection, {f"trees/{provider.root_id % _TREE_LOCKS}" for provider in expected}
    )
    providers.lock(connection, {number for p in expected for number in (p.id, p.root_id)})
    now = providers.by_uuids(connection, [provider.uuid for provider in expected])
    for provider in expected:
        actual = now.get(provider.uuid)
        if actual is None or (actual.id, actual.root_id) != (provider.id, provider.root_id):
            raise ConcurrentUpdate(
                f"The tree of resource provider {provider.uuid} has just been changed; try again."
            )


def move(
    connection: Connection, uuid: str, parent_uuid: str | None, *, anywhere: bool, now: datetime
) -> None:
    """Move a provider with its descendants to another parent, or make it a root.

    Unless ``anywhere`` (1.37 and later), only roots can be moved. Generations do not change,
    because they do not cover the position in the tree. Raises :class:`NotFound` if the provider
    does not exist, and :class:`Invalid` if the move is not allowed or would create a loop.
    """
    provider = providers.by_uuid(connection, uuid)
    if _is_same(provider.parent_uuid, parent_uuid):
        return
    subject = f"Unable to save resource provider {uuid}"
    if provider.parent_uuid is not None and not anywhere:
        action = "un-parenting" if parent_uuid is None else "re-parenting"
        raise Invalid(f"{subject}: {action} a provider is not currently allowed.")
    parent = _get_parent(connection, parent_uuid, subject)
    # Each move within a tree locks its root, so two moves cannot create a loop.
    _lock_unchanged(connection, [provider] if parent is None else [provider, parent])
    subtree = _with_descendants(connection, [provider])
    if parent is not None and parent.id in subtree:
        raise Invalid(f"{subject}: creating loop in the provider tree is not allowed.")
    rows = update(resource_providers)
    root_id, parent_id = (parent.root_id, parent.id) if parent else (provider.id, None)
    moved = rows.values(root_provider_id=root_id)
    sql.change_in_batches(connection, moved, _COLUMNS.id, sorted(subtree))
    reparented = rows.values(parent_provider_id=parent_id, updated_at=now)
    connection.execute(reparented.where(_COLUMNS.id == provider.id))


def remove(connection: Connection, uuid: str) -> None:
    """Delete a provider with its inventories, traits and memberships.

    Raises :class:`NotFound`, and :class:`InUse` if it has children or allocations.
    """
    try:
        provider = providers.lock_by_uuid(connection, uuid)
    except NotFound as error:
        raise NotFound(f"{error.detail} for delete") from None
    children = select(_COLUMNS.id).where(_COLUMNS.parent_provider_id == provider.id).limit(1)
    if connection.scalar(children) is not None:
        raise InUse(
            f"Unable to delete parent resource provider {uuid}: It has child resource providers.",
            code="placement.resource_provider.cannot_delete_parent",
        )
    used = select(allocations.c.id).where(allocations.c.resource_provider_id == provider.id)
    if connection.scalar(used.limit(1)) is not None:
        raise _in_use(uuid, "Resource provider has allocations.")
    delete_rows(connection, [provider.id])


def _in_use(uuid: str, reason: str) -> InUse:
    return InUse(
        f"Unable to delete resource provider {uuid}: {reason}",
        code="placement.resource_provider.inuse",
    )


def remove_whole(connection: Connection, uuids: Collection[str]) -> None:
    """Delete existing providers, each with all descendants.

    The number of statements does not depend on the number of providers. Raises :class:`InUse` if
    any of them has allocations, and :class:`ConcurrentUpdate` if a tree changes concurrently.
    """
    tops = list(providers.by_uuids(connection, uuids).values())
    _lock_unchanged(connection, tops)
    subtree = _with_descendants(connection, tops)
    providers.lock(connection, subtree)
    columns = (allocations.c.resource_provider_id, allocations.c.consumer_id)
    used = select(*columns).order_by(*columns).limit(1)
    for provider_id, consumer in sql.select_in_batches(
        connection, used, columns[0], sorted(subtree)
    ):
        raise _in_use(subtree[provider_id], f"consumer {consumer} has allocations of it.")
    delete_rows(connection, sorted(subtree))


def _with_descendants(connection: Connection, tops: Collection[Provider]) -> dict[int, str]:
    """Map the ids of providers and all their descendants to uuids."""
    query = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.parent_provider_id)
    roots = {provider.root_id for provider in tops}
    rows = sql.select_in_batches(connection, query, _COLUMNS.root_provider_id, roots)
    children = sql.grouped((parent, (number, uuid)) for number, uuid, parent in rows)
    subtree = {provider.id: provider.uuid for provider in tops}
    level = list(subtree)
    while level:
        below = dict(child for parent in level for child in children.get(parent, ()))
        subtree |= below
        level = list(below)
    return subtree


def delete_rows(connection: Connection, ids: Collection[int]) -> None:
    """Delete providers without allocations by id, with inventories, traits and memberships."""
    for table in (inventories, resource_provider_aggregates, resource_provider_traits):
        sql.change_in_batches(connection, delete(table), table.c.resource_provider_id, ids)
    # MariaDB deletes no row that is referenced, not even by itself.
    unlinked = update(resource_providers).values(root_provider_id=None, parent_provider_id=None)
    sql.change_in_batches(connection, unlinked, _COLUMNS.id, ids)
    sql.change_in_batches(connection, delete(resource_providers), _COLUMNS.id, ids)
