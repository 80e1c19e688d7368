# SPDX-License-Identifier: Apache-2.0
"""Allocations that no single claim may have asked for."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.store.checks import INVENTORY_TIMES, WRITTEN, with_names

_HELD, _OWNED = allocations.c, inventories.c
#: No inventory lets anyone allocate less, whatever its min_unit is or was.
LEAST = 1


def query_of_ignored_units() -> Select[Any]:
    # A step of 0 can be written by hand alone, and would divide by zero.
    steps = _HELD.used % sa.func.nullif(_OWNED.step_size, 0)
    query = select(
        resource_providers.c.uuid.label("provider"),
        resource_providers.c.name,
        resource_classes.c.name.label("resource_class"),
        _HELD.consumer_id.label("consumer"),
        _HELD.used,
        *(_OWNED[name] for name in ("min_unit", "max_unit", "step_size")),
        *INVENTORY_TIMES,
        WRITTEN.label("written"),
    )
    same = sa.and_(
        _HELD.resource_provider_id == _OWNED.resource_provider_id,
        _HELD.resource_class_id == _OWNED.resource_class_id,
    )
    too_little = sa.or_(_HELD.used < _OWNED.min_unit, _HELD.used < LEAST)
    wrong = sa.or_(too_little, _HELD.used > _OWNED.max_unit, steps != 0)
    query = query.select_from(allocations).join(inventories, same)
    return with_names(query, _HELD).where(wrong)
