"""The constraints of a search as stages, and what each leaves of the providers of every tree.

The masks are those of the search (``constraints``). Trees are counted. Group by group and
constraint by constraint, each slot of the request loses the providers that do not meet it. A tree
is rejected by the first constraint that leaves a slot without any.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from placement_sched.candidates.columns import Mask
from placement_sched.candidates.constraints import (
    Constraint,
    ConstraintEvaluator,
    CountedRoot,
    constraints_of,
    root_constraints_of,
)
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import serves_alone, slots_of
from placement_sched.candidates.search import Search
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db import tables
from placement_sched.db.sql import rows_among
from placement_sched.model.candidates_query import RequestGroup
from placement_sched.model.names import listed
from placement_sched.model.provider import Inventory, why_not
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stage:
    """One constraint, which has the row ``index`` of ``CheckedTrees.met``.

    It must be met by the provider of each of ``slots``; with ``together``, by one provider of all
    of them; with ``of_root``, by the root of the tree.
    """

    index: int
    constraint: Constraint
    suffix: str = ""
    slots: tuple[int, ...] = ()
    together: bool = False
    of_root: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the step in a report."""
        return self.constraint.kind

    @property
    def detail(self) -> str:
        """Return what is requested, and by which group."""
        detail = self.constraint.detail
        return f"{detail} (group {self.suffix})" if self.suffix else detail


def stages_of(search: Search) -> tuple[Stage, ...]:
    """Return the constraints of a search in the order in which they are reported."""
    suffixes = [one.slot.suffix for one in slots_of(search.query, search.names)]
    stages: list[Stage] = []
    for group in search.query.groups:
        split = not serves_alone(group)
        of_group = tuple(at for at, suffix in enumerate(suffixes) if suffix == group.suffix)
        for position, constraint in enumerate(constraints_of(group)):
            # The traits required come after the amounts.
            trait = position - len(group.resources)
            together = split and 0 <= trait < len(group.traits.required)
            slots = (of_group[position],) if split and constraint.resource_class else of_group
            stages.append(Stage(len(stages), constraint, group.suffix, slots, together))
    for constraint in root_constraints_of(search.query.root):
        stages.append(Stage(len(stages), constraint, of_root=True))
    return tuple(stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUses:
    """The providers that each tree may use: its own, and those that share with it.

    One tree after the other by root, its providers by id. Of each tree: ``root_ids``,
    ``root_uuids``, ``root_uses`` (the use of the root itself), ``starts`` (its first use), and
    whether its root is a sharing provider. Of each use: ``ids`` of the provider, the number of the
    tree, and whether the provider ``is_shared``.
    """

    root_ids: _Numbers
    root_uuids: NDArray[np.object_]
    root_uses: _Numbers
    starts: _Numbers
    has_sharing_root: Mask
    ids: _Numbers
    trees: _Numbers
    is_shared: Mask

    def __len__(self) -> int:
        return len(self.root_ids)

    def any_of_tree(self, mask: Mask) -> Mask:
        """Return for each tree whether it has a use of which ``mask`` is true."""
        if len(self.ids) == len(self):  # each tree is its root
            return mask
        found: Mask = np.logical_or.reduceat(mask, self.starts)
        return found

    def of_each(self, trees: Mask) -> Mask:
        """Return for each use what holds of its tree."""
        found: Mask = trees if len(self.ids) == len(self) else trees[self.trees]
        return found

    def of_tree(self, tree: int) -> slice:
        """Return the uses of a tree."""
        starts = self.starts
        end = int(starts[tree + 1]) if tree + 1 < len(starts) else len(self.ids)
        return slice(int(starts[tree]), end)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What a stage rejected: the numbers of the ``rejected`` trees.

    ``blamed`` are the uses that the reason is about: the providers that were left, and do not meet
    the constraint. ``failing`` has for each slot the trees that have no provider left for it.
    """

    stage: Stage
    rejected: _Numbers
    blamed: Mask
    failing: Mapping[int, Mask] = field(default_factory=dict)

    def failing_slots(self, tree: int) -> list[int]:
        """Return the slots for which a tree has no provider left."""
        return [slot for slot, trees in self.failing.items() if trees[tree]]


@dataclass(frozen=True, slots=True)
class CheckedTrees:
    """All trees of a search, or some, with the constraints that each of their providers meets.

    ``met`` has a row for each stage, and a column for each use. Of a provider that only its tree
    keeps from meeting a constraint on aggregates, ``holds`` of that stage is false: the reason is
    about the root.
    """

    stages: tuple[Stage, ...]
    slots: int
    uses: TreeUses
    met: NDArray[np.bool_]
    holds: Mapping[int, Mask]

    @classmethod
    def of(
        cls, source: ProviderSource, search: Search, roots: Collection[int] | None = None
    ) -> Self:
        """Return all trees, or those of these roots, before any constraint."""
        stages = stages_of(search)
        with source.held(roots=roots or (), whole=roots is None) as (_, shape):
            checker = _Checker(shape, search, roots, len(stages))
            checker.check(search)
            uses = checker.uses()
        slots = len(slots_of(search.query, search.names))
        return cls(stages, slots, uses, checker.met, checker.holds)

    def outcomes(self, *, relaxed: bool = False) -> tuple[list[StageOutcome], list[Mask]]:
        """Return what each stage rejects, and which uses are left for each slot after all.

        A rejected tree is not looked at by later stages. With ``relaxed`` it goes on as if the
        constraint were not requested.
        """
        run = _StageRun(self, relaxed)
        return list(run.outcomes()), run.left


class _Checker:
    """Checks which providers of which trees meet each constraint of a search."""

    def __init__(
        self, shape: TreeIndex, search: Search, roots: Collection[int] | None, stages: int
    ) -> None:
        self._shape, self._evaluator = shape, ConstraintEvaluator(shape, search.names)
        self._set_uses(roots, sharing=search.names.topology.sharing)
        self.met = np.ones((stages, len(self._rows)), np.bool_)
        self.holds: dict[int, Mask] = {}

    def _set_uses(self, roots: Collection[int] | None, *, sharing: bool) -> None:
        """Set the row of the provider of each use, of the root of its tree, and who is shared."""
        shape = self._shape
        if roots is None:
            root_rows = shape.roots
            rows = np.flatnonzero(shape.root_rows >= 0).astype(np.int32)
        else:
            root_rows = np.sort(shape.cloud.rows_of(roots))
            rows = shape.rows_of_trees(shape.cloud.providers.ids[root_rows])
        trees, is_shared = shape.root_rows[rows], np.zeros(len(rows), np.bool_)
        if sharing:
            pairs = shape.sharing_with(root_rows)
            sharers, anchors = (each[pairs] for each in shape.sharing)
            rows, trees = np.concatenate((rows, sharers)), np.concatenate((trees, anchors))
            is_shared = np.concatenate((is_shared, np.ones(len(pairs), np.bool_)))
        if len(rows) > len(root_rows):
            order = np.lexsort((rows, trees))
            rows, trees, is_shared = rows[order], trees[order], is_shared[order]
        self._rows, self._trees, self._is_shared = rows, trees, is_shared

    def uses(self) -> TreeUses:
        """Return the uses by trees."""
        shape, rows, trees = self._shape, self._rows, self._trees
        providers = shape.cloud.providers
        is_root = (rows == trees) & ~self._is_shared
        root_rows = rows[is_root]
        is_sharer = np.zeros(len(shape.cloud), np.bool_)
        is_sharer[shape.sharers] = True
        starts = np.flatnonzero(np.diff(trees, prepend=-1))
        return TreeUses(
            root_ids=providers.ids[root_rows],
            root_uuids=providers.uuids[root_rows],
            root_uses=np.flatnonzero(is_root),
            starts=starts,
            has_sharing_root=is_sharer[root_rows],
            ids=providers.ids[rows],
            trees=np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows))),
            is_shared=self._is_shared,
        )

    def check(self, search: Search) -> None:
        """Note which uses meet each constraint, in the order of :func:`stages_of`."""
        first = 0
        for group in search.query.groups:
            self._check_group(group, first)
            first += len(list(constraints_of(group)))
        for at, mask in enumerate(self._evaluator.each_trait(search.query.root, self._rows), first):
            self.met[at] = mask

    def _check_group(self, group: RequestGroup, first: int) -> None:
        own = CountedRoot.NONE if group.suffix else CountedRoot.OWN
        other = CountedRoot.NONE if group.suffix else CountedRoot.OTHER
        rows, evaluator, shared = self._rows, self._evaluator, self._is_shared
        if shared.any():
            for part, counted in ((~shared, own), (shared, other)):
                for at, mask in enumerate(evaluator.each(group, counted, rows[part]), first):
                    self.met[at, part] = mask
        else:
            for at, mask in enumerate(evaluator.each(group, own, rows), first):
                self.met[at] = mask
        at = first + len(group.resources) + len(group.traits.required) + len(group.traits.forbidden)
        for uuids in group.aggregates.member_of:
            self.holds[at] = ~evaluator.members_of(uuids)[rows]
            at += 1
        if group.aggregates.forbidden:
            members = evaluator.members_of(group.aggregates.forbidden)
            if not group.suffix:  # nothing shares with a tree whose root is in one
                self.met[at, shared] &= ~members[self._trees[shared]]
            self.holds[at] = members[rows]


class _StageRun:
    """Applies one stage after the other."""

    def __init__(self, checked: CheckedTrees, relaxed: bool) -> None:
        self._checked, self._relaxed = checked, relaxed
        self.left: list[Mask] = [np.ones(len(checked.uses.ids), np.bool_)] * checked.slots
        #: The stages passed that one of the providers left must meet, and the trees that passed.
        self._together: list[tuple[Stage, Mask]] = []

    def outcomes(self) -> Iterator[StageOutcome]:
        """Yield what each stage rejects."""
        standing = np.ones(len(self._checked.uses), np.bool_)
        for stage in self._checked.stages:
            passes, blamed, failing = self._apply(stage)
            yield StageOutcome(
                stage=stage,
                rejected=np.flatnonzero(standing & ~passes),
                blamed=blamed,
                failing=failing,
            )
            if not self._relaxed:
                standing &= passes

    def _apply(self, stage: Stage) -> tuple[Mask, Mask, dict[int, Mask]]:
        """Return which trees pass a stage, the uses it blames, and the trees by failing slot."""
        uses, met = self._checked.uses, self._checked.met[stage.index]
        blamed = np.zeros(len(met), np.bool_)
        if stage.of_root:
            blamed[uses.root_uses] = True
            return met[uses.root_uses], blamed, {}
        if stage.together:
            blamed = self._union(stage.slots, self.left)
            passes = uses.any_of_tree(blamed & met)
            self._together.append((stage, passes))
            return passes, blamed, {}
        passes, failing, before = np.ones(len(uses), np.bool_), {}, list(self.left)
        for slot in stage.slots:
            rest = before[slot] & met
            serves = uses.any_of_tree(rest)
            failing[slot] = ~serves
            passes &= serves
            fails = uses.of_each(~serves)
            blamed |= before[slot] & fails
            self.left[slot] = rest | (before[slot] & fails) if self._relaxed else rest
        for other, applies in self._together:
            if not set(other.slots) & set(stage.slots):
                continue
            has = self._checked.met[other.index]
            kept = uses.any_of_tree(self._union(other.slots, self.left) & has)
            lost = applies & ~kept
            if not self._relaxed:
                lost &= passes
            passes &= kept | ~applies
            # The providers that the tree lost with this constraint.
            bearers = self._union(other.slots, before) & has & ~met & uses.of_each(lost)
            blamed |= bearers
            for slot in stage.slots if self._relaxed else ():
                self.left[slot] = self.left[slot] | (before[slot] & bearers)
        return passes, blamed, failing

    def _union(self, slots: Sequence[int], of: Sequence[Mask]) -> Mask:
        return reduce(or_, (of[slot] for slot in slots))


#: Maximum number of providers that a reason names.
_MAX_NAMED = 3
#: The columns of an inventory that its rooms are made of; the capacity stands for the total.
_STOCK = ("capacity", "used", "min_unit", "max_unit", "step_size")


class Rejection(NamedTuple):
    """A tree that a stage rejects, by its number, and the uses that the reason is about."""

    tree: int
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Words for the rejections of some trees.

    ``rooms`` are the inventories that reasons are about, by provider and class; ``names`` are the
    names of the providers, by id. ``memberships`` are the aggregates of the search that providers
    are in, for advice. ``tree_names`` are the names of providers whose trees are requested, by
    uuid.
    """

    checked: CheckedTrees
    search: Search
    rooms: Mapping[InventoryIds, UsedInventory]
    names: Mapping[int, str]
    memberships: Mapping[int, frozenset[str]]
    tree_names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        connection: Connection,
        source: ProviderSource,
        search: Search,
        checked: CheckedTrees,
        rejected: Sequence[tuple[StageOutcome, Sequence[Rejection]]],
        others: Collection[int] = (),
    ) -> "Reasons":
        """Return the words for these rejections; ``others`` are uses that advice may be about."""
        uses, classes = checked.uses, search.names.classes
        places: set[InventoryIds] = set()
        named: set[int] = set(others)
        for outcome, some in rejected:
            name = outcome.stage.constraint.resource_class
            about = {use for one in some for use in one.uses}
            named |= about
            if name:
                ids = uses.ids[list(about)].tolist()
                places.update((key, classes[name]) for key in ids)
        if not others:  # without advice roots are not named
            named -= set(uses.root_uses.tolist())
        ids = set(uses.ids[list(named)].tolist())
        advised = uses.ids[list(others)].tolist()
        requested = {classes[one] for group in search.query.groups for one, _ in group.resources}
        places.update((key, class_id) for key in advised for class_id in requested)
        return cls(
            checked,
            search,
            read_rooms(source, search, places),
            names_of(connection, ids),
            _memberships(source, search, advised) if others else {},
            resource_providers.names_of(
                connection, [one.in_tree for one in search.query.groups if one.in_tree]
            ),
        )

    def reason(self, outcome: StageOutcome, rejection: Rejection) -> str:
        """Return why a stage rejects a tree."""
        constraint = outcome.stage.constraint
        if outcome.stage.of_root:
            return constraint.reason
        root = int(self.checked.uses.root_uses[rejection.tree])
        if constraint.kind == "in_tree":
            name = self.tree_names.get(constraint.detail, constraint.detail)
            words = f"not in the tree of {name}"
            return words if root in rejection.uses else f"{self._listed(rejection.uses)}: {words}"
        if constraint.resource_class:
            return self._shortage(outcome, rejection, root)
        whole = self.checked.uses.of_tree(rejection.tree)
        number = whole.stop - whole.start
        if 1 < number == len(rejection.uses):
            return f"each of {number} providers: {constraint.reason}"
        if rejection.uses == (root,):
            return constraint.reason
        several = "each of " if len(rejection.uses) > 1 else ""
        return f"{several}{self._listed(rejection.uses)}: {constraint.reason}"

    def _shortage(self, outcome: StageOutcome, rejection: Rejection, root: int) -> str:
        """Return what providers lack of an amount: those that have any of the class."""
        constraint, uses = outcome.stage.constraint, rejection.uses
        having = [use for use in uses if self.room(outcome, use) is not None]
        if not having:
            words = f"{constraint.resource_class}: {why_not(None, 0, constraint.amount)}"
            return words if root in uses else f"{words} on {self._listed(uses)}"
        words = "; ".join(self._lacking(outcome, use, root) for use in having[:_MAX_NAMED])
        more = len(having) - _MAX_NAMED
        return f"{words}; and {more} more" if more > 0 else words

    def _lacking(self, outcome: StageOutcome, use: int, root: int) -> str:
        constraint, room = outcome.stage.constraint, self.room(outcome, use)
        inventory, used = (room.inventory, room.used) if room else (None, 0)
        words = f"{constraint.resource_class}: {why_not(inventory, used, constraint.amount)}"
        return words if use == root else f"{words} on {self.name(use)}"

    def room(self, outcome: StageOutcome, use: int) -> UsedInventory | None:
        """Return what the provider of a use has of the class of a stage."""
        class_id = self.search.names.classes[outcome.stage.constraint.resource_class]
        return self.rooms.get((int(self.checked.uses.ids[use]), class_id))

    def name(self, use: int) -> str:
        """Return the name of the provider of a use."""
        return self.names.get(int(self.checked.uses.ids[use]), "one provider")

    def _listed(self, uses: Sequence[int]) -> str:
        names = [self.name(use) for use in uses]
        if len(names) > _MAX_NAMED:
            names[_MAX_NAMED:] = [f"{len(names) - _MAX_NAMED} more"]
        return listed(names)


def rejections(
    checked: CheckedTrees, outcome: StageOutcome, trees: Sequence[int]
) -> list[Rejection]:
    """Return the rejections of these trees; a reason may be about the root in place of others."""
    uses, holds = checked.uses, checked.holds.get(outcome.stage.index)
    found = []
    for tree in trees:
        whole = uses.of_tree(tree)
        about = (np.flatnonzero(outcome.blamed[whole]) + whole.start).tolist()
        if holds is not None:
            root = int(uses.root_uses[tree])
            about = sorted({use if holds[use] else root for use in about})
        found.append(Rejection(tree, tuple(about)))
    return found


def _memberships(
    source: ProviderSource, search: Search, ids: Collection[int]
) -> dict[int, frozenset[str]]:
    """Return the aggregates named by a search that each of these providers is in itself."""
    found: dict[int, set[str]] = {key: set() for key in ids}
    with source.held(ids) as (cloud, shape):
        rows = np.sort(cloud.rows_of(found))
        keys = cloud.providers.ids[rows]
        for uuid in {uuid for group in search.query.groups for uuid in group.aggregates.uuids}:
            members = shape.members_of(search.names.aggregate_ids([uuid]))
            for key in keys[members[rows]].tolist():
                found[key].add(uuid)
    return {key: frozenset(some) for key, some in found.items()}


def read_rooms(
    source: ProviderSource, search: Search, places: Collection[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Return what is at these places, and perhaps at more of the same providers.

    As the capacity rule has it: of an inventory whose total is all of its capacity.
    """
    rooms: dict[InventoryIds, UsedInventory] = {}
    if not places:
        return rooms
    ids, names = {provider for provider, _ in places}, search.names.class_names
    with source.held(ids) as (cloud, _):
        rows = np.sort(cloud.rows_of(ids))
        for class_id in {class_id for _, class_id in places} & cloud.classes.keys():
            stock = cloud.classes[class_id].stock
            at, there = stock.places(rows)
            columns = [stock.values[name][at[there]].tolist() for name in _STOCK]
            keys = cloud.providers.ids[rows[there]].tolist()
            for key, whole, used, least, most, step in zip(keys, *columns, strict=True):
                inventory = Inventory(
                    resource_class=names[class_id],
                    total=int(whole),
                    min_unit=least,
                    max_unit=most,
                    step_size=step,
                )
                rooms[key, class_id] = UsedInventory(inventory, used)
    return rooms


def names_of(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the names of these providers, by id."""
    columns = tables.resource_providers.c
    rows = rows_among(connection, select(columns.id, columns.name), columns.id, ids)
    return {key: name or "one provider" for key, name in rows}
