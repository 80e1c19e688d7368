"""A question as a list of named constraints, each an SQL condition on a provider.

The plain search asks for the providers that meet all of them; an explanation asks, of every
provider, which ones it meets. Both use the very same conditions, so they cannot disagree.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlalchemy import ColumnElement, Select, and_, case, exists, false, not_, or_, select, true

from placement_sched.candidates.names import Names
from placement_sched.candidates.sums import Sums
from placement_sched.db.tables import (
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.model.query import RequestGroup, TraitTerms
from placement_sched.store.room import has_room

Condition = ColumnElement[bool]
#: A column with the id of a root provider.
Home = ColumnElement[int | None] | None

#: The kind of the constraints on the root of a tree.
ROOT_REQUIRED = "root_required"
#: The root of a provider's own tree.
OWN_ROOT: Home = resource_providers.c.root_provider_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How conditions are written; what they say is the same.

    ``sums``: what is used is there already, and need not be summed. ``each``: they are asked of
    few providers, one by one, so that a trait or an aggregate is looked up rather than all who
    have it gathered first.
    """

    sums: Sums | None = None
    each: bool = False


PLAINLY = Manner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One narrowing step: its kind and detail as an explanation names them, and its condition.

    ``resource_class_id`` and ``amount`` are set for ``resources`` only: a refusal then tells
    numbers. ``refused`` is what is said of a provider that does not meet it, otherwise.
    ``aggregates`` are set for a membership: the ids of those that it names. Where there are trees,
    several memberships of a group have ``halves``: of the provider itself, and of its root. All of
    them hold of the one, or all of the other.
    """

    kind: str
    detail: str
    condition: Condition
    refused: str = ""
    resource_class: str = ""
    resource_class_id: int = 0
    amount: int = 0
    aggregates: frozenset[int] | None = None
    halves: tuple[Condition, Condition] | None = None

    def __str__(self) -> str:
        return f"{self.kind}={self.detail}"


def constraints_of(
    group: RequestGroup, names: Names, home: Home = OWN_ROOT, manner: Manner = PLAINLY
) -> tuple[Constraint, ...]:
    """Return the constraints of a group that one provider serves alone, as they are explained.

    ``home`` is the root of the tree that is served: of its own, or of the one that the provider
    shares with. An aggregate of a root spans its tree: who is of another is not in it, but serves
    no tree that is in a forbidden one. With None only the provider's own aggregates count.
    """
    return (
        *(
            room_for(name, names.classes[name], amount, manner.sums)
            for name, amount in group.resources
        ),
        *(_any_trait(any_of, names, manner) for any_of in group.traits.required),
        *(_no_trait(name, names) for name in sorted(group.traits.forbidden)),
        *_memberships(group.aggregates.member_of, names, home, manner),
        *_not_member_of(group.aggregates.forbidden, names, home, manner),
        *_in_tree(group.in_tree),
    )


def root_constraints_of(
    root: TraitTerms, names: Names, manner: Manner = PLAINLY
) -> tuple[Constraint, ...]:
    """Return the constraints on the root of a tree, as they are explained."""
    return tuple(
        replace(one, kind=ROOT_REQUIRED, refused=f"the root {one.refused}")
        for one in constraints_of(RequestGroup(traits=root), names, None, manner)
    )


@lru_cache(maxsize=1024)  # flavors repeat, and to build this expression costs more than to send it
def room_for(name: str, class_id: int, amount: int, sums: Sums | None) -> Constraint:
    """Return that a provider has room for so much of a class, which ``sums`` may have summed."""
    owned = inventories.alias()
    used = None if sums is None else sums.columns[class_id]
    return Constraint(
        kind="resources",
        detail=f"{name}:{amount}",
        condition=exists()
        .where(
            owned.c.resource_provider_id == resource_providers.c.id,
            owned.c.resource_class_id == class_id,
            has_room(owned, amount, used),
        )
        .correlate_except(owned),
        resource_class=name,
        resource_class_id=class_id,
        amount=amount,
    )


def carriers_of(trait_ids: Iterable[int]) -> Select[int]:
    """Return the query of the ids of providers that carry one of these traits."""
    carried = resource_provider_traits.c
    return select(carried.resource_provider_id).where(carried.trait_id.in_(sorted(trait_ids)))


def _is_of(column: ColumnElement[int | None], ids: Select[int], manner: Manner) -> Condition:
    """Return whether a column is one of the ids of a query."""
    if not manner.each:
        # IN, not EXISTS: SQLite starts from the few carriers of a rare trait only so.
        return column.in_(ids)
    (own,) = ids.selected_columns
    return ids.where(own == column).exists()


def _any_trait(any_of: frozenset[str], names: Names, manner: Manner) -> Constraint:
    wanted = sorted(any_of)
    text = wanted[0] if len(wanted) == 1 else f"in:{','.join(wanted)}"
    return Constraint(
        kind="required",
        detail=text,
        condition=_is_of(
            resource_providers.c.id, carriers_of(names.traits[name] for name in wanted), manner
        ),
        refused=f"lacks trait {' or '.join(wanted)}",
    )


def _no_trait(name: str, names: Names) -> Constraint:
    carried = resource_provider_traits.alias().c
    return Constraint(
        kind="required",
        detail=f"!{name}",
        condition=not_(
            exists().where(
                carried.resource_provider_id == resource_providers.c.id,
                carried.trait_id == names.traits[name],
            )
        ),
        refused=f"has forbidden trait {name}",
    )


def _known(uuids: frozenset[str], names: Names) -> frozenset[int]:
    """Return the ids of those aggregates that are there."""
    return frozenset(names.aggregates[uuid] for uuid in uuids if uuid in names.aggregates)


def _members(uuids: frozenset[str], names: Names) -> Select[int] | None:
    """Return the query of the ids of providers in one of the aggregates, None for nobody."""
    known = sorted(_known(uuids, names))
    if not known:
        return None
    membership = resource_provider_aggregates.c
    return select(membership.resource_provider_id).where(membership.aggregate_id.in_(known))


def _in_aggregates(uuids: frozenset[str], names: Names, home: Home, manner: Manner) -> Condition:
    """Return whether a provider, its root or its home is in one of the aggregates."""
    members = _members(uuids, names)
    if members is None:
        return false()
    itself = _is_of(resource_providers.c.id, members, manner)
    if home is None:
        return itself
    # The members are gathered once; a root is its own root, so that a cloud without child
    # providers never gathers them for the second half.
    spanned = or_(
        _is_of(resource_providers.c.root_provider_id, members, manner),
        and_(
            resource_providers.c.parent_provider_id.is_not(None),
            itself,
        ),
    )
    return spanned if home is OWN_ROOT else or_(spanned, _is_of(home, members, manner))


def _spanning(uuids: frozenset[str], names: Names, home: Home, manner: Manner) -> Condition:
    """Return :func:`_in_aggregates`, apart where it is no join that a planner could weigh.

    PostgreSQL takes such a condition to hold for half of all, and for half of those the next; it
    then reads a whole cloud for the thousand that it does not expect to find before.
    """
    if home is None or not names.topology.nested:
        # Everybody is their own root: that is a join.
        return _in_aggregates(uuids, names, None, manner)
    return apart(_in_aggregates(uuids, names, home, manner))


def _memberships(
    member_of: Sequence[frozenset[str]], names: Names, home: Home, manner: Manner
) -> tuple[Constraint, ...]:
    """Return that a provider is in one of each of these sets of aggregates.

    As OpenStack placement has it: in all of them by itself, or in all by its root, not in some so
    and in others so. A root is both, so that it only matters where there are trees.
    """
    mixing = home is OWN_ROOT and names.topology.nested and len(member_of) > 1
    return tuple(
        Constraint(
            kind="member_of",
            detail=f"in:{','.join(sorted(uuids))}",
            condition=_spanning(uuids, names, home if home is OWN_ROOT else None, manner),
            refused=f"in none of the aggregates {', '.join(sorted(uuids))}",
            aggregates=_known(uuids, names),
            halves=_halves(uuids, names, manner) if mixing else None,
        )
        for uuids in member_of
    )


def _halves(uuids: frozenset[str], names: Names, manner: Manner) -> tuple[Condition, Condition]:
    members = _members(uuids, names)
    if members is None:
        return false(), false()
    columns = resource_providers.c
    return _is_of(columns.id, members, manner), _is_of(columns.root_provider_id, members, manner)


def _not_member_of(
    uuids: frozenset[str], names: Names, home: Home, manner: Manner
) -> tuple[Constraint, ...]:
    if not uuids:
        return ()
    if home is OWN_ROOT and not names.topology.nested:
        # Everybody is their own root.
        home = None
    return (
        Constraint(
            kind="member_of",
            detail=f"!in:{','.join(sorted(uuids))}",
            condition=apart(not_(_in_aggregates(uuids, names, home, manner))),
            refused="in a forbidden aggregate",
        ),
    )


def bars(uuids: frozenset[str], names: Names, root: ColumnElement[int | None]) -> Condition:
    """Return whether a root is in one of the aggregates, which forbids its tree to who shares."""
    members = _members(uuids, names)
    return false() if members is None else root.in_(members)


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
    """Return the condition that a provider meets every constraint.

    Amounts come last: SQLite tries conditions in the order written, and to sum what is used is
    the dearest of them. PostgreSQL and MariaDB find their own order.
    """
    ordered = sorted(_needed(constraints), key=lambda constraint: constraint.kind == "resources")
    conditions = list(_conditions(ordered))
    return and_(true(), *conditions[:WEIGHED], *map(apart, conditions[WEIGHED:]))


def _needed(constraints: Sequence[Constraint]) -> Iterator[Constraint]:
    """Yield the constraints without memberships that another one implies: of fewer aggregates."""
    least: list[frozenset[int]] = []
    named = {one.aggregates for one in constraints if one.aggregates is not None}
    for aggregates in sorted(named, key=len):
        if not any(fewer <= aggregates for fewer in least):
            least.append(aggregates)
    left = set(least)
    for constraint in constraints:
        if constraint.aggregates is None:
            yield constraint
        elif constraint.aggregates in left:
            left.remove(constraint.aggregates)
            yield constraint


def _conditions(constraints: Sequence[Constraint]) -> Iterator[Condition]:
    """Yield the condition of each constraint, but one for all memberships that go together."""
    halved = [one.halves for one in constraints if one.halves is not None]
    for constraint in constraints:
        if constraint.halves is None or len(halved) == 1:
            yield constraint.condition
        elif constraint.halves is halved[0]:
            yield apart(or_(*(and_(*half) for half in zip(*halved, strict=True))))


#: So many conditions a planner may weigh against each other: seven take PostgreSQL 10 ms.
WEIGHED = 3


def apart(condition: Condition) -> Condition:
    """Return a condition that is asked row by row, whatever else is asked.

    Planners make joins of EXISTS and IN, and try the joins in many orders: the time for that grows
    out of all bounds with their number, to minutes for twenty.
    """
    return case((condition, 1), else_=0) != 0
