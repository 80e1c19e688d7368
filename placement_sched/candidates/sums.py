"""What is used of the classes asked for, summed once for each provider that is looked at.

PostgreSQL takes a subquery beside the provider (LATERAL): its sums decide whether there is room,
and go out with the provider for its summary. Elsewhere the capacity rule sums by itself, and the
summaries sum again.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import ColumnElement, Connection, FromClause, and_, func, select

from placement_sched.db.tables import allocations, resource_providers


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The subquery beside a provider, and the column of each class, in the order of their ids."""

    beside: FromClause
    columns: dict[int, ColumnElement[int]]


def sums_of(connection: Connection, classes: Collection[int]) -> Sums | None:
    """Return the sums of these classes, None where the database takes no such subquery."""
    if connection.dialect.name != "postgresql":
        return None
    return _sums(tuple(sorted(classes)))


@lru_cache(maxsize=256)  # to build this costs more than to send it
def _sums(classes: tuple[int, ...]) -> Sums:
    held = allocations.c
    # One walk over what is held of the provider, whatever the number of classes.
    columns = [
        func.coalesce(func.sum(held.used).filter(held.resource_class_id == key), 0).label(f"_{key}")
        for key in classes
    ]
    own = held.resource_provider_id == resource_providers.c.id
    if len(classes) == 1:
        own = and_(own, held.resource_class_id == classes[0])
    beside = select(*columns).where(own).correlate(resource_providers).lateral("sums")
    return Sums(beside, {key: beside.c[f"_{key}"] for key in classes})
