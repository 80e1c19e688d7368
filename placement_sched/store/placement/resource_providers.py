# SPDX-License-Identifier: Apache-2.0
"""Resource providers, with their trees, generations and locks."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from placement_sched.db import sql
from placement_sched.db.sql import FrequentStatement
from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.errors import ConcurrentUpdate, Duplicate, InUse, Invalid, NotFound
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.provider import Provider
from placement_sched.store import change_counters
from placement_sched.store.change_counters import make_lock_visible

_ROOT = resource_providers.alias("root")
_PARENT = resource_providers.alias("parent")
_COLUMNS = resource_providers.c
#: Part of the message of a generation conflict that clients match.
GENERATION_CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)
# Rows created before nested providers may have no root. Subqueries read roots and parents only for
# nested providers, and a lock on this query locks no other provider.
_ROOT_UUID = select(_ROOT.c.uuid).where(_ROOT.c.id == _COLUMNS.root_provider_id).scalar_subquery()
_PARENT_UUID = (
    select(_PARENT.c.uuid).where(_PARENT.c.id == _COLUMNS.parent_provider_id).scalar_subquery()
)
#: The query of all providers for :func:`read_providers`, with the fields of Provider.
PROVIDERS: Select[Any] = select(
    _COLUMNS.id,
    _COLUMNS.uuid,
    _COLUMNS.name,
    func.coalesce(_COLUMNS.generation, 0).label("generation"),
    func.coalesce(_COLUMNS.root_provider_id, _COLUMNS.id).label("root_id"),
    case(
        (_COLUMNS.root_provider_id == _COLUMNS.id, _COLUMNS.uuid),
        else_=func.coalesce(_ROOT_UUID, _COLUMNS.uuid),
    ).label("root_uuid"),
    case((_COLUMNS.parent_provider_id.is_not(None), _PARENT_UUID)).label("parent_uuid"),
    _COLUMNS.created_at,
    _COLUMNS.updated_at,
).order_by(_COLUMNS.id)
_BY_UUIDS = PROVIDERS.where(_COLUMNS.uuid.in_(bindparam("uuids", expanding=True)))
_LOCK = (
    select(_COLUMNS.id, _COLUMNS.generation)
    .where(_COLUMNS.id.in_(bindparam("ids", expanding=True)))
    .order_by(_COLUMNS.id)
    .with_for_update()
)
_LOCK_FREE = _LOCK.with_for_update(skip_locked=True)
_BUMP = (
    update(resource_providers)
    .where(_COLUMNS.id.in_(bindparam("ids", expanding=True)))
    .values(generation=func.coalesce(_COLUMNS.generation, 0) + 1, updated_at=bindparam("now"))
)
_BUMP_FROM = (
    update(resource_providers)
    .where(
        _COLUMNS.id == bindparam("provider"),
        func.coalesce(_COLUMNS.generation, 0) == bindparam("from"),
    )
    .values(generation=bindparam("from") + 1, updated_at=bindparam("now"))
)
#: Number of lock subjects: concurrent changes of two trees conflict needlessly once in 256 times.
_TREE_LOCKS = 256


class GenerationConflict(ConcurrentUpdate):
    """A provider has another generation than the client sent.

    ``generations`` is a sentence with the current and the sent generation.
    """

    def __init__(self, generations: str) -> None:
        super().__init__(f"{generations} {GENERATION_CHANGED}")
        self.generations = generations


@dataclass(frozen=True, slots=True)
class NewProvider:
    """A provider to create, as a root if it has no parent."""

    uuid: str
    name: str
    parent: Provider | None = None


@dataclass(frozen=True, slots=True)
class UuidQuery:
    """A query by the uuid of a provider or consumer in any spelling.

    ``plain`` is for a uuid in canonical spelling, and ``either`` for two spellings. For two values,
    MariaDB may scan and lock a whole small table.
    """

    plain: FrequentStatement
    either: FrequentStatement

    @classmethod
    def from_query(cls, query: Select[Any], column: Column[str] = _COLUMNS.uuid) -> "UuidQuery":
        """Build the query for a uuid in ``column``, in any spelling."""
        uuid = bindparam("uuid", type_=column.type)
        either = column.in_([uuid, bindparam("canonical", type_=column.type)])
        return cls(
            FrequentStatement(query.where(column == uuid)), FrequentStatement(query.where(either))
        )

    def find_rows(self, connection: Connection, uuid: str) -> Sequence[Any]:
        """Return the rows with this uuid in any spelling."""
        uuids = build_spellings(uuid)
        if uuids["canonical"] == uuid:
            return self.plain.fetch_rows(connection, {"uuid": uuid})
        return self.either.fetch_rows(connection, uuids)


class DetailsQuery:
    """A query of a provider and its details by a single, faster statement."""

    def __init__(
        self,
        columns: Sequence[ColumnElement[Any]],
        *joins: tuple[Table, ColumnElement[bool]],
        order: ColumnElement[Any],
    ) -> None:
        """Build the query: the first of ``columns`` is never null in a detail."""
        generation = func.coalesce(_COLUMNS.generation, 0)
        query: Select[Any] = select(_COLUMNS.uuid, _COLUMNS.id, generation, *columns)
        query = query.select_from(resource_providers).order_by(order)
        for table, condition in joins:
            query = query.outerjoin(table, condition)
        self._query = UuidQuery.from_query(query)

    def read(self, connection: Connection, uuid: str) -> tuple[int, int, list[Sequence[Any]]]:
        """Return id, generation and details of a provider, or raise NotFound."""
        rows = self._query.find_rows(connection, uuid)
        stored = get_stored_uuid(uuid, {row[0] for row in rows})
        own_rows = [row for row in rows if row[0] == stored]
        _, provider_id, generation, *_ = own_rows[0]
        return provider_id, generation, [row[3:] for row in own_rows if row[3] is not None]


# The statements of every request are built once: building takes longer than sending.
_BY_UUID = UuidQuery.from_query(PROVIDERS)
_LOCKED_BY_UUID = UuidQuery.from_query(PROVIDERS.with_for_update())


def read_providers(
    connection: Connection,
    query: Select[Any] | FrequentStatement,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Provider, ...]:
    """Read providers with :data:`PROVIDERS` or a derived query, sorted by id."""
    if isinstance(query, FrequentStatement):
        return tuple(map(Provider._make, query.fetch_rows(connection, parameters or {})))
    return tuple(map(Provider._make, connection.execute(query, parameters).all()))


def list_providers(connection: Connection) -> tuple[Provider, ...]:
    """Return all resource providers, sorted by id."""
    return read_providers(connection, PROVIDERS)


def get_by_uuid(connection: Connection, uuid: str) -> Provider:
    """Return a provider, or raise :class:`NotFound` if it does not exist."""
    return _select_by_spelling(uuid, _BY_UUID.find_rows(connection, uuid))


def _select_by_spelling(uuid: str, rows: Sequence[Any]) -> Provider:
    providers = {provider.uuid: provider for provider in map(Provider._make, rows)}
    return providers[get_stored_uuid(uuid, providers)]


def build_spellings(uuid: str) -> dict[str, str]:
    """Return the spellings of a uuid to look for: as given, and canonical."""
    return {"uuid": uuid, "canonical": canonicalize_uuid(uuid)}


def get_stored_uuid(uuid: str, stored: Collection[str]) -> str:
    """Return the stored spelling of a uuid.

    ``stored`` are the uuids of the rows that a query for ``uuid`` found. MariaDB ignores case and
    trailing spaces, so that a row may have another uuid. The same spelling is preferred. Otherwise
    the uuids are compared in their canonical spelling. Raises :class:`NotFound` if none is equal.
    """
    if uuid in stored:
        return uuid
    canonical = canonicalize_uuid(uuid)
    for candidate in sorted(stored):
        if canonicalize_uuid(candidate) == canonical:
            return candidate
    raise NotFound(f"No resource provider with uuid {uuid} found")


def map_by_uuid(connection: Connection, uuids: Iterable[str]) -> dict[str, Provider]:
    """Map uuids to existing providers."""
    return {
        provider.uuid: provider
        for batch in split_batches(set(uuids))
        for provider in read_providers(connection, _BY_UUIDS, {"uuids": batch})
    }


def map_names(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """Map uuids to the names of existing providers that have a name."""
    query = select(_COLUMNS.uuid, _COLUMNS.name).where(_COLUMNS.name.is_not(None))
    return dict(map(tuple, sql.select_in_batches(connection, query, _COLUMNS.uuid, set(uuids))))


def map_names_by_id(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Map the ids of these providers to their names."""
    query = select(_COLUMNS.id, _COLUMNS.name)
    rows = sql.select_in_batches(connection, query, _COLUMNS.id, ids)
    return {key: name or "one provider" for key, name in rows}


def list_names(connection: Connection) -> set[str]:
    """Return the names of all providers."""
    return set(connection.scalars(select(_COLUMNS.name).where(_COLUMNS.name.is_not(None))))


def lock(
    connection: Connection, ids: Iterable[int], *, without_waiting: bool = False
) -> dict[int, int]:
    """Lock providers, sorted by id, and return their current generations.

    Deleted providers are missing from the result, and with ``without_waiting`` also providers that
    another transaction has locked. On SQLite the transaction already is the only writer.
    """
    statement = _LOCK_FREE if without_waiting else _LOCK
    return {
        provider_id: generation or 0
        for batch in split_batches(sorted(set(ids)))
        for provider_id, generation in connection.execute(statement, {"ids": batch})
    }


def lock_by_uuid(connection: Connection, uuid: str, generation: int | None = None) -> Provider:
    """Lock and return a provider, or raise NotFound or ConcurrentUpdate."""
    provider = _select_by_spelling(uuid, _LOCKED_BY_UUID.find_rows(connection, uuid))
    if generation is not None:
        check_generation(uuid, provider.generation, generation)
    return provider


def replicate_lock(connection: Connection, provider_id: int) -> None:
    """Make the lock of a provider visible to other Galera nodes."""
    make_lock_visible(connection, _COLUMNS.generation, _COLUMNS.id == provider_id)


def check_generation(uuid: str, current: int, sent: int) -> None:
    """Raise :class:`ConcurrentUpdate` if the client sent another generation."""
    if current != sent:
        raise _build_generation_conflict(uuid, f"at {current}", sent)


def _build_generation_conflict(uuid: str, position: str, sent: int) -> GenerationConflict:
    return GenerationConflict(
        f"resource provider generation conflict: {uuid} is {position}, {sent} was given."
    )


def bump_generations(connection: Connection, ids: Iterable[int], now: datetime) -> None:
    """Increment the generations of providers that the caller has locked."""
    for batch in split_batches(sorted(set(ids))):
        connection.execute(_BUMP, {"ids": batch, "now": now})


def bump_generation_from(
    connection: Connection, provider_id: int, uuid: str, generation: int, now: datetime
) -> None:
    """Increment a provider's generation, and thereby lock its row.

    Raises :class:`ConcurrentUpdate` if the current generation is not ``generation``. Otherwise,
    data of the provider that the caller read without a lock at ``generation`` is still current.
    """
    parameters = {"provider": provider_id, "from": generation, "now": now}
    if not connection.execute(_BUMP_FROM, parameters).rowcount:
        raise _build_generation_conflict(uuid, "at another generation", generation)


def create_many(
    connection: Connection, rows: Sequence[NewProvider], now: datetime
) -> Mapping[str, int]:
    """Create providers and map uuids to ids, or raise :class:`Duplicate`."""
    values = [
        {
            "uuid": row.uuid,
            "name": row.name,
            "generation": 0,
            "parent_provider_id": row.parent.id if row.parent else None,
            "root_provider_id": row.parent.root_id if row.parent else None,
            "created_at": now,
            "updated_at": now,
        }
        for row in rows
    ]
    try:
        sql.insert_rows(connection, resource_providers, values)
    except IntegrityError as failure:
        raise _build_duplicate_error(failure, rows) from None
    ids = sql.map_ids(connection, _COLUMNS.uuid, [row.uuid for row in rows])
    set_own_root = update(resource_providers).values(root_provider_id=_COLUMNS.id)
    roots = [ids[row.uuid] for row in rows if row.parent is None]
    sql.change_in_batches(connection, set_own_root, _COLUMNS.id, roots)
    return ids


def create_trees(
    connection: Connection, rows: Sequence[tuple[str, str, str | None]], now: datetime
) -> dict[str, Provider]:
    """Create providers of trees, and map uuids to the new providers.

    ``rows`` has uuid, name and uuid of the parent. The result also has existing parents. Raises
    :class:`Invalid` if a parent does not exist, and :class:`Duplicate` as :func:`create_many`.
    """
    uuids = {uuid for uuid, _, _ in rows}
    providers = map_by_uuid(connection, {parent for _, _, parent in rows if parent} - uuids)
    while rows:
        ready = [row for row in rows if row[2] is None or row[2] in providers]
        if not ready:
            raise Invalid("a provider has a parent that does not exist")
        level = [NewProvider(uuid, name, providers.get(key or "")) for uuid, name, key in ready]
        create_many(connection, level, now)
        providers |= map_by_uuid(connection, [row.uuid for row in level])
        rows = [row for row in rows if row[0] not in providers]
    return providers


def rename(connection: Connection, provider: Provider, *, name: str, now: datetime) -> None:
    """Rename a provider, or raise :class:`Duplicate` if the name exists.

    The generation stays, as it does not cover the name. A provider that already has the name does
    not change.
    """
    if provider.name == name:
        return
    try:
        rename_many(connection, {provider.id: name}, now)
    except Duplicate as error:
        # OpenStack placement's message differs from that for a new provider.
        error.detail = f"Conflicting resource provider {name} already exists."
        raise


def list_by_names(connection: Connection, names: Iterable[str]) -> tuple[Provider, ...]:
    """Return the providers with these names (MariaDB ignores case)."""
    return tuple(
        map(Provider._make, sql.select_in_batches(connection, PROVIDERS, _COLUMNS.name, set(names)))
    )


def rename_many(connection: Connection, names: Mapping[int, str], now: datetime) -> None:
    """Rename providers by id, or raise :class:`Duplicate` for a used name."""
    rows = [{"b_id": key, "name": names[key], "updated_at": now} for key in sorted(names)]
    statement = update(resource_providers).where(_COLUMNS.id == bindparam("b_id"))
    try:
        if rows:
            connection.execute(statement, rows)
    except IntegrityError as error:
        raise _build_duplicate_error(
            error, [NewProvider("", name) for name in names.values()]
        ) from None


def _build_duplicate_error(error: IntegrityError, rows: Sequence[NewProvider]) -> Exception:
    first_line = str(error.orig).partition("\n")[0]
    columns = re.findall(r"resource_providers(?:\.|0)(uuid|name)", first_line)
    if not columns:
        return error
    values = {getattr(row, columns[-1]) for row in rows}
    value = values.pop() if len(values) == 1 else f"one of {len(values)}"
    return Duplicate(f"Conflicting resource provider {columns[-1]}: {value} already exists.")


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
    create_many(connection, [NewProvider(uuid, name, parent)], now)
    return get_by_uuid(connection, uuid)


def _is_same(uuid: str | None, other: str | None) -> bool:
    if uuid is None or other is None:
        return uuid is other
    return canonicalize_uuid(uuid) == canonicalize_uuid(other)


def _get_parent(connection: Connection, uuid: str | None, subject: str) -> Provider | None:
    if uuid is None:
        return None
    try:
        return get_by_uuid(connection, uuid)
    except NotFound:
        raise Invalid(f"{subject}: parent provider UUID does not exist.") from None


def _lock_unchanged(connection: Connection, expected: Collection[Provider]) -> None:
    """Lock providers and roots, or raise ConcurrentUpdate after a change."""
    # The locked rows may stay unchanged, so other Galera nodes notice only this exclusion.
    change_counters.prevent_remote_access(
        connection, {f"trees/{provider.root_id % _TREE_LOCKS}" for provider in expected}
    )
    lock(connection, {number for p in expected for number in (p.id, p.root_id)})
    now = map_by_uuid(connection, [provider.uuid for provider in expected])
    for provider in expected:
        actual = now.get(provider.uuid)
        if actual is None or (actual.id, actual.root_id) != (provider.id, provider.root_id):
            raise ConcurrentUpdate(
                f"The tree of resource provider {provider.uuid} has just been changed. Try again."
            )


def move(
    connection: Connection, uuid: str, parent_uuid: str | None, *, anywhere: bool, now: datetime
) -> None:
    """Move a provider with its descendants to a parent, or make it a root.

    Unless ``anywhere`` (microversion 1.37 and later), only roots can be moved. Generations do not
    change, because they do not cover the position in the tree. Raises :class:`NotFound` if
    the provider does not exist, and :class:`Invalid` if the move is not allowed or creates a loop.
    """
    provider = get_by_uuid(connection, uuid)
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
    """Delete a provider with its rows, or raise NotFound or :class:`InUse`."""
    try:
        provider = lock_by_uuid(connection, uuid)
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
        raise _build_in_use_error(uuid, "Resource provider has allocations.")
    delete_rows(connection, [provider.id])


def _build_in_use_error(uuid: str, reason: str) -> InUse:
    return InUse(
        f"Unable to delete resource provider {uuid}: {reason}",
        code="placement.resource_provider.inuse",
    )


def remove_whole(connection: Connection, uuids: Collection[str]) -> None:
    """Delete existing providers, each with all descendants.

    The number of statements does not depend on the number of providers. Raises :class:`InUse` if
    any of them has allocations, and :class:`ConcurrentUpdate` if a tree changes concurrently.
    """
    tops = list(map_by_uuid(connection, uuids).values())
    _lock_unchanged(connection, tops)
    subtree = _with_descendants(connection, tops)
    lock(connection, subtree)
    columns = (allocations.c.resource_provider_id, allocations.c.consumer_id)
    used = select(*columns).order_by(*columns).limit(1)
    for provider_id, consumer in sql.select_in_batches(
        connection, used, columns[0], sorted(subtree)
    ):
        raise _build_in_use_error(
            subtree[provider_id], f"consumer {consumer} has allocations of it."
        )
    delete_rows(connection, sorted(subtree))


def _with_descendants(connection: Connection, tops: Collection[Provider]) -> dict[int, str]:
    query = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.parent_provider_id)
    roots = {provider.root_id for provider in tops}
    rows = sql.select_in_batches(connection, query, _COLUMNS.root_provider_id, roots)
    children = group_rows((parent, (number, uuid)) for number, uuid, parent in rows)
    subtree = {provider.id: provider.uuid for provider in tops}
    level = list(subtree)
    while level:
        below = dict(child for parent in level for child in children.get(parent, ()))
        subtree |= below
        level = list(below)
    return subtree


def delete_rows(connection: Connection, ids: Collection[int]) -> None:
    """Delete unallocated providers with inventories, traits and memberships."""
    for table in (inventories, resource_provider_aggregates, resource_provider_traits):
        sql.change_in_batches(connection, delete(table), table.c.resource_provider_id, ids)
    # MariaDB deletes no row that is referenced, not even by itself.
    unlinked = update(resource_providers).values(root_provider_id=None, parent_provider_id=None)
    sql.change_in_batches(connection, unlinked, _COLUMNS.id, ids)
    sql.change_in_batches(connection, delete(resource_providers), _COLUMNS.id, ids)
