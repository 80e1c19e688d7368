"""Rows that refer to rows which are not there, rows that are there twice, and generations."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Select, Table, func, select

from placement_sched.db import tables
from placement_sched.model.results.invariants import Generations, GenerationsSeen, Invariant
from placement_sched.store.invariants import times

_HELD, _OWNED, _CONSUMERS = tables.allocations.c, tables.inventories.c, tables.consumers.c
_HAS, _IN = tables.resource_provider_traits.c, tables.resource_provider_aggregates.c
_PROVIDERS = tables.resource_providers
_HOLDER = _HELD.consumer_id.label("consumer")


def questions() -> Mapping[Invariant, Select[Any]]:
    """Return the question of each invariant of this kind: its rows violate it."""
    return {**_of_allocations(), **_of_consumers(), **_of_providers()}


def _of_allocations() -> dict[Invariant, Select[Any]]:
    number = _HELD.resource_provider_id
    twice = _twice()
    return {
        Invariant.NO_PROVIDER: _lacking(number, _PROVIDERS, _HOLDER, number.label("number")),
        Invariant.NO_CLASS: _with_provider(
            _lacking(
                _HELD.resource_class_id,
                tables.resource_classes,
                _HOLDER,
                _HELD.resource_class_id.label("number"),
            ),
            number,
        ),
        Invariant.NO_CONSUMER: _lacking(
            _HELD.consumer_id, tables.consumers, _HOLDER, by="uuid"
        ).distinct(),
        Invariant.ALLOCATED_TWICE: select(
            twice.c.consumer_id.label("consumer"),
            _PROVIDERS.c.uuid.label("provider"),
            tables.resource_classes.c.name.label("resource_class"),
            twice.c.times,
        )
        .join(_PROVIDERS, _PROVIDERS.c.id == twice.c.resource_provider_id)
        .join(tables.resource_classes, tables.resource_classes.c.id == twice.c.resource_class_id),
    }


def _twice() -> sa.Subquery:
    """Return the places of which a consumer has several allocations, found before they are named.

    MariaDB takes four times as long where it joins the names first.
    """
    place = (_HELD.consumer_id, _HELD.resource_provider_id, _HELD.resource_class_id)
    query = select(*place, func.count().label("times")).group_by(*place)
    return query.having(func.count() > 1).subquery()


def _of_consumers() -> dict[Invariant, Select[Any]]:
    uuid = _CONSUMERS.uuid.label("consumer")
    owners = {
        Invariant.NO_PROJECT: (_CONSUMERS.project_id, tables.projects),
        Invariant.NO_USER: (_CONSUMERS.user_id, tables.users),
        Invariant.NO_TYPE: (_CONSUMERS.consumer_type_id, tables.consumer_types),
    }
    return {
        Invariant.NO_ALLOCATIONS: select(uuid)
        .outerjoin(tables.allocations, _HELD.consumer_id == _CONSUMERS.uuid)
        .where(_HELD.id.is_(None)),
        **{
            kind: _lacking(column, owner, uuid, column.label("number"))
            for kind, (column, owner) in owners.items()
        },
        Invariant.CONSUMER_TWICE: _spelt_twice(_CONSUMERS.uuid, "consumer"),
        Invariant.CONSUMER_GENERATION: select(uuid, _CONSUMERS.generation).where(
            _CONSUMERS.generation < 0
        ),
    }


def _of_providers() -> dict[Invariant, Select[Any]]:
    class_id, trait, aggregate = _OWNED.resource_class_id, _HAS.trait_id, _IN.aggregate_id
    columns = _PROVIDERS.c
    return {
        Invariant.INVENTORY_NO_PROVIDER: _lacking(
            _OWNED.resource_provider_id,
            _PROVIDERS,
            _OWNED.resource_provider_id.label("number"),
            class_id.label("class_number"),
        ),
        Invariant.INVENTORY_NO_CLASS: _with_provider(
            _lacking(class_id, tables.resource_classes, class_id.label("number")),
            _OWNED.resource_provider_id,
        ),
        Invariant.TRAIT_NO_PROVIDER: _lacking(
            _HAS.resource_provider_id,
            _PROVIDERS,
            _HAS.resource_provider_id.label("number"),
            tables.traits.c.name.label("trait"),
        ).outerjoin(tables.traits, tables.traits.c.id == trait),
        Invariant.UNKNOWN_TRAIT: _with_provider(
            _lacking(trait, tables.traits, trait.label("number")), _HAS.resource_provider_id
        ),
        Invariant.MEMBER_NO_PROVIDER: _lacking(
            _IN.resource_provider_id,
            _PROVIDERS,
            _IN.resource_provider_id.label("number"),
            tables.placement_aggregates.c.uuid.label("aggregate"),
        ).outerjoin(tables.placement_aggregates, tables.placement_aggregates.c.id == aggregate),
        Invariant.UNKNOWN_AGGREGATE: _with_provider(
            _lacking(aggregate, tables.placement_aggregates, aggregate.label("number")),
            _IN.resource_provider_id,
        ),
        Invariant.PROVIDER_TWICE: _spelt_twice(columns.uuid, "provider"),
        Invariant.PROVIDER_GENERATION: select(
            columns.uuid.label("provider"), columns.name, columns.generation
        ).where(sa.or_(columns.generation.is_(None), columns.generation < 0)),
    }


def _spelt_twice(uuid: Column[Any], name: str) -> Select[Any]:
    """Return the uuids, as ``name``, that several rows have in different spellings."""
    # Letters of either case, with hyphens or without: all are the same uuid.
    same = func.replace(func.lower(uuid), "-", "")
    shown = func.lower(func.min(uuid)).label(name)
    query = select(shown, func.count().label("times")).group_by(same)
    return query.having(func.count() > 1)


def _lacking(column: Column[Any], owner: Table, *shown: Any, by: str = "id") -> Select[Any]:
    """Return what is shown of the rows whose ``column`` is that of no row of ``owner``."""
    query = select(*shown).select_from(column.table).outerjoin(owner, owner.c[by] == column)
    return query.where(owner.c[by].is_(None), column.is_not(None))


def _with_provider(query: Select[Any], number: Column[Any]) -> Select[Any]:
    """Return the question with uuid and name of the provider of this number, where it is there."""
    names = (_PROVIDERS.c.uuid.label("provider"), _PROVIDERS.c.name)
    return query.outerjoin(_PROVIDERS, _PROVIDERS.c.id == number).add_columns(*names)


def generations(connection: sa.Connection) -> GenerationsSeen:
    """Return the generation of every provider and every consumer."""
    return GenerationsSeen(
        _generations(connection, _PROVIDERS), _generations(connection, tables.consumers)
    )


def _generations(connection: sa.Connection, of: Table) -> Generations:
    generation = func.coalesce(of.c.generation, 0)
    columns = (of.c.id, of.c.uuid, times.as_text(of.c.created_at), generation)
    rows = connection.execute(select(*columns)).all()
    return {(number, uuid, times.read(made)): last for number, uuid, made, last in rows}
