"""A request as a list of named constraints, each an SQL condition on a provider.

The search selects the providers that meet all of them; an explanation selects, for every provider,
which ones it meets. Both use the very same conditions, so they cannot disagree.

On PostgreSQL the usage of the requested classes is a LATERAL subquery, summed once for each
provider that is looked at: its sums decide whether there is room, and are returned with the
provider for its summary. On other databases the capacity rule and the summaries each sum.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.db import tables
from placement_sched.db.sql import Condition
from placement_sched.db.tables import resource_providers
from placement_sched.model.placement.query import CandidatesQuery, RequestGroup, TraitTerms
from placement_sched.store.placement.capacity import has_room

_provider = resource_providers.c
#: A column with the id of the root of the tree that is served, or None: see ``constraints_of``.
RootColumn = sa.ColumnElement[int | None] | None

#: The kind of the constraints on the root of a tree.
ROOT_REQUIRED = "root_required"
#: The root of a provider's own tree.
OWN_ROOT: RootColumn = _provider.root_provider_id


@dataclass(frozen=True, slots=True, eq=False)
class UsageSums:
    """The LATERAL subquery, and its column of each class, in the order of their ids."""

    lateral: sa.FromClause
    columns: dict[int, sa.ColumnElement[int]]


def usage_sums(connection: Connection, classes: Collection[int]) -> UsageSums | None:
    """Return the sums of these classes, None where the database takes no such subquery."""
    if connection.dialect.name != "postgresql":
        return None
    return _sums(tuple(sorted(classes)))


@lru_cache(maxsize=256)  # building this costs more than sending it
def _sums(classes: tuple[int, ...]) -> UsageSums:
    held = tables.allocations.c
    # One walk over the allocations of the provider, whatever the number of classes.
    columns = [
        sa.func.coalesce(sa.func.sum(held.used).filter(held.resource_class_id == key), 0).label(
            f"_{key}"
        )
        for key in classes
    ]
    own = held.resource_provider_id == _provider.id
    if len(classes) == 1:
        own = sa.and_(own, held.resource_class_id == classes[0])
    lateral = sa.select(*columns).where(own).correlate(resource_providers).lateral("sums")
    return UsageSums(lateral, {key: lateral.c[f"_{key}"] for key in classes})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionStyle:
    """How conditions are written in SQL, with the same meaning.

    ``sums`` are sums of usage that the statement has already. ``each``: few providers are looked
    at, so that a trait or an aggregate is looked up for each of them, rather than all its providers
    selected first.
    """

    sums: UsageSums | None = None
    each: bool = False


DEFAULT_STYLE = ConditionStyle()
EACH_PROVIDER = ConditionStyle(each=True)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint: its kind and detail as a report names them, and its condition.

    ``resource_class``, its id and ``amount`` are set for ``resources`` only, which are rejected
    with numbers; any other constraint with the text ``refused``. ``aggregates`` are the ids that a
    membership names. Where there are trees, several memberships of a group have ``alternatives``:
    the condition on the provider itself, and the one on its root. All memberships must hold of the
    one, or all of the other.
    """

    kind: str
    detail: str
    condition: Condition
    refused: str = ""
    resource_class: str = ""
    resource_class_id: int = 0
    amount: int = 0
    aggregates: frozenset[int] | None = None
    alternatives: tuple[Condition, Condition] | None = None


def constraints_of(
    group: RequestGroup,
    names: ResolvedNames,
    root: RootColumn = OWN_ROOT,
    style: ConditionStyle = DEFAULT_STYLE,
) -> tuple[Constraint, ...]:
    """Return the constraints of a group that one provider serves alone, in the order of a report.

    ``root`` is the root of the tree that is served: the provider's own, or that of the tree that it
    shares with. An aggregate of a root spans its tree: a provider that shares with the tree is not
    in it for that, but serves no tree that is in a forbidden one. With None only the provider's own
    aggregates count.
    """
    if root is OWN_ROOT and not names.topology.nested:
        root = None  # every provider is its own root
    write = _Writer(names, root, style)
    found = [
        room_for(name, names.classes[name], amount, style.sums) for name, amount in group.resources
    ]
    found += map(write.any_trait, group.traits.required)
    found += map(write.no_trait, sorted(group.traits.forbidden))
    found += write.memberships(group.aggregates.member_of)
    if group.aggregates.forbidden:
        found.append(write.not_member_of(group.aggregates.forbidden))
    if group.in_tree is not None:
        uuid, member = group.in_tree, resource_providers.alias()
        root_of = sa.select(member.c.root_provider_id).where(member.c.uuid == uuid)
        own = _provider.root_provider_id == root_of.scalar_subquery()
        found.append(Constraint("in_tree", uuid, own, refused=f"not in the tree of {uuid}"))
    return tuple(found)


def root_constraints_of(
    root: TraitTerms, names: ResolvedNames, style: ConditionStyle = DEFAULT_STYLE
) -> tuple[Constraint, ...]:
    """Return the constraints on the root of a tree, in the order of a report."""
    return tuple(
        replace(one, kind=ROOT_REQUIRED, refused=f"the root {one.refused}")
        for one in constraints_of(RequestGroup(traits=root), names, None, style)
    )


def alone(
    query: CandidatesQuery, names: ResolvedNames, style: ConditionStyle = DEFAULT_STYLE
) -> tuple[Constraint, ...]:
    """Return the constraints of a request of one group where every provider stands alone."""
    (group,) = query.groups
    return (
        *constraints_of(group, names, style=style),
        *root_constraints_of(query.root, names, style),
    )


@lru_cache(maxsize=1024)  # flavors repeat, and building this expression costs more than sending it
def room_for(name: str, class_id: int, amount: int, sums: UsageSums | None) -> Constraint:
    """Return the condition that a provider has an amount free; ``sums`` may have its usage."""
    owned = tables.inventories.alias()
    used = None if sums is None else sums.columns[class_id]
    room = sa.exists().where(
        owned.c.resource_provider_id == _provider.id,
        owned.c.resource_class_id == class_id,
        has_room(owned, amount, used),
    )
    detail, condition = f"{name}:{amount}", room.correlate_except(owned)
    return Constraint(
        "resources",
        detail,
        condition,
        resource_class=name,
        resource_class_id=class_id,
        amount=amount,
    )


def providers_with_trait(trait_ids: Iterable[int]) -> sa.Select[int]:
    """Return the query of the ids of providers that have one of these traits."""
    carried = tables.resource_provider_traits.c
    return sa.select(carried.resource_provider_id).where(carried.trait_id.in_(sorted(trait_ids)))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the constraints on traits and aggregates of one group."""

    names: ResolvedNames
    root: RootColumn
    style: ConditionStyle

    def any_trait(self, any_of: frozenset[str]) -> Constraint:
        wanted = sorted(any_of)
        trait_ids = tuple(sorted(self.names.traits[name] for name in wanted))
        detail = wanted[0] if len(wanted) == 1 else f"in:{','.join(wanted)}"
        carries = _has_trait(trait_ids, self.style.each)
        return Constraint("required", detail, carries, f"lacks trait {' or '.join(wanted)}")

    def no_trait(self, name: str) -> Constraint:
        lacks = _lacks_trait(self.names.traits[name])
        return Constraint("required", f"!{name}", lacks, f"has forbidden trait {name}")

    def memberships(self, member_of: Sequence[frozenset[str]]) -> Iterator[Constraint]:
        """Yield that a provider is in one of each of these sets of aggregates.

        As OpenStack placement has it: in all of them by itself, or in all by its root, but not in
        some by itself and in others by its root. A root is both, so that it only matters in trees.
        """
        in_trees = self.root is OWN_ROOT
        for uuids in member_of:
            condition = self._in_aggregates(uuids, self.root if in_trees else None)
            named = sorted(uuids)
            yield Constraint(
                kind="member_of",
                detail=f"in:{','.join(named)}",
                # PostgreSQL takes an OR to hold for half of all providers, and for half of those
                # the next one; planned, it reads a whole cloud for the first thousand.
                condition=row_by_row(condition) if in_trees else condition,
                refused=f"not in aggregate {' or '.join(named)}",
                aggregates=_known(uuids, self.names),
                alternatives=self._either(uuids) if in_trees and len(member_of) > 1 else None,
            )

    def not_member_of(self, uuids: frozenset[str]) -> Constraint:
        outside = row_by_row(sa.not_(self._in_aggregates(uuids, self.root)))
        detail = f"!in:{','.join(sorted(uuids))}"
        return Constraint("member_of", detail, outside, "in a forbidden aggregate")

    def _in_aggregates(self, uuids: frozenset[str], root: RootColumn) -> Condition:
        if root is None:
            return self._is_one_of(_provider.id, _members(uuids, self.names))
        itself, by_root = self._either(uuids)
        # The members are selected once; a root is its own root, so that in a cloud without child
        # providers they are never selected for the second half.
        spanned = sa.or_(by_root, sa.and_(_provider.parent_provider_id.is_not(None), itself))
        if root is OWN_ROOT:
            return spanned
        return sa.or_(spanned, self._is_one_of(root, _members(uuids, self.names)))

    def _either(self, uuids: frozenset[str]) -> tuple[Condition, Condition]:
        members = _members(uuids, self.names)
        own = self._is_one_of(_provider.id, members)
        return own, self._is_one_of(_provider.root_provider_id, members)

    def _is_one_of(
        self, column: sa.ColumnElement[int | None], ids: sa.Select[int] | None
    ) -> Condition:
        return sa.false() if ids is None else _is_among(column, ids, self.style.each)


# A request may have hundreds of traits, and an explanation asks for its constraints several times.
@lru_cache(maxsize=1024)
def _has_trait(trait_ids: tuple[int, ...], each: bool) -> Condition:
    return _is_among(_provider.id, providers_with_trait(trait_ids), each)


@lru_cache(maxsize=1024)
def _lacks_trait(trait_id: int) -> Condition:
    carried = tables.resource_provider_traits.alias().c
    carries = sa.exists().where(
        carried.resource_provider_id == _provider.id, carried.trait_id == trait_id
    )
    return sa.not_(carries)


def _is_among(column: sa.ColumnElement[int | None], ids: sa.Select[int], each: bool) -> Condition:
    if not each:
        # IN, not EXISTS: only so SQLite starts from the few providers with a rare trait.
        return column.in_(ids)
    (own,) = ids.selected_columns
    return ids.where(own == column).exists()


def _known(uuids: frozenset[str], names: ResolvedNames) -> frozenset[int]:
    return frozenset(names.aggregates[uuid] for uuid in uuids if uuid in names.aggregates)


def _members(uuids: frozenset[str], names: ResolvedNames) -> sa.Select[int] | None:
    known = sorted(_known(uuids, names))
    if not known:
        return None
    membership = tables.resource_provider_aggregates.c
    return sa.select(membership.resource_provider_id).where(membership.aggregate_id.in_(known))


def root_in_aggregates(
    uuids: frozenset[str], names: ResolvedNames, root: sa.ColumnElement[int | None]
) -> Condition:
    """Return whether a root is in one of the aggregates; if forbidden, nothing shares with it."""
    members = _members(uuids, names)
    return sa.false() if members is None else root.in_(members)


def all_of(constraints: Sequence[Constraint]) -> Condition:
    """Return the condition that a provider meets every constraint.

    Amounts come last: SQLite evaluates conditions in the order written, and summing usage is the
    most expensive of them. PostgreSQL and MariaDB find their own order.
    """
    ordered = sorted(_needed(constraints), key=lambda constraint: constraint.kind == "resources")
    pairs = [one.alternatives for one in ordered if one.alternatives is not None]
    conditions = []
    for constraint in ordered:
        if constraint.alternatives is None or len(pairs) == 1:
            conditions.append(constraint.condition)
        elif constraint.alternatives is pairs[0]:  # one for all memberships that go together
            either = sa.or_(*(sa.and_(*every) for every in zip(*pairs, strict=True)))
            conditions.append(row_by_row(either))
    return sa.and_(sa.true(), *conditions[:WEIGHED], *map(row_by_row, conditions[WEIGHED:]))


def _needed(constraints: Sequence[Constraint]) -> Iterator[Constraint]:
    """Yield the constraints without memberships that another one implies: of fewer aggregates."""
    left = set(least_sets(one.aggregates for one in constraints if one.aggregates is not None))
    for constraint in constraints:
        if constraint.aggregates is None:
            yield constraint
        elif constraint.aggregates in left:
            left.remove(constraint.aggregates)
            yield constraint


def least_sets(sets: Iterable[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Return the sets, smallest first, without those that contain another one.

    Who has (or is) one of each of these has one of each of all.
    """
    least: list[frozenset[int]] = []
    for one in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        if not any(fewer <= one for fewer in least):
            least.append(one)
    return tuple(least)


#: So many conditions a planner may weigh against each other: seven take PostgreSQL 10 ms.
WEIGHED = 3


def row_by_row(condition: Condition) -> Condition:
    """Return a condition that is evaluated for each row rather than planned as a join.

    Planners make joins of EXISTS and IN, and try the joins in many orders: planning twenty of them
    takes minutes.
    """
    return sa.case((condition, 1), else_=0) != 0
