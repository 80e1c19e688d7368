"""Which providers serve the whole request alone: one statement, cut at the limit."""

from collections.abc import Collection, Sequence
from random import Random
from typing import Any

from sqlalchemy import Connection, Row, case, select, true

from placement_sched.candidates.constraints import Condition
from placement_sched.candidates.sums import Sums
from placement_sched.db.among import among
from placement_sched.db.batches import AT_ONCE, batches
from placement_sched.db.plans import PLANNED_BY_VALUE
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidate import CandidateProvider, Usages

_itself = resource_providers.c
_root = resource_providers.alias("root").c
_parent = resource_providers.alias("parent").c

# The uuids of root and parent are looked up row by row, and only for a provider that is not a
# root itself: a join would be two more tables for the planner to try in every order. A root's own
# uuid is not sent twice.
_PROVIDERS = select(
    _itself.id,
    _itself.uuid,
    _itself.generation,
    case(
        (
            _itself.root_provider_id != _itself.id,
            select(_root.uuid).where(_root.id == _itself.root_provider_id).scalar_subquery(),
        )
    ).label("other_root_uuid"),
    case(
        (
            _itself.parent_provider_id.is_not(None),
            select(_parent.uuid).where(_parent.id == _itself.parent_provider_id).scalar_subquery(),
        )
    ).label("parent_uuid"),
).where(_itself.root_provider_id.is_not(None))

_COLUMNS = len(CandidateProvider._fields)
#: From so many on it pays to plan a statement anew each time.
MANY = 500


def narrow(
    connection: Connection, condition: Condition, sums: Sums | None, limit: int | None
) -> tuple[tuple[CandidateProvider, ...], Usages]:
    """Return the first ``limit`` providers, by id, that meet the condition, and their ``sums``.

    The limit goes into the statement, so that the database stops once it has enough.
    """
    statement = _PROVIDERS.where(condition).order_by(_itself.id).limit(limit)
    if sums is None:
        return _candidates(connection.execute(statement).all()), Usages()
    beside = statement.add_columns(*sums.columns.values()).join(sums.beside, true())
    providers: list[CandidateProvider] = []
    amounts: dict[int, tuple[int, ...]] = {}
    many = limit is None or limit >= MANY
    options = PLANNED_BY_VALUE if many else {}
    found = connection.execute(beside, execution_options=options)
    for rows in found.partitions(AT_ONCE):
        providers += _candidates(rows)
        amounts.update((row[0], tuple(row[_COLUMNS:])) for row in rows)
    return tuple(providers), Usages(classes=tuple(sums.columns), amounts=amounts)


def sample(
    connection: Connection, condition: Condition, limit: int | None, random: Random
) -> tuple[CandidateProvider, ...]:
    """Return ``limit`` providers that meet the condition, each as likely as any other.

    The lot is drawn among ids; only the drawn are described.
    """
    fitting = connection.scalars(select(_itself.id).where(condition).order_by(_itself.id)).all()
    drawn = random.sample(fitting, len(fitting) if limit is None else min(limit, len(fitting)))
    found = {provider.id: provider for provider in describe(connection, drawn)}
    return tuple(found[key] for key in drawn if key in found)


def describe(connection: Connection, ids: Sequence[int]) -> tuple[CandidateProvider, ...]:
    """Return the providers of these ids, in no order."""
    return tuple(
        provider
        for batch in batches(ids)
        for provider in _candidates(
            connection.execute(_PROVIDERS.where(among(connection, _itself.id, batch))).all()
        )
    )


def uuids_of(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """Return the uuids of the providers of these ids."""
    query = select(_itself.id, _itself.uuid)
    return {
        key: uuid
        for batch in batches(ids)
        for key, uuid in connection.execute(query.where(among(connection, _itself.id, batch)))
    }


def ids_of(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of the providers of these uuids."""
    query = select(_itself.id, _itself.uuid)
    return {
        uuid: key
        for batch in batches(uuids)
        for key, uuid in connection.execute(query.where(among(connection, _itself.uuid, batch)))
    }


def whole_trees(
    connection: Connection, providers: Sequence[CandidateProvider]
) -> tuple[CandidateProvider, ...]:
    """Return all providers of the trees that these are of, by id."""
    trees = resource_providers.alias("trees").c
    statement = _PROVIDERS.order_by(_itself.id)
    ids = [provider.id for provider in providers]
    return tuple(
        {
            provider.id: provider
            for batch in batches(ids)
            for provider in _candidates(
                connection.execute(
                    statement.where(
                        _itself.root_provider_id.in_(
                            select(trees.root_provider_id).where(among(connection, trees.id, batch))
                        )
                    )
                ).all()
            )
        }.values()
    )


def _candidates(rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[CandidateProvider, ...]:
    return tuple(
        [
            CandidateProvider(key, uuid, generation, root or uuid, parent)
            for key, uuid, generation, root, parent in [row[:_COLUMNS] for row in rows]
        ]
    )
