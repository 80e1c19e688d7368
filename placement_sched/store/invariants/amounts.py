"""Allocations that are more than there is, or that no single claim may have asked for.

``changed`` is when the inventory was last written, ``made`` when it was made, ``written`` when the
allocation was written. OpenStack's placement lets an inventory shrink below what is allocated of
it, so that a later ``changed`` may explain what is found; an earlier one does not. Of one second
the order is not known: it explains where the inventory had been made in an earlier second.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.store.invariants.times import as_text
from placement_sched.store.placement.capacity import overfull

_HELD, _OWNED = allocations.c, inventories.c
_SAME_PLACE = sa.and_(
    _HELD.resource_provider_id == _OWNED.resource_provider_id,
    _HELD.resource_class_id == _OWNED.resource_class_id,
)
_CHANGED = as_text(sa.func.coalesce(_OWNED.updated_at, _OWNED.created_at))
_MADE = as_text(_OWNED.created_at).label("made")
_WRITTEN = sa.func.coalesce(_HELD.updated_at, _HELD.created_at)
#: No inventory lets anyone allocate less, whatever its min_unit is or was.
LEAST = 1
#: What of a row is a time, as text.
TIMES = frozenset({"changed", "made", "written"})
_NAMES = (
    resource_providers.c.uuid.label("provider"),
    resource_providers.c.name,
    resource_classes.c.name.label("resource_class"),
)


def over_capacity() -> Select[Any]:
    """Return the inventories of which more is allocated than they have."""
    # An amount below zero, which no API writes, makes no room for the others.
    taken = sa.func.sum(sa.case((_HELD.used > 0, _HELD.used), else_=0))
    used = (
        select(sa.func.coalesce(taken, 0))
        .where(_SAME_PLACE)
        .correlate(inventories)
        .scalar_subquery()
    )
    last = select(sa.func.max(_WRITTEN)).where(_SAME_PLACE).correlate(inventories)
    query = select(
        *_NAMES,
        *(_OWNED[name] for name in ("total", "reserved", "allocation_ratio")),
        used.label("used"),
        _CHANGED.label("changed"),
        _MADE,
        as_text(last.scalar_subquery()).label("written"),
    )
    return _with_names(query.select_from(inventories), _OWNED).where(overfull(inventories, used))


def units_ignored() -> Select[Any]:
    """Return the allocations that min_unit, max_unit or step_size do not allow, or no inventory."""
    # A step of 0 can be written by hand alone, and would divide by zero.
    steps = _HELD.used % sa.func.nullif(_OWNED.step_size, 0)
    query = select(
        *_NAMES,
        _HELD.consumer_id.label("consumer"),
        _HELD.used,
        *(_OWNED[name] for name in ("min_unit", "max_unit", "step_size")),
        _CHANGED.label("changed"),
        _MADE,
        as_text(_WRITTEN).label("written"),
    )
    query = query.select_from(allocations).join(inventories, _SAME_PLACE)
    too_little = sa.or_(_HELD.used < _OWNED.min_unit, _HELD.used < LEAST)
    wrong = sa.or_(too_little, _HELD.used > _OWNED.max_unit, steps != 0)
    return _with_names(query, _HELD).where(wrong)


def without_inventory() -> Select[Any]:
    """Return the allocations of classes of which their provider has no inventory."""
    query = select(*_NAMES, _HELD.consumer_id.label("consumer"), _HELD.used)
    query = query.select_from(allocations).outerjoin(inventories, _SAME_PLACE)
    return _with_names(query, _HELD).where(_OWNED.id.is_(None))


def _with_names(query: Select[Any], of: Any) -> Select[Any]:
    """Join provider and class; rows of which one is absent are other questions'."""
    return query.join(resource_providers, resource_providers.c.id == of.resource_provider_id).join(
        resource_classes, resource_classes.c.id == of.resource_class_id
    )
