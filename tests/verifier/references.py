# SPDX-License-Identifier: Apache-2.0
"""Queries for rows that refer to missing rows, and for generations."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, Table, func, select

from placement_sched.db import tables
from placement_sched.store.checks import rows_without, with_provider
from tests.verifier.model import Fault, Generations, GenerationsSeen

_OWNED, _CONSUMERS = tables.inventories.c, tables.consumers.c
_HAS, _IN = tables.resource_provider_traits.c, tables.resource_provider_aggregates.c
_PROVIDERS = tables.resource_providers


def fault_queries() -> Mapping[Fault, Select[Any]]:
    return {**_consumer_queries(), **_provider_queries()}


def _consumer_queries() -> dict[Fault, Select[Any]]:
    uuid = _CONSUMERS.uuid.label("consumer")
    owners = {
        Fault.NO_USER: (_CONSUMERS.user_id, tables.users),
        Fault.NO_TYPE: (_CONSUMERS.consumer_type_id, tables.consumer_types),
    }
    return {
        **{
            kind: rows_without(owner, column, uuid, column.label("number"))
            for kind, (column, owner) in owners.items()
        },
        Fault.CONSUMER_GENERATION: select(uuid, _CONSUMERS.generation).where(
            _CONSUMERS.generation < 0
        ),
    }


def _provider_queries() -> dict[Fault, Select[Any]]:
    class_id, trait, aggregate = _OWNED.resource_class_id, _HAS.trait_id, _IN.aggregate_id
    columns = _PROVIDERS.c
    return {
        Fault.INVENTORY_NO_PROVIDER: rows_without(
            _PROVIDERS,
            _OWNED.resource_provider_id,
            _OWNED.resource_provider_id.label("number"),
            class_id.label("class_number"),
        ),
        Fault.INVENTORY_NO_CLASS: with_provider(
            rows_without(tables.resource_classes, class_id, class_id.label("number")),
            _OWNED.resource_provider_id,
        ),
        Fault.TRAIT_NO_PROVIDER: rows_without(
            _PROVIDERS,
            _HAS.resource_provider_id,
            _HAS.resource_provider_id.label("number"),
            tables.traits.c.name.label("trait"),
        ).outerjoin(tables.traits, tables.traits.c.id == trait),
        Fault.UNKNOWN_TRAIT: with_provider(
            rows_without(tables.traits, trait, trait.label("number")), _HAS.resource_provider_id
        ),
        Fault.MEMBER_NO_PROVIDER: rows_without(
            _PROVIDERS,
            _IN.resource_provider_id,
            _IN.resource_provider_id.label("number"),
            tables.placement_aggregates.c.uuid.label("aggregate"),
        ).outerjoin(tables.placement_aggregates, tables.placement_aggregates.c.id == aggregate),
        Fault.UNKNOWN_AGGREGATE: with_provider(
            rows_without(tables.placement_aggregates, aggregate, aggregate.label("number")),
            _IN.resource_provider_id,
        ),
        Fault.PROVIDER_GENERATION: select(
            columns.uuid.label("provider"), columns.name, columns.generation
        ).where(sa.or_(columns.generation.is_(None), columns.generation < 0)),
    }


def read_generations(connection: sa.Connection) -> GenerationsSeen:
    return GenerationsSeen(
        _generations_of(connection, _PROVIDERS), _generations_of(connection, tables.consumers)
    )


def _generations_of(connection: sa.Connection, of: Table) -> Generations:
    generation = func.coalesce(of.c.generation, 0)
    columns = (of.c.id, of.c.uuid, of.c.created_at, generation)
    rows = connection.execute(select(*columns)).all()
    return {(number, uuid, created): last for number, uuid, created, last in rows}
