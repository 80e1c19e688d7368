# SPDX-License-Identifier: Apache-2.0
"""Allocations that the units of their inventory do not allow."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.store.checks import INVENTORY_TIMES, WRITTEN, with_names

_HELD, _OWNED = allocations.c, inventories.c
#: The smallest amount of an allocation, even if min_unit is less.
MIN_USED = 1


def ignored_units_query() -> Select[Any]:
    # No API writes a step_size of 0, but SQL can, and 0 divides nothing.
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
    too_little = sa.or_(_HELD.used < _OWNED.min_unit, _HELD.used < MIN_USED)
    wrong = sa.or_(too_little, _HELD.used > _OWNED.max_unit, steps != 0)
    query = query.select_from(allocations).join(inventories, same)
    return with_names(query, _HELD).where(wrong)
