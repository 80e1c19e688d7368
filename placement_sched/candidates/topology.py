"""Whether the cloud has trees and sharing providers, and who shares with which tree.

A provider with the trait MISC_SHARES_VIA_AGGREGATE serves every tree of which a provider is in
one of its aggregates (Placement documentation, "Modeling with Provider Trees").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import CTE, ColumnElement, Connection, Select, Subquery, case, exists, select

from placement_sched.db.among import among
from placement_sched.db.tables import (
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

SHARES = "MISC_SHARES_VIA_AGGREGATE"

_MEMBER = resource_providers.alias("member")


@dataclass(frozen=True, slots=True)
class Topology:
    """What shapes there are: any child provider, any sharing provider."""

    nested: bool
    sharing: bool

    @property
    def flat(self) -> bool:
        """Return whether every provider stands alone."""
        return not (self.nested or self.sharing)


def nested() -> ColumnElement[int]:
    """Return 1 where any provider has a parent, else 0; asked of an index."""
    return case((exists().where(resource_providers.c.parent_provider_id.is_not(None)), 1), else_=0)


def sharing() -> ColumnElement[int]:
    """Return 1 where any provider shares, else 0; asked of an index."""
    sharer = select(traits.c.id).where(traits.c.name == SHARES).scalar_subquery()
    return case((exists().where(resource_provider_traits.c.trait_id == sharer), 1), else_=0)


def sharing_pairs() -> CTE:
    """Return who shares with which tree: ``provider_id``, ``anchor_id`` (another tree's root).

    A common table expression: it is told, and planned, once for all groups of a request.
    """
    return _pairs().cte("sharing_pairs")


def sharing_with_trees(connection: Connection, roots: Sequence[int]) -> Subquery:
    """Return the same of the trees of these roots only."""
    return _pairs().where(among(connection, _MEMBER.c.root_provider_id, roots)).subquery("pairs")


@cache  # always the same, and building it takes longer than asking it of a few trees
def _pairs() -> Select[int, int | None]:
    sharers = _sharers()
    joined = resource_provider_aggregates.alias("joined")
    return (
        select(sharers.c.provider_id, _MEMBER.c.root_provider_id.label("anchor_id"))
        .select_from(_MEMBER)
        .join(joined, joined.c.resource_provider_id == _MEMBER.c.id)
        .join(sharers, sharers.c.aggregate_id == joined.c.aggregate_id)
        .where(_MEMBER.c.root_provider_id != sharers.c.root_id)
        .distinct()
    )


def _sharers() -> CTE:
    """Return who shares, and through which aggregates.

    Gathered first: they are few, and of the members of large aggregates a planner makes too much.
    DISTINCT changes nothing but keeps SQLite from joining them with all the rest.
    """
    sharer = resource_providers.alias("sharer")
    carried, shared = resource_provider_traits, resource_provider_aggregates.alias("shared")
    return (
        select(
            sharer.c.id.label("provider_id"),
            sharer.c.root_provider_id.label("root_id"),
            shared.c.aggregate_id.label("aggregate_id"),
        )
        .join(carried, carried.c.resource_provider_id == sharer.c.id)
        .join(traits, traits.c.id == carried.c.trait_id)
        .join(shared, shared.c.resource_provider_id == sharer.c.id)
        .where(traits.c.name == SHARES)
        .distinct()
        .cte("sharers")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
