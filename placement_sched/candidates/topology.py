"""Whether the cloud has trees and sharing providers, and who shares with which tree.

A provider with the trait MISC_SHARES_VIA_AGGREGATE serves every tree of which a provider is in
one of its aggregates (Placement documentation, "Modeling with Provider Trees").
"""

from dataclasses import dataclass

from sqlalchemy import CTE, ColumnElement, case, exists, select

from placement_sched.db.tables import (
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

SHARES = "MISC_SHARES_VIA_AGGREGATE"


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
    sharer = resource_providers.alias("sharer")
    member = resource_providers.alias("member")
    shared = resource_provider_aggregates.alias("shared")
    joined = resource_provider_aggregates.alias("joined")
    return (
        select(sharer.c.id.label("provider_id"), member.c.root_provider_id.label("anchor_id"))
        .join(
            resource_provider_traits, resource_provider_traits.c.resource_provider_id == sharer.c.id
        )
        .join(traits, traits.c.id == resource_provider_traits.c.trait_id)
        .join(shared, shared.c.resource_provider_id == sharer.c.id)
        .join(joined, joined.c.aggregate_id == shared.c.aggregate_id)
        .join(member, member.c.id == joined.c.resource_provider_id)
        .where(traits.c.name == SHARES, member.c.root_provider_id != sharer.c.root_provider_id)
        .distinct()
        .cte("sharing_pairs")
    )
