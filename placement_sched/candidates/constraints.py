"""A question as a list of named constraints, each an SQL condition on a provider.

The plain search asks for the providers that meet all of them; an explanation asks, of every
provider, which ones it meets. Both use the very same conditions, so they cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, false, func, literal, not_, or_, select

from placement_sched.db.tables import (
    allocations,
    inventories,
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.model.query import RequestGroup

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One narrowing step: its kind and detail as an explanation names them, and its condition.

    ``resource_class_id`` and ``amount`` are set for ``resources`` only: a refusal then tells
    numbers. ``refused`` is what is said of a provider that does not meet it, otherwise.
    """

    kind: str
    detail: str
    condition: Condition
    refused: str = ""
    resource_class: str = ""
    resource_class_id: int = 0
    amount: int = 0

    def __str__(self) -> str:
        return f"{self.kind}={self.detail}"


def constraints_of(
    group: RequestGroup, classes: Mapping[str, int], traits: Mapping[str, int]
) -> tuple[Constraint, ...]:
    """Return the constraints of a group that one provider serves alone, the cheapest to tell first.

    ``classes`` and ``traits`` give the ids of the names that the group uses.
    """
    return (
        *(_resources(name, classes[name], amount) for name, amount in group.resources),
        *(_any_trait(names, traits) for names in group.traits.required),
        *(_no_trait(name, traits[name]) for name in sorted(group.traits.forbidden)),
        *(_member_of(uuids) for uuids in group.aggregates.member_of),
        *_not_member_of(group.aggregates.forbidden),
        *_in_tree(group.in_tree),
    )


def used_of(provider_id: ColumnElement[int], class_id: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of what is allocated of a class on a provider, read live from its index."""
    return (
        select(func.coalesce(func.sum(allocations.c.used), 0))
        .where(
            allocations.c.resource_provider_id == provider_id,
            allocations.c.resource_class_id == class_id,
        )
        # Said, not guessed: SQLAlchemy would correlate to the nearest statement around it only.
        .correlate_except(allocations)
        .scalar_subquery()
    )


def _resources(name: str, class_id: int, amount: int) -> Constraint:
    """Return the capacity rule of ``model.inventory`` in SQL; a property test ties the two."""
    owned = inventories.alias()
    return Constraint(
        kind="resources",
        detail=f"{name}:{amount}",
        condition=exists().where(
            owned.c.resource_provider_id == resource_providers.c.id,
            owned.c.resource_class_id == class_id,
            owned.c.min_unit <= amount,
            owned.c.max_unit >= amount,
            literal(amount) % owned.c.step_size == 0,
            (owned.c.total - owned.c.reserved) * owned.c.allocation_ratio
            >= used_of(resource_providers.c.id, literal(class_id)) + amount,
        ),
        resource_class=name,
        resource_class_id=class_id,
        amount=amount,
    )


def _has_trait(ids: list[int]) -> Condition:
    return exists().where(
        resource_provider_traits.c.resource_provider_id == resource_providers.c.id,
        resource_provider_traits.c.trait_id.in_(ids),
    )


def _any_trait(names: frozenset[str], traits: Mapping[str, int]) -> Constraint:
    wanted = sorted(names)
    text = wanted[0] if len(wanted) == 1 else f"in:{','.join(wanted)}"
    return Constraint(
        kind="required",
        detail=text,
        condition=_has_trait([traits[name] for name in wanted]),
        refused=f"lacks trait {' or '.join(wanted)}",
    )


def _no_trait(name: str, trait_id: int) -> Constraint:
    return Constraint(
        kind="required",
        detail=f"!{name}",
        condition=not_(_has_trait([trait_id])),
        refused=f"has forbidden trait {name}",
    )


def _in_aggregates(uuids: frozenset[str]) -> Condition:
    """Return whether a provider, or the root of its tree, is in one of the aggregates."""
    members = (
        select(resource_provider_aggregates.c.resource_provider_id)
        .join(
            placement_aggregates,
            placement_aggregates.c.id == resource_provider_aggregates.c.aggregate_id,
        )
        .where(placement_aggregates.c.uuid.in_(sorted(uuids)))
    )
    if not uuids:
        return false()
    return or_(
        resource_providers.c.id.in_(members), resource_providers.c.root_provider_id.in_(members)
    )


def _member_of(uuids: frozenset[str]) -> Constraint:
    text = f"in:{','.join(sorted(uuids))}"
    return Constraint(
        kind="member_of",
        detail=text,
        condition=_in_aggregates(uuids),
        refused=f"in none of the aggregates {', '.join(sorted(uuids))}",
    )


def _not_member_of(uuids: frozenset[str]) -> tuple[Constraint, ...]:
    if not uuids:
        return ()
    return (
        Constraint(
            kind="member_of",
            detail=f"!in:{','.join(sorted(uuids))}",
            condition=not_(_in_aggregates(uuids)),
            refused="in a forbidden aggregate",
        ),
    )


def _in_tree(uuid: str | None) -> tuple[Constraint, ...]:
    if uuid is None:
        return ()
    member = resource_providers.alias()
    root = select(member.c.root_provider_id).where(member.c.uuid == uuid).scalar_subquery()
    return (
        Constraint(
            kind="in_tree",
            detail=uuid,
            condition=resource_providers.c.root_provider_id == root,
            refused=f"not in the tree of {uuid}",
        ),
    )


def all_of(constraints: tuple[Constraint, ...]) -> Condition:
    """Return the condition that a provider meets every constraint."""
    return and_(*(constraint.condition for constraint in constraints))
