"""Resource providers: the rows, their trees, their generations and their locks."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Select, bindparam, case, func, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.db import sql
from placement_sched.db.frequent_statements import FrequentStatement
from placement_sched.db.tables import resource_providers
from placement_sched.errors import ConcurrentUpdate, Duplicate, NotFound
from placement_sched.model.names import canonical
from placement_sched.model.provider import Provider
from placement_sched.store.change_counters import certify

_ROOT = resource_providers.alias("root")
_PARENT = resource_providers.alias("parent")
_COLUMNS = resource_providers.c
#: How a conflict of generations ends, or begins: clients look for it.
GENERATION_CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)


@dataclass(frozen=True, slots=True)
class NewProvider:
    """A provider to be made; without a parent it is the root of a tree of its own."""

    uuid: str
    name: str
    parent: Provider | None = None


# A database from before nested providers may still hold rows without a root. Roots and parents are
# looked up only for providers that are not roots; and a lock upon this locks no other provider.
_ROOT_UUID = select(_ROOT.c.uuid).where(_ROOT.c.id == _COLUMNS.root_provider_id).scalar_subquery()
_PARENT_UUID = (
    select(_PARENT.c.uuid).where(_PARENT.c.id == _COLUMNS.parent_provider_id).scalar_subquery()
)

#: The query of providers that :func:`read_providers` reads, to be narrowed: Provider's fields.
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


@dataclass(frozen=True, slots=True)
class BySpelling:
    """A query of what belongs to a provider, or consumer, by its uuid however it is spelled.

    As it is commonly written it is an equality: MariaDB may read, and lock, a small table whole
    to find one of two.
    """

    plain: FrequentStatement
    either: FrequentStatement

    @classmethod
    def of(cls, query: Select[Any], column: Column[str] = _COLUMNS.uuid) -> "BySpelling":
        """Return both forms of a query of providers, or of what has the uuid in ``column``."""
        uuid = bindparam("uuid", type_=column.type)
        either = column.in_([uuid, bindparam("canonical", type_=column.type)])
        return cls(
            FrequentStatement(query.where(column == uuid)), FrequentStatement(query.where(either))
        )

    def found(self, connection: Connection, uuid: str) -> Sequence[Any]:
        """Return the rows of this uuid, in every spelling; :func:`meant` chooses among them."""
        uuids = spelled(uuid)
        if uuids["canonical"] == uuid:
            return self.plain.rows(connection, {"uuid": uuid})
        return self.either.rows(connection, uuids)

    def rows(self, connection: Connection, uuid: str) -> list[Any]:
        """Return the rows that belong to the provider of this uuid, which is their first column.

        Raises :class:`NotFound` where there are none.
        """
        found = self.found(connection, uuid)
        kept = meant(uuid, {row[0] for row in found})
        return [row for row in found if row[0] == kept]


# Statements that every request needs are built once: building one takes longer than sending it.
_BY_UUID = BySpelling.of(PROVIDERS)
_LOCKED_BY_UUID = BySpelling.of(PROVIDERS.with_for_update())
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


def read_providers(
    connection: Connection,
    query: Select[Any] | FrequentStatement,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Provider, ...]:
    """Return the providers that a narrowed :data:`PROVIDERS` finds, by id."""
    if isinstance(query, FrequentStatement):
        return tuple(map(Provider._make, query.rows(connection, parameters or {})))
    return tuple(map(Provider._make, connection.execute(query, parameters).all()))


def all_providers(connection: Connection) -> tuple[Provider, ...]:
    """Return every resource provider, by id."""
    return read_providers(connection, PROVIDERS)


def by_uuid(connection: Connection, uuid: str) -> Provider:
    """Return the provider of this uuid; raises :class:`NotFound`."""
    return _of_spelling(uuid, _BY_UUID.found(connection, uuid))


def _of_spelling(uuid: str, rows: Sequence[Any]) -> Provider:
    found = {provider.uuid: provider for provider in map(Provider._make, rows)}
    return found[meant(uuid, found)]


def find(connection: Connection, uuid: str) -> Provider | None:
    """Return the provider of this uuid, None where there is none."""
    try:
        return by_uuid(connection, uuid)
    except NotFound:
        return None


def spelled(uuid: str) -> dict[str, str]:
    """Return a uuid as it is written, as OpenStack placement may keep it, and as we keep it."""
    return {"uuid": uuid, "canonical": canonical(uuid)}


def meant(uuid: str, kept: Collection[str]) -> str:
    """Return which of the uuids that were found is meant: the very same, or another spelling.

    Raises :class:`NotFound`: MariaDB finds it in any case, but with a blank at its end as well.
    """
    if uuid in kept:
        return uuid
    wanted = canonical(uuid)
    for one in sorted(kept):
        if canonical(one) == wanted:
            return one
    raise not_found(uuid)


def by_uuids(connection: Connection, uuids: Iterable[str]) -> dict[str, Provider]:
    """Return those of the providers that are there, by uuid."""
    return {
        provider.uuid: provider
        for batch in sql.batches(set(uuids))
        for provider in read_providers(connection, _BY_UUIDS, {"uuids": batch})
    }


def names_of(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """Return the names of those of the providers that are there and have one, by uuid."""
    query = select(_COLUMNS.uuid, _COLUMNS.name).where(_COLUMNS.name.is_not(None))
    return dict(map(tuple, sql.rows_among(connection, query, _COLUMNS.uuid, set(uuids))))


def all_names(connection: Connection) -> set[str]:
    """Return the names of all providers."""
    return set(connection.scalars(select(_COLUMNS.name).where(_COLUMNS.name.is_not(None))))


def not_found(uuid: str) -> NotFound:
    """Return the error for a provider that does not exist."""
    return NotFound(f"No resource provider with uuid {uuid} found")


def lock(
    connection: Connection, ids: Iterable[int], *, without_waiting: bool = False
) -> dict[int, int]:
    """Lock providers' rows in order of id and return their generations as they are now.

    Providers that are gone are missing from the answer, and ``without_waiting`` those that another
    transaction has locked. On SQLite the transaction already is the only writer.
    """
    statement = _LOCK_FREE if without_waiting else _LOCK
    return {
        number: generation or 0
        for batch in sql.batches(sorted(set(ids)))
        for number, generation in connection.execute(statement, {"ids": batch})
    }


def locked_by_uuid(connection: Connection, uuid: str, generation: int | None = None) -> Provider:
    """Return the provider of this uuid, its row locked.

    Raises :class:`NotFound`, and :class:`ConcurrentUpdate` unless its generation is the one given.
    """
    provider = _of_spelling(uuid, _LOCKED_BY_UUID.found(connection, uuid))
    if generation is not None:
        refuse_other_generation(uuid, provider.generation, generation)
    return provider


def keep_generation(connection: Connection, provider_id: int) -> None:
    """Let other nodes see the lock of a provider whose generation is to stay as it is."""
    certify(connection, _COLUMNS.generation, _COLUMNS.id == provider_id)


def refuse_other_generation(uuid: str, current: int, given: int) -> None:
    """Raise :class:`ConcurrentUpdate` where a provider is not at the generation given."""
    if current != given:
        raise _at_other_generation(uuid, f"at {current}", given)


def _at_other_generation(uuid: str, where: str, given: int) -> ConcurrentUpdate:
    return ConcurrentUpdate(
        f"resource provider generation conflict: {uuid} is {where}, {given} was given. "
        f"{GENERATION_CHANGED}"
    )


def bump_generations(connection: Connection, ids: Iterable[int], now: datetime) -> None:
    """Raise the generations of providers that the caller has locked."""
    for batch in sql.batches(sorted(set(ids))):
        connection.execute(_BUMP, {"ids": batch, "now": now})


def bump_generation_from(
    connection: Connection, provider_id: int, uuid: str, generation: int, now: datetime
) -> None:
    """Raise a provider's generation, which holds its row until the transaction ends.

    Nothing that counts in the generation has changed since ``generation`` was read, or
    :class:`ConcurrentUpdate` is raised: so what was read with it needed no lock.
    """
    given = {"provider": provider_id, "from": generation, "now": now}
    if not connection.execute(_BUMP_FROM, given).rowcount:
        raise _at_other_generation(uuid, "somewhere else by now", generation)


def create_many(
    connection: Connection, rows: Sequence[NewProvider], now: datetime
) -> Mapping[str, int]:
    """Create providers and return their ids by uuid.

    Raises :class:`Duplicate` where a uuid or a name is taken.
    """
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
        raise _taken(failure, rows) from None
    ids = sql.ids_by(connection, _COLUMNS.uuid, [row.uuid for row in rows])
    root_themselves = update(resource_providers).values(root_provider_id=_COLUMNS.id)
    roots = [ids[row.uuid] for row in rows if row.parent is None]
    sql.change_among(connection, root_themselves, _COLUMNS.id, roots)
    return ids


def rename(connection: Connection, provider: Provider, *, name: str, now: datetime) -> None:
    """Rename a provider; raises :class:`Duplicate` where the name is taken.

    A provider's generation is of what it has, not of its name, and stays. One that has
    the name already does not change.
    """
    if provider.name == name:
        return
    try:
        rename_many(connection, {provider.id: name}, now)
    except Duplicate as taken:
        # As OpenStack placement says it here, in other words than of a new provider.
        taken.detail = f"Conflicting resource provider {name} already exists."
        raise


def by_names(connection: Connection, names: Iterable[str]) -> tuple[Provider, ...]:
    """Return the providers of these names; MariaDB compares them without regard to case."""
    return tuple(
        map(Provider._make, sql.rows_among(connection, PROVIDERS, _COLUMNS.name, set(names)))
    )


def rename_many(connection: Connection, names: Mapping[int, str], now: datetime) -> None:
    """Rename providers by id; raises :class:`Duplicate` where a name is taken."""
    rows = [{"b_id": number, "name": names[number], "updated_at": now} for number in sorted(names)]
    change = update(resource_providers).where(_COLUMNS.id == bindparam("b_id"))
    try:
        if rows:
            connection.execute(change, rows)
    except IntegrityError as failure:
        raise _taken(failure, [NewProvider("", name) for name in names.values()]) from None


def _taken(failure: IntegrityError, rows: Sequence[NewProvider]) -> Exception:
    first_line = str(failure.orig).partition("\n")[0]
    columns = re.findall(r"resource_providers(?:\.|0)(uuid|name)", first_line)
    if not columns:
        return failure
    values = {getattr(row, columns[-1]) for row in rows}
    which = values.pop() if len(values) == 1 else f"one of {len(values)}"
    return Duplicate(f"Conflicting resource provider {columns[-1]}: {which} already exists.")
