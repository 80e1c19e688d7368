"""Which providers serve the whole request alone: one statement, cut at the limit."""

from collections.abc import Collection, Sequence
from random import Random
from typing import Any

from sqlalchemy import Connection, Row, Select, case, select, true

from placement_sched.candidates.constraints import UsageSums
from placement_sched.db.sql import AT_ONCE, Condition, among, batches
from placement_sched.db.tables import resource_providers
from placement_sched.model.placement.candidate import CandidateProvider, Usages

_provider = resource_providers.c
_root = resource_providers.alias("root").c
_parent = resource_providers.alias("parent").c

# The uuids of root and parent are looked up row by row, and only for a provider that is not a
# root itself: a join would be two more tables for the planner to try in every order. A root's own
# uuid is not sent twice.
_root_uuid = select(_root.uuid).where(_root.id == _provider.root_provider_id).scalar_subquery()
_parent_uuid = (
    select(_parent.uuid).where(_parent.id == _provider.parent_provider_id).scalar_subquery()
)
_PROVIDERS = select(
    _provider.id,
    _provider.uuid,
    _provider.generation,
    case((_provider.root_provider_id != _provider.id, _root_uuid)).label("other_root_uuid"),
    case((_provider.parent_provider_id.is_not(None), _parent_uuid)).label("parent_uuid"),
).where(_provider.root_provider_id.is_not(None))

_COLUMNS = len(CandidateProvider._fields)


def first_providers(
    connection: Connection, condition: Condition, sums: UsageSums | None, limit: int | None
) -> tuple[tuple[CandidateProvider, ...], Usages]:
    """Return the first ``limit`` providers, by id, that meet the condition, and their usages.

    The limit is in the statement, so that the database stops once it has enough.
    """
    statement = _PROVIDERS.where(condition).order_by(_provider.id).limit(limit)
    if sums is None:
        return tuple(_select(connection, statement)), Usages()
    with_sums = statement.add_columns(*sums.columns.values()).join(sums.lateral, true())
    providers: list[CandidateProvider] = []
    amounts: dict[int, tuple[int, ...]] = {}
    for rows in connection.execute(with_sums).partitions(AT_ONCE):
        providers += _candidate_providers(rows)
        amounts.update((row[0], tuple(row[_COLUMNS:])) for row in rows)
    return tuple(providers), Usages(classes=tuple(sums.columns), amounts=amounts)


def sample(
    connection: Connection, condition: Condition, limit: int | None, random: Random
) -> tuple[CandidateProvider, ...]:
    """Return ``limit`` providers that meet the condition, each as likely as any other.

    They are drawn by id; only those drawn are described.
    """
    fitting = select(_provider.id).where(condition).order_by(_provider.id)
    ids = connection.scalars(fitting).all()
    drawn = random.sample(ids, len(ids) if limit is None else min(limit, len(ids)))
    found = {provider.id: provider for provider in describe(connection, drawn)}
    return tuple(found[key] for key in drawn if key in found)


def describe(connection: Connection, ids: Sequence[int]) -> tuple[CandidateProvider, ...]:
    """Return the providers of these ids, in no order."""
    statements = (
        _PROVIDERS.where(among(connection, _provider.id, batch)) for batch in batches(ids)
    )
    return tuple(provider for one in statements for provider in _select(connection, one))


def ids_of(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of the providers of these uuids."""
    query = select(_provider.uuid, _provider.id)
    return {
        uuid: key
        for batch in batches(uuids)
        for uuid, key in connection.execute(query.where(among(connection, _provider.uuid, batch)))
    }


def whole_trees(
    connection: Connection, providers: Sequence[CandidateProvider]
) -> tuple[CandidateProvider, ...]:
    """Return all providers of the trees that these are of, by id."""
    trees = resource_providers.alias("trees").c
    found: dict[int, CandidateProvider] = {}
    for batch in batches([provider.id for provider in providers]):
        roots = select(trees.root_provider_id).where(among(connection, trees.id, batch))
        statement = _PROVIDERS.where(_provider.root_provider_id.in_(roots))
        for provider in _select(connection, statement.order_by(_provider.id)):
            found[provider.id] = provider
    return tuple(found.values())


def _select(connection: Connection, statement: Select[*tuple[Any, ...]]) -> list[CandidateProvider]:
    return _candidate_providers(connection.execute(statement).all())


def _candidate_providers(rows: Sequence[Row[*tuple[Any, ...]]]) -> list[CandidateProvider]:
    return [
        CandidateProvider(key, uuid, generation, root or uuid, parent)
        for key, uuid, generation, root, parent in [row[:_COLUMNS] for row in rows]
    ]
