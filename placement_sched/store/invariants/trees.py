"""Where the trees of providers are broken: unknown parents, loops, and roots that are not theirs.

A provider has its own number as root where it has no parent. Those without children and parents,
most of a cloud, are not even read: the database compares their two numbers.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, select

from placement_sched.db.tables import resource_providers
from placement_sched.model.results.invariants import Invariant

_COLUMNS = resource_providers.c
_ROOTS = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.name, _COLUMNS.root_provider_id).where(
    _COLUMNS.parent_provider_id.is_(None),
    sa.or_(_COLUMNS.root_provider_id.is_(None), _COLUMNS.root_provider_id != _COLUMNS.id),
)
_PARENT = resource_providers.alias("parent")
_CHILDREN = (
    select(
        _COLUMNS.id,
        _COLUMNS.uuid,
        _COLUMNS.name,
        _COLUMNS.root_provider_id,
        _COLUMNS.parent_provider_id,
        _PARENT.c.id,
    )
    .outerjoin(_PARENT, _PARENT.c.id == _COLUMNS.parent_provider_id)
    .where(_COLUMNS.parent_provider_id.is_not(None))
)


class _Child(NamedTuple):
    """A provider that has a parent; ``found`` is that parent's number, None where it is absent."""

    id: int
    uuid: str
    name: str
    root_id: int | None
    parent_id: int
    found: int | None


def faults(connection: Connection) -> Iterator[tuple[Invariant, Mapping[str, object]]]:
    """Yield what is wrong, with the names for its sentence; reads the providers with a parent."""
    for number, uuid, name, root in connection.execute(_ROOTS).all():
        about = {"provider": uuid, "name": name}
        yield Invariant.WRONG_ROOT, {**about, "number": root, "real": number}
    children = {row[0]: _Child(*row) for row in connection.execute(_CHILDREN).all()}
    ends: dict[int, int | None] = {}
    for child in children.values():
        about = {"provider": child.uuid, "name": child.name}
        if child.found is None:
            yield Invariant.NO_PARENT, {**about, "number": child.parent_id}
            continue
        real = _root_of(child, children, ends)
        if real is None:
            yield Invariant.PARENT_LOOP, about
        elif real != child.root_id:
            yield Invariant.WRONG_ROOT, {**about, "number": child.root_id, "real": real}


def _root_of(
    child: _Child, children: Mapping[int, _Child], ends: dict[int, int | None]
) -> int | None:
    """Return the number at the end of the way up, None where it goes in a circle; keeps it."""
    way, at = dict[int, None](), child.id
    while at in children and at not in ends and at not in way:
        way[at] = None
        at = children[at].parent_id
    end = ends.get(at, None if at in way else at)
    ends.update(dict.fromkeys(way, end))
    return end
