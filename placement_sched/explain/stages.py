# SPDX-License-Identifier: Apache-2.0
"""Stages of a candidate search, and the trees that each stage rejects.

A stage is a constraint of a request group or of the root. Group by group and constraint by
constraint, each slot of the request loses the providers that do not meet the constraint. A tree is
rejected by the first stage that leaves a slot without providers. A use is a pair of a tree and a
provider that the tree can use: a provider in the tree, or a sharing provider.
:mod:`placement_sched.candidates.constraints` evaluates the constraints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask, ProviderColumns, truncate_capacities
from placement_sched.candidates.constraints import (
    ConstraintEvaluator,
    CountedRoot,
    iterate_constraints,
    iterate_root_constraints,
)
from placement_sched.candidates.providers import INVENTORY_FIELDS, ProviderSource
from placement_sched.candidates.request import Search, needs_single_provider
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import RequestGroup
from placement_sched.model.constraint import IN_TREE, Constraint
from placement_sched.model.provider import Inventory
from placement_sched.model.rejection import Rejection
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

_Numbers = NDArray[np.int64]
#: Maximum number of providers that a reason names.
_MAX_NAMED = 3
#: The columns of an inventory that reasons name, in the order of their reading.
_COLUMNS = ("capacity", "used", "min_unit", "max_unit", "step_size")


@dataclass(frozen=True, slots=True)
class Stage:
    """A constraint and its place among the stages of a search.

    The result is in row ``index`` of ``CheckedTrees.met``. The provider of each slot in ``slots``
    must meet the constraint. With ``any_provider_suffices``, it is enough if any of these
    providers meets it.
    """

    index: int
    constraint: Constraint
    slots: tuple[int, ...] = ()
    any_provider_suffices: bool = False


def list_stages(search: Search) -> tuple[Stage, ...]:
    """List the stages of a search in the order of an explanation."""
    suffixes = [slot.suffix for slot in search.slots]
    stages: list[Stage] = []
    for group in search.query.groups:
        split = not needs_single_provider(group)
        group_slots = tuple(
            index for index, suffix in enumerate(suffixes) if suffix == group.suffix
        )
        for position, constraint in enumerate(iterate_constraints(group)):
            # Required traits follow the amounts.
            trait = position - len(group.resources)
            any_provider_suffices = split and 0 <= trait < len(group.traits.required)
            slots = (group_slots[position],) if split and constraint.resource_class else group_slots
            stages.append(Stage(len(stages), constraint, slots, any_provider_suffices))
    for constraint in iterate_root_constraints(search.query.root):
        stages.append(Stage(len(stages), constraint))
    return tuple(stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUses:
    """Uses of providers by trees.

    A use is a pair of a tree and a provider that may serve it: a provider of the tree, or a
    provider that shares with the tree. Uses are sorted by tree (by root) and by provider id.

    Arrays with a value per tree: ``root_ids``, ``root_uuids``, ``root_uses`` (index of the root's
    own use), ``starts`` (index of the first use), and ``has_sharing_root``. Arrays with a value per
    use: ``ids`` (id of the provider), ``trees`` (index of the tree), and ``is_shared`` (whether the
    provider shares with the tree).
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

    def reduce_to_trees(self, mask: Mask) -> Mask:
        """Return for each tree whether ``mask`` is true for any of its uses."""
        if len(self.ids) == len(self):  # each tree consists of its root
            return mask
        has_any: Mask = np.logical_or.reduceat(mask, self.starts)
        return has_any

    def expand_to_uses(self, trees: Mask) -> Mask:
        """Return for each use the value of its tree."""
        values: Mask = trees if len(self.ids) == len(self) else trees[self.trees]
        return values

    def get_slice(self, tree: int) -> slice:
        """Return the slice of a tree's uses in arrays with a value per use."""
        starts = self.starts
        end = int(starts[tree + 1]) if tree + 1 < len(starts) else len(self.ids)
        return slice(int(starts[tree]), end)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """The result of a stage, with the indexes of the ``rejected`` trees.

    ``blamed`` is a mask of the uses that reasons name: their providers pass the earlier stages, but
    do not meet the constraint. ``failing`` maps each slot to a mask of the trees without any
    provider for the slot after the stage.
    """

    stage: Stage
    rejected: _Numbers
    blamed: Mask
    failing: Mapping[int, Mask] = field(default_factory=dict)

    def list_failing_slots(self, tree: int) -> list[int]:
        """Return the slots that no remaining provider of a tree serves."""
        return [slot for slot, trees in self.failing.items() if trees[tree]]


@dataclass(frozen=True, slots=True)
class CheckedTrees:
    """Trees of a search, and the constraints that each use meets.

    ``met`` has a row for each stage and a column for each use. ``own_failures`` maps each stage on
    aggregates to a mask of the uses whose provider itself does not meet the constraint. If only the
    root of a provider does not meet it, the mask is false and the reason names the root.
    """

    stages: tuple[Stage, ...]
    slots: int
    uses: TreeUses
    met: NDArray[np.bool_]
    own_failures: Mapping[int, Mask]

    @classmethod
    def check(
        cls, source: ProviderSource, search: Search, roots: Collection[int] | None = None
    ) -> Self:
        """Check all trees, or the trees with these roots."""
        stages = list_stages(search)
        with source.open_columns(roots=roots or (), whole=roots is None) as (_, tree_index):
            checker = _Checker(tree_index, search, roots, len(stages))
            checker.check(search)
            uses = checker.build_uses()
        return cls(stages, len(search.slots), uses, checker.met, checker.own_failures)

    def evaluate_stages(self, *, relaxed: bool = False) -> tuple[list[StageOutcome], list[Mask]]:
        """Return the outcomes of all stages, and the remaining uses of each slot.

        Later stages skip a rejected tree. With ``relaxed``, a rejected tree continues as if the
        constraint were not requested.
        """
        run = _StageRun(self, relaxed)
        return list(run.iterate_outcomes()), run.remaining_uses


class _Checker:
    """Evaluate each constraint of a search on the providers of trees."""

    def __init__(
        self, index: TreeIndex, search: Search, roots: Collection[int] | None, stages: int
    ) -> None:
        self._tree_index, self._evaluator = index, ConstraintEvaluator(index, search.names)
        self._set_uses(roots, has_sharing=search.names.topology.has_sharing)
        self.met = np.ones((stages, len(self._rows)), np.bool_)
        self.own_failures: dict[int, Mask] = {}

    def _set_uses(self, roots: Collection[int] | None, *, has_sharing: bool) -> None:
        tree_index = self._tree_index
        if roots is None:
            root_rows = tree_index.roots
            rows = np.flatnonzero(tree_index.root_rows >= 0).astype(np.int32)
        else:
            root_rows = np.sort(tree_index.columns.find_rows(roots))
            rows = tree_index.find_tree_rows(tree_index.columns.providers.ids[root_rows])
        trees, is_shared = tree_index.root_rows[rows], np.zeros(len(rows), np.bool_)
        if has_sharing:
            pairs = tree_index.find_sharing_pairs(root_rows)
            sharers, anchors = (each[pairs] for each in tree_index.sharing_pairs)
            rows, trees = np.concatenate((rows, sharers)), np.concatenate((trees, anchors))
            is_shared = np.concatenate((is_shared, np.ones(len(pairs), np.bool_)))
        if len(rows) > len(root_rows):
            order = np.lexsort((rows, trees))
            rows, trees, is_shared = rows[order], trees[order], is_shared[order]
        self._rows, self._trees, self._is_shared = rows, trees, is_shared

    def build_uses(self) -> TreeUses:
        tree_index, rows, trees = self._tree_index, self._rows, self._trees
        providers = tree_index.columns.providers
        is_root = (rows == trees) & ~self._is_shared
        root_rows = rows[is_root]
        is_sharer = np.zeros(len(tree_index.columns), np.bool_)
        is_sharer[tree_index.sharers] = True
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
        """Mark the uses that meet each constraint of :func:`list_stages`."""
        first = 0
        for group in search.query.groups:
            self._check_group(group, first)
            first += len(list(iterate_constraints(group)))
        for index, mask in enumerate(
            self._evaluator.iterate_trait_masks(search.query.root, self._rows), first
        ):
            self.met[index] = mask

    def _check_group(self, group: RequestGroup, first: int) -> None:
        counted_own = CountedRoot.NONE if group.suffix else CountedRoot.OWN
        counted_shared = CountedRoot.NONE if group.suffix else CountedRoot.OTHER
        rows, evaluator, shared = self._rows, self._evaluator, self._is_shared
        for part, counted in ((~shared, counted_own), (shared, counted_shared)):
            for index, mask in enumerate(
                evaluator.iterate_masks(group, counted, rows[part]), first
            ):
                self.met[index, part] = mask
        index = (
            first + len(group.resources) + len(group.traits.required) + len(group.traits.forbidden)
        )
        for uuids in group.aggregates.member_of:
            self.own_failures[index] = ~evaluator.is_member(uuids)[rows]
            index += 1
        if group.aggregates.forbidden:
            members = evaluator.is_member(group.aggregates.forbidden)
            # No provider shares with a tree whose root is in a forbidden aggregate.
            if not group.suffix:
                self.met[index, shared] &= ~members[self._trees[shared]]
            self.own_failures[index] = members[rows]


class _StageRun:
    """Evaluate all stages in order."""

    def __init__(self, checked: CheckedTrees, relaxed: bool) -> None:
        self._checked, self._relaxed = checked, relaxed
        self.remaining_uses: list[Mask] = [np.ones(len(checked.uses.ids), np.bool_)] * checked.slots
        #: Earlier stages with ``any_provider_suffices``, and the trees that passed each of them.
        self._any_provider_stages: list[tuple[Stage, Mask]] = []

    def iterate_outcomes(self) -> Iterator[StageOutcome]:
        is_remaining = np.ones(len(self._checked.uses), np.bool_)
        for stage in self._checked.stages:
            passes, blamed, failing = self._apply_stage(stage)
            yield StageOutcome(
                stage=stage,
                rejected=np.flatnonzero(is_remaining & ~passes),
                blamed=blamed,
                failing=failing,
            )
            if not self._relaxed:
                is_remaining &= passes

    def _apply_stage(self, stage: Stage) -> tuple[Mask, Mask, dict[int, Mask]]:
        """Apply a stage to the remaining uses.

        Returns a mask of the trees that pass, a mask of the uses that cause rejections, and for
        each slot a mask of the trees without a provider.
        """
        uses, met = self._checked.uses, self._checked.met[stage.index]
        blamed = np.zeros(len(met), np.bool_)
        if stage.constraint.is_on_root:
            blamed[uses.root_uses] = True
            return met[uses.root_uses], blamed, {}
        if stage.any_provider_suffices:
            blamed = self._combine_slots(stage.slots, self.remaining_uses)
            passes = uses.reduce_to_trees(blamed & met)
            self._any_provider_stages.append((stage, passes))
            return passes, blamed, {}
        passes, failing, previous = np.ones(len(uses), np.bool_), {}, list(self.remaining_uses)
        for slot in stage.slots:
            remaining = previous[slot] & met
            serves = uses.reduce_to_trees(remaining)
            failing[slot] = ~serves
            passes &= serves
            fails = uses.expand_to_uses(~serves)
            blamed |= previous[slot] & fails
            self.remaining_uses[slot] = (
                remaining | (previous[slot] & fails) if self._relaxed else remaining
            )
        for earlier, applies in self._any_provider_stages:
            if not set(earlier.slots) & set(stage.slots):
                continue
            has_trait = self._checked.met[earlier.index]
            still_pass = uses.reduce_to_trees(
                self._combine_slots(earlier.slots, self.remaining_uses) & has_trait
            )
            lost = applies & ~still_pass
            if not self._relaxed:
                lost &= passes
            passes &= still_pass | ~applies
            # The uses that have the trait, but do not meet this constraint.
            removed = (
                self._combine_slots(earlier.slots, previous)
                & has_trait
                & ~met
                & uses.expand_to_uses(lost)
            )
            blamed |= removed
            for slot in stage.slots if self._relaxed else ():
                self.remaining_uses[slot] = self.remaining_uses[slot] | (previous[slot] & removed)
        return passes, blamed, failing

    def _combine_slots(self, slots: Sequence[int], masks: Sequence[Mask]) -> Mask:
        return reduce(or_, (masks[slot] for slot in slots))


class TreeRejection(NamedTuple):
    """A tree that a stage rejects, and the :class:`TreeUses` in the reason."""

    tree: int
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Build the rejections of trees.

    ``inventories`` maps provider and class to the inventories in the reasons. ``names`` maps ids
    to names of providers. ``memberships`` maps each provider to its aggregates that the query
    names. ``tree_names`` are the names of the providers in ``in_tree``, by uuid.
    """

    checked: CheckedTrees
    search: Search
    inventories: Mapping[InventoryIds, UsedInventory]
    names: Mapping[int, str]
    memberships: Mapping[int, frozenset[str]]
    tree_names: Mapping[str, str]

    @classmethod
    def read(
        cls,
        connection: Connection,
        source: ProviderSource,
        search: Search,
        checked: CheckedTrees,
        rejected: Sequence[tuple[StageOutcome, Sequence[TreeRejection]]],
        advised_uses: Collection[int] = (),
    ) -> "Reasons":
        """Read data for reasons, and for suggested changes to ``advised_uses``."""
        uses, classes = checked.uses, search.names.classes
        inventory_ids: set[InventoryIds] = set()
        named: set[int] = set(advised_uses)
        for outcome, tree_rejections in rejected:
            name = outcome.stage.constraint.resource_class
            blamed = {use for rejection in tree_rejections for use in rejection.uses}
            # The root of a tree is named only next to other providers.
            named |= {
                use
                for rejection in tree_rejections
                if rejection.uses != (uses.root_uses[rejection.tree],)
                for use in rejection.uses
            }
            if name:
                ids = uses.ids[list(blamed)].tolist()
                inventory_ids.update((key, classes[name]) for key in ids)
        ids = set(uses.ids[list(named)].tolist())
        advised = uses.ids[list(advised_uses)].tolist()
        requested = {classes[name] for group in search.query.groups for name, _ in group.resources}
        inventory_ids.update((key, class_id) for key in advised for class_id in requested)
        return cls(
            checked,
            search,
            read_inventories(source, search, inventory_ids),
            resource_providers.map_names_by_id(connection, ids),
            _find_memberships(source, search, advised) if advised_uses else {},
            resource_providers.map_names(
                connection, [group.in_tree for group in search.query.groups if group.in_tree]
            ),
        )

    def build_rejection(self, outcome: StageOutcome, tree_rejection: TreeRejection) -> Rejection:
        """Return the reason why a stage rejects a tree."""
        constraint, uses = outcome.stage.constraint, tree_rejection.uses
        root = int(self.checked.uses.root_uses[tree_rejection.tree])
        if constraint.resource_class:
            return self._build_shortage(outcome, uses, root)
        values = constraint.as_json()
        del values["kind"]
        values.pop("group", None)
        whole = self.checked.uses.get_slice(tree_rejection.tree)
        count = whole.stop - whole.start
        if constraint.family == IN_TREE:
            (uuid,) = constraint.names
            values["tree_name"] = self.tree_names.get(uuid, uuid)
            values |= {} if root in uses else self._build_provider_values(uses)
        elif not constraint.is_on_root and 1 < count == len(uses):
            values["provider_count"] = count
        elif not constraint.is_on_root and uses != (root,):
            values |= self._build_provider_values(uses)
        return Rejection(kind=constraint.kind, values=values)

    def _build_shortage(self, outcome: StageOutcome, uses: Sequence[int], root: int) -> Rejection:
        constraint = outcome.stage.constraint
        pairs = ((use, self.find_inventory(outcome, use)) for use in uses)
        inventories = [(use, inventory) for use, inventory in pairs if inventory is not None]
        if not inventories:
            rejection = build_shortage(constraint, None)
            if root in uses:
                return rejection
            values = {**rejection.values, **self._build_provider_values(uses)}
            return replace(rejection, values=values)
        parts = [
            build_shortage(constraint, inventory, "" if use == root else self.get_name(use))
            for use, inventory in inventories[:_MAX_NAMED]
        ]
        if len(inventories) == 1:
            return parts[0]
        kinds = {part.kind for part in parts}
        values = {"resource_class": constraint.resource_class, "requested": constraint.amount}
        if (omitted := len(inventories) - _MAX_NAMED) > 0:
            values["more"] = omitted
        kind = "capacity" if "capacity" in kinds else parts[0].kind
        return Rejection(kind=kind, values=values, parts=tuple(parts))

    def _build_provider_values(self, uses: Sequence[int]) -> dict[str, Any]:
        names = [self.get_name(use) for use in uses]
        values: dict[str, Any] = {"providers": names[:_MAX_NAMED]}
        omitted = len(names) - _MAX_NAMED
        return {**values, "more": omitted} if omitted > 0 else values

    def find_inventory(self, outcome: StageOutcome, use: int) -> UsedInventory | None:
        """Return the inventory of the stage's class on a use's provider, or None."""
        class_id = self.search.names.classes[outcome.stage.constraint.resource_class]
        return self.inventories.get((int(self.checked.uses.ids[use]), class_id))

    def get_name(self, use: int) -> str:
        """Return the name of the provider of a use."""
        return self.names.get(int(self.checked.uses.ids[use]), "one provider")


def build_shortage(
    constraint: Constraint, used_inventory: UsedInventory | None, provider: str = ""
) -> Rejection:
    """Return why the amount of a constraint does not fit into an inventory.

    ``provider`` is the name of the provider in a tree, if it is not the root.
    """
    amount = constraint.amount
    values: dict[str, Any] = {"resource_class": constraint.resource_class, "requested": amount}
    if provider:
        values["providers"] = [provider]
    if used_inventory is None:
        return Rejection(kind="no_inventory", values=values)
    inventory = used_inventory.inventory
    capacity = inventory.capacity
    free = max(capacity - used_inventory.used, 0)
    if capacity <= 0 or inventory.reserved >= inventory.total > 0:
        fields = ("total", "reserved", "allocation_ratio")
        values |= {"free": 0, "capacity": max(capacity, 0)}
        values |= {name: getattr(inventory, name) for name in fields}
    elif amount > free:
        values |= {"free": free, "capacity": capacity}
    else:
        is_broken = {
            "max_unit": amount > inventory.max_unit,
            "min_unit": amount < inventory.min_unit,
            "step_size": True,
        }
        field_name = next(name for name, broken in is_broken.items() if broken)
        values[field_name] = getattr(inventory, field_name)
        return Rejection(kind="allocation_unit", values=values)
    return Rejection(kind="capacity", values=values)


def build_rejections(
    checked: CheckedTrees, outcome: StageOutcome, trees: Sequence[int]
) -> list[TreeRejection]:
    """Return the rejection of each of these trees by a stage.

    If only the root fails a constraint on aggregates, the rejection names the root.
    """
    uses, own_failures = checked.uses, checked.own_failures.get(outcome.stage.index)
    tree_rejections = []
    for tree in trees:
        whole = uses.get_slice(tree)
        blamed = (np.flatnonzero(outcome.blamed[whole]) + whole.start).tolist()
        if own_failures is not None:
            root = int(uses.root_uses[tree])
            blamed = sorted({use if own_failures[use] else root for use in blamed})
        tree_rejections.append(TreeRejection(tree, tuple(blamed)))
    return tree_rejections


def _find_memberships(
    source: ProviderSource, search: Search, ids: Collection[int]
) -> dict[int, frozenset[str]]:
    memberships: dict[int, set[str]] = {key: set() for key in ids}
    with source.open_columns(ids) as (columns, tree_index):
        rows = np.sort(columns.find_rows(memberships))
        keys = columns.providers.ids[rows]
        for uuid in {uuid for group in search.query.groups for uuid in group.aggregates.uuids}:
            members = tree_index.is_member(search.names.find_aggregate_ids([uuid]))
            for key in keys[members[rows]].tolist():
                memberships[key].add(uuid)
    return {key: frozenset(uuids) for key, uuids in memberships.items()}


def read_inventories(
    source: ProviderSource, search: Search, inventory_ids: Collection[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Map pairs of a provider and a class to their inventories.

    The result may contain other inventories of the same providers.
    """
    inventories: dict[InventoryIds, UsedInventory] = {}
    if not inventory_ids:
        return inventories
    ids, names = {provider for provider, _ in inventory_ids}, search.names.class_names
    with source.open_columns(ids) as (columns, _):
        rows = np.sort(columns.find_rows(ids))
        for class_id in {class_id for _, class_id in inventory_ids} & columns.classes.keys():
            has_inventory, values = columns.classes[class_id].select_values(
                rows, "used", *INVENTORY_FIELDS
            )
            amount_lists = [column.tolist() for column in values]
            keys = columns.providers.ids[rows[has_inventory]].tolist()
            for key, used, *amounts in zip(keys, *amount_lists, strict=True):
                fields = dict(zip(INVENTORY_FIELDS, amounts, strict=True))
                inventory = Inventory(resource_class=names[class_id], **fields)
                inventories[key, class_id] = UsedInventory(inventory, used)
    return inventories


def find_nearest_amounts(
    source: ProviderSource,
    search: Search,
    roots_with_candidates: Collection[str],
    stage: Stage,
    limit: int,
) -> Mapping[str, int]:
    """Map uuids of roots to the fitting amounts nearest to the request.

    ``stage`` is the constraint on the requested amount, and ``roots_with_candidates`` are uuids.
    The result has the ``limit`` trees with the nearest amounts, nearest first. The amount of a tree
    is the largest amount below the requested amount that fits. If no tree has such an amount, it is
    the smallest amount above. Only trees without candidates that meet all other constraints are
    considered. With the new amount, their providers may still not serve together.
    """
    checked = CheckedTrees.check(source, search)
    uses, amount = checked.uses, stage.constraint.amount
    class_id = search.names.classes[stage.constraint.resource_class]
    with source.open_columns(uses.ids.tolist()) as (columns, _):
        below, above = _find_fitting_amounts(columns, uses.ids, class_id, amount)
    amounts_by_tree = _find_best(checked, stage, below, np.maximum)
    if not amounts_by_tree.any():
        amounts_by_tree = _find_best(checked, stage, above, np.minimum)
    amounts_by_tree[[uuid in roots_with_candidates for uuid in uses.root_uuids]] = 0
    trees = np.flatnonzero(amounts_by_tree)
    order = np.lexsort((uses.root_ids[trees], np.abs(amounts_by_tree[trees] - amount)))[:limit]
    uuids, amounts = uses.root_uuids[trees[order]], amounts_by_tree[trees[order]]
    return dict(zip(uuids.tolist(), amounts.tolist(), strict=True))


def _find_best(checked: CheckedTrees, stage: Stage, amounts: _Numbers, best: np.ufunc) -> _Numbers:
    """Return for each tree the best amount that passes all stages, or 0."""
    met = checked.met.copy()
    met[stage.index] = amounts > 0
    outcomes, remaining = replace(checked, met=met).evaluate_stages()
    uses, (slot,) = checked.uses, stage.slots
    passing = np.flatnonzero(remaining[slot])
    selected = np.zeros(len(uses), np.int64)
    selected[uses.trees[passing]] = amounts[passing]
    best.at(selected, uses.trees[passing], amounts[passing])
    for outcome in outcomes:
        selected[outcome.rejected] = 0
    return selected


def _find_fitting_amounts(
    columns: ProviderColumns, ids: _Numbers, class_id: int, requested: int
) -> tuple[_Numbers, _Numbers]:
    """Return for each provider the nearest smaller and larger fitting amount.

    0 means that no amount fits. The rules are the same as in ``find_largest_below`` and
    ``find_smallest_above`` of :mod:`placement_sched.explain.changes`.
    """
    below, above = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    if class_id not in columns.classes:
        return below, above
    is_present, rows = columns.find_existing_rows(ids)
    has_inventory, (capacities, *amounts) = columns.classes[class_id].select_values(rows, *_COLUMNS)
    uses = np.flatnonzero(is_present)[has_inventory]
    used, min_unit, max_unit, step = (column.astype(np.int64) for column in amounts)
    capacity = truncate_capacities(capacities)
    step = np.maximum(step, 1)
    max_amount = np.minimum(capacity - used, max_unit)
    largest = np.minimum(max_amount, requested - 1)
    largest -= largest % step
    below[uses] = np.where(largest >= np.maximum(min_unit, 1), largest, 0)
    smallest = np.maximum(min_unit, requested + 1)
    smallest += -smallest % step
    above[uses] = np.where(smallest <= max_amount, smallest, 0)
    return below, above
