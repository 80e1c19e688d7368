# SPDX-License-Identifier: Apache-2.0
"""Queries for rows that refer to missing rows, invalid generations and invalid amounts."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from placement_sched.db import tables
from placement_sched.store.checks import (
    CHANGED,
    WRITTEN,
    select_rows_without,
    select_spelled_twice,
    with_names,
)
from tests.verifier.model import Fault

_ALLOCATIONS, _INVENTORIES = tables.allocations.c, tables.inventories.c
_CONSUMERS, _TRAITS = tables.consumers.c, tables.resource_provider_traits.c
_AGGREGATES = tables.resource_provider_aggregates.c
_PROVIDERS = tables.resource_providers
#: The smallest amount of an allocation, even if min_unit is less.
MIN_ALLOCATED_AMOUNT = 1


def build_fault_queries() -> Mapping[Fault, Select[Any]]:
    """Return the queries for faults, by fault."""
    uuid, columns = _CONSUMERS.uuid, _PROVIDERS.c
    user, kind = _CONSUMERS.user_id, _CONSUMERS.consumer_type_id
    of_class = _INVENTORIES.resource_class_id
    negative = select(uuid, _CONSUMERS.generation).where(_CONSUMERS.generation < 0)
    return {
        Fault.UNITS: _build_query_for_amounts_outside_units(),
        Fault.NO_PROJECT: select_rows_without(tables.projects, _CONSUMERS.project_id, uuid),
        Fault.NO_USER: select_rows_without(tables.users, user, uuid),
        Fault.NO_TYPE: select_rows_without(tables.consumer_types, kind, uuid),
        Fault.CONSUMER_GENERATION: negative,
        Fault.CONSUMER_TWICE: select_spelled_twice(uuid, "consumer"),
        Fault.NO_CLASS: _build_query_for_broken_references(
            tables.resource_classes, _ALLOCATIONS.resource_class_id, _ALLOCATIONS
        ),
        Fault.INVENTORY_NO_PROVIDER: _build_query_for_rows_without_provider(_INVENTORIES, of_class),
        Fault.INVENTORY_NO_CLASS: _build_query_for_broken_references(
            tables.resource_classes, of_class, _INVENTORIES
        ),
        Fault.TRAIT_NO_PROVIDER: _build_query_for_rows_without_provider(_TRAITS, _TRAITS.trait_id),
        Fault.UNKNOWN_TRAIT: _build_query_for_broken_references(
            tables.traits, _TRAITS.trait_id, _TRAITS
        ),
        Fault.MEMBER_NO_PROVIDER: _build_query_for_rows_without_provider(
            _AGGREGATES, _AGGREGATES.aggregate_id
        ),
        Fault.UNKNOWN_AGGREGATE: _build_query_for_broken_references(
            tables.placement_aggregates, _AGGREGATES.aggregate_id, _AGGREGATES
        ),
        Fault.PROVIDER_GENERATION: select(columns.uuid, columns.generation).where(
            sa.or_(columns.generation.is_(None), columns.generation < 0)
        ),
    }


def _build_query_for_rows_without_provider(columns: Any, other: Any) -> Select[Any]:
    provider = columns.resource_provider_id
    return select_rows_without(_PROVIDERS, provider, provider.label("number"), other.label("other"))


def _build_query_for_broken_references(owner: sa.Table, column: Any, columns: Any) -> Select[Any]:
    missing = select_rows_without(owner, column, column.label("number"))
    missing = missing.outerjoin(_PROVIDERS, _PROVIDERS.c.id == columns.resource_provider_id)
    return missing.add_columns(_PROVIDERS.c.uuid.label("provider"), _PROVIDERS.c.name)


def _build_query_for_amounts_outside_units() -> Select[Any]:
    # No API writes a step_size of 0, but SQL can, and 0 divides nothing.
    steps = _ALLOCATIONS.used % sa.func.nullif(_INVENTORIES.step_size, 0)
    query = select(
        _PROVIDERS.c.uuid.label("provider"),
        tables.resource_classes.c.name.label("resource_class"),
        _ALLOCATIONS.consumer_id.label("consumer"),
        _ALLOCATIONS.used,
        *(_INVENTORIES[name] for name in ("min_unit", "max_unit", "step_size")),
        *(CHANGED.label("changed"), WRITTEN.label("written")),
        _is_changed_after(WRITTEN).label("reduced"),
    )
    same = sa.and_(
        _ALLOCATIONS.resource_provider_id == _INVENTORIES.resource_provider_id,
        _ALLOCATIONS.resource_class_id == _INVENTORIES.resource_class_id,
    )
    too_little = sa.or_(
        _ALLOCATIONS.used < _INVENTORIES.min_unit, _ALLOCATIONS.used < MIN_ALLOCATED_AMOUNT
    )
    wrong = sa.or_(too_little, _ALLOCATIONS.used > _INVENTORIES.max_unit, steps != 0)
    query = query.select_from(tables.allocations).join(tables.inventories, same)
    return with_names(query, _ALLOCATIONS).where(wrong)


def _is_changed_after(written: Any) -> sa.ColumnElement[bool]:
    """Return the condition that an inventory was changed after an allocation."""
    at_once = sa.and_(written == CHANGED, _INVENTORIES.created_at < CHANGED)
    return sa.or_(written < CHANGED, at_once)
