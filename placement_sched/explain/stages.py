# SPDX-License-Identifier: Apache-2.0
"""Stages of a candidate search, and the trees that each stage rejects.

A stage is a constraint of a request group or of the root. Group by group and constraint by
constraint, each slot of the request loses the providers that do not meet the constraint. A tree is
rejected by the first stage that leaves a slot without providers. A pair is a tree and a provider
that may serve it: a provider in the tree, or a sharing provider.
:mod:`placement_sched.candidates.constraints` evaluates the constraints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask
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
from placement_sched.model.constraint import IN_TREE, MEMBER_OF, Constraint
from placement_sched.model.provider import Inventory
from placement_sched.model.rejection import Rejection
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

_Numbers = NDArray[np.int64]
#: Maximum number of providers that a reason names.
_MAX_NAMED = 3


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
class TreeProviders:
    """Pairs of a tree and a provider that may serve it, sorted by both.

    This is an example of three trees, whose roots have the rows 4, 7 and 9. The first tree has the
    providers 4, 5 and 6, and provider 7 shares with the last tree::

        tree_rows  4 4 4 7 9 9    row of the root, for each pair
        rows       4 5 6 7 7 9    row of the provider, for each pair
        trees      0 0 0 1 2 2    number of the tree, for each pair
        bounds     0     3 4   6  first pair of each tree, and the number of pairs
        root_pairs 0     3   5    pair of each tree with its own root

    ``ids`` are the ids of the providers, and ``is_shared`` is true for a provider that shares with
    the tree. ``root_ids``, ``root_uuids`` and ``has_sharing_root`` have a value for each tree.
    """

    rows: NDArray[np.int32]
    tree_rows: NDArray[np.int32]
    is_shared: Mask
    ids: _Numbers
    trees: _Numbers
    bounds: _Numbers
    root_pairs: _Numbers
    root_ids: _Numbers
    root_uuids: NDArray[np.object_]
    has_sharing_root: Mask

    @classmethod
    def from_index(cls, index: TreeIndex, search: Search, roots: Collection[int] | None) -> Self:
        """List the pairs of all trees, or of the trees with these roots."""
        if roots is None:
            root_rows = index.roots
            rows = np.flatnonzero(index.root_rows >= 0).astype(np.int32)
        else:
            root_rows = np.sort(index.columns.find_rows(roots))
            rows = index.find_tree_rows(index.columns.providers.ids[root_rows])
        tree_rows, is_shared = index.root_rows[rows], np.zeros(len(rows), np.bool_)
        if search.names.topology.has_sharing:
            sharing = index.find_sharing_pairs(root_rows)
            sharers, anchors = (each[sharing] for each in index.sharing_pairs)
            rows, tree_rows = np.concatenate((rows, sharers)), np.concatenate((tree_rows, anchors))
            is_shared = np.concatenate((is_shared, np.ones(len(sharing), np.bool_)))
        if len(rows) > len(root_rows):
            order = np.lexsort((rows, tree_rows))
            rows, tree_rows, is_shared = rows[order], tree_rows[order], is_shared[order]
        bounds = np.append(find_run_starts(tree_rows), len(rows))
        root_pairs = np.flatnonzero((rows == tree_rows) & ~is_shared)
        providers, root_rows = index.columns.providers, rows[root_pairs]
        return cls(
            rows=rows,
            tree_rows=tree_rows,
            is_shared=is_shared,
            ids=providers.ids[rows],
            trees=number_runs(bounds),
            bounds=bounds,
            root_pairs=root_pairs,
            root_ids=providers.ids[root_rows],
            root_uuids=providers.uuids[root_rows],
            has_sharing_root=np.isin(root_rows, index.sharers),
        )

    def __len__(self) -> int:
        return len(self.root_ids)

    def reduce_to_trees(self, mask: Mask) -> Mask:
        """Return for each tree whether ``mask`` is true for any of its pairs."""
        if len(self.ids) == len(self):  # each tree consists of its root
            return mask
        has_any: Mask = np.logical_or.reduceat(mask, self.bounds[:-1])
        return has_any

    def expand_to_pairs(self, trees: Mask) -> Mask:
        """Return for each pair the value of its tree."""
        values: Mask = trees if len(self.ids) == len(self) else trees[self.trees]
        return values

    def get_slice(self, tree: int) -> slice:
        """Return the slice of a tree's pairs."""
        return slice(int(self.bounds[tree]), int(self.bounds[tree + 1]))

    def list_pairs(self, tree: int, mask: Mask) -> list[int]:
        """Return the pairs of a tree that ``mask`` selects."""
        whole = self.get_slice(tree)
        return list((np.flatnonzero(mask[whole]) + whole.start).tolist())


def find_run_starts(values: NDArray[np.integer[Any]]) -> _Numbers:
    """Return the start of each run of equal values: 4 4 7 gives 0 and 2."""
    return np.flatnonzero(np.diff(values, prepend=-1))


def number_runs(bounds: _Numbers) -> _Numbers:
    """Return the number of each run: bounds 0, 2 and 3 give 0 0 1."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """The result of a stage, with the numbers of the ``rejected`` trees.

    ``blamed`` is a mask of the pairs that reasons name: their providers pass the earlier stages,
    but do not meet the constraint. ``failing`` maps each slot to a mask of the trees without any
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
    """Trees of a search, and the constraints that each pair meets.

    ``met`` has a row for each stage and a column for each pair. ``own_failures`` maps each stage on
    aggregates to a mask of the pairs whose provider itself does not meet the constraint. If only
    the root of a provider does not meet it, the mask is false and the reason names the root.
    """

    stages: tuple[Stage, ...]
    slots: int
    tree_providers: TreeProviders
    met: NDArray[np.bool_]
    own_failures: Mapping[int, Mask]

    @classmethod
    def check(
        cls, source: ProviderSource, search: Search, roots: Collection[int] | None = None
    ) -> Self:
        """Check all trees, or the trees with these roots."""
        stages = list_stages(search)
        with source.open_columns(roots=roots or (), whole=roots is None) as (_, index):
            tree_providers = TreeProviders.from_index(index, search, roots)
            evaluator = ConstraintEvaluator(index, search.names)
            met = _evaluate_constraints(evaluator, search, stages, tree_providers)
            own_failures: dict[int, Mask] = {}
            for stage in stages:
                constraint = stage.constraint
                if constraint.family == MEMBER_OF:
                    members = evaluator.is_member(frozenset(constraint.names))
                    is_member = members[tree_providers.rows]
                    own_failures[stage.index] = is_member == constraint.is_forbidden
                    if constraint.is_forbidden and not constraint.suffix:
                        # No provider shares with a tree whose root is in a forbidden aggregate.
                        has_member_root = members[tree_providers.tree_rows]
                        met[stage.index] &= ~(tree_providers.is_shared & has_member_root)
        return cls(stages, len(search.slots), tree_providers, met, own_failures)

    def evaluate_stages(self, *, relaxed: bool = False) -> tuple[list[StageOutcome], list[Mask]]:
        """Return the outcomes of all stages, and the remaining pairs of each slot.

        Later stages skip a rejected tree. With ``relaxed``, a rejected tree continues as if the
        constraint were not requested.
        """
        run = _StageRun(self, relaxed)
        return list(run.iterate_outcomes()), run.remaining


def _evaluate_constraints(
    evaluator: ConstraintEvaluator,
    search: Search,
    stages: Sequence[Stage],
    tree_providers: TreeProviders,
) -> NDArray[np.bool_]:
    """Return for each stage a mask of the pairs that meet its constraint."""
    rows, shared = tree_providers.rows, tree_providers.is_shared
    met = np.ones((len(stages), len(rows)), np.bool_)
    first = 0
    for group in search.query.groups:
        own_root = CountedRoot.NONE if group.suffix else CountedRoot.OWN
        shared_root = CountedRoot.NONE if group.suffix else CountedRoot.OTHER
        for part, counted in ((~shared, own_root), (shared, shared_root)):
            masks = evaluator.iterate_masks(group, counted, rows[part])
            for index, mask in enumerate(masks, first):
                met[index, part] = mask
        first += len(list(iterate_constraints(group)))
    for index, mask in enumerate(evaluator.iterate_trait_masks(search.query.root, rows), first):
        met[index] = mask
    return met


class _StageRun:
    """Evaluate all stages in order. ``remaining`` has the pairs by slot."""

    def __init__(self, checked: CheckedTrees, relaxed: bool) -> None:
        self._checked, self._relaxed = checked, relaxed
        self.remaining: list[Mask] = [np.ones(checked.met.shape[1], np.bool_)] * checked.slots
        #: Earlier stages with ``any_provider_suffices``, and the trees that passed each of them.
        self._any_provider_stages: list[tuple[Stage, Mask]] = []

    def iterate_outcomes(self) -> Iterator[StageOutcome]:
        is_remaining = np.ones(len(self._checked.tree_providers), np.bool_)
        for stage in self._checked.stages:
            passes, blamed, failing = self._evaluate(stage)
            rejected = np.flatnonzero(is_remaining & ~passes)
            yield StageOutcome(stage=stage, rejected=rejected, blamed=blamed, failing=failing)
            if not self._relaxed:
                is_remaining &= passes

    def _evaluate(self, stage: Stage) -> tuple[Mask, Mask, dict[int, Mask]]:
        """Return passing trees, blamed pairs, and failing trees by slot."""
        pairs, met = self._checked.tree_providers, self._checked.met[stage.index]
        if stage.constraint.is_on_root:
            blamed = np.zeros(len(met), np.bool_)
            blamed[pairs.root_pairs] = True
            return met[pairs.root_pairs], blamed, {}
        if stage.any_provider_suffices:
            blamed = _join_slots(stage, self.remaining)
            passes = pairs.reduce_to_trees(blamed & met)
            self._any_provider_stages.append((stage, passes))
            return passes, blamed, {}
        return self._narrow_slots(stage, met)

    def _narrow_slots(self, stage: Stage, met: Mask) -> tuple[Mask, Mask, dict[int, Mask]]:
        """Remove the pairs that do not meet a constraint from the slots."""
        pairs, previous = self._checked.tree_providers, list(self.remaining)
        passes, blamed = np.ones(len(pairs), np.bool_), np.zeros(len(met), np.bool_)
        failing = {}
        for slot in stage.slots:
            self.remaining[slot] = previous[slot] & met
            serves = pairs.reduce_to_trees(self.remaining[slot])
            failing[slot] = ~serves
            passes &= serves
            lost = previous[slot] & pairs.expand_to_pairs(~serves)
            blamed |= lost
            if self._relaxed:
                self.remaining[slot] |= lost
        for earlier, applies in self._any_provider_stages:
            if not set(earlier.slots) & set(stage.slots):
                continue
            has_trait = self._checked.met[earlier.index]
            still_pass = pairs.reduce_to_trees(_join_slots(earlier, self.remaining) & has_trait)
            losing = applies & ~still_pass
            if not self._relaxed:
                losing &= passes
            passes &= still_pass | ~applies
            # The pairs that have the trait, but do not meet this constraint.
            lost = _join_slots(earlier, previous) & has_trait & ~met & pairs.expand_to_pairs(losing)
            blamed |= lost
            for slot in stage.slots if self._relaxed else ():
                self.remaining[slot] = self.remaining[slot] | (previous[slot] & lost)
        return passes, blamed, failing


def _join_slots(stage: Stage, masks: Sequence[Mask]) -> Mask:
    return reduce(or_, (masks[slot] for slot in stage.slots))


class TreeRejection(NamedTuple):
    """A tree that a stage rejects, and the pairs in the reason."""

    tree: int
    pairs: tuple[int, ...]


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
        advised: Collection[int] = (),
    ) -> "Reasons":
        """Read data for reasons, and for changes to the ``advised`` pairs."""
        ids, classes = checked.tree_providers.ids, search.names.classes
        groups, roots = search.query.groups, checked.tree_providers.root_pairs
        advised_ids = ids[list(advised)].tolist()
        requested = {classes[name] for group in groups for name, _ in group.resources}
        inventory_ids = {(key, class_id) for key in advised_ids for class_id in requested}
        named, members = set(advised_ids), set(advised_ids)
        for outcome, tree_rejections in rejected:
            constraint = outcome.stage.constraint
            blamed = {pair for rejection in tree_rejections for pair in rejection.pairs}
            blamed_ids = ids[list(blamed)].tolist()
            if constraint.resource_class:
                class_id = classes[constraint.resource_class]
                inventory_ids.update((key, class_id) for key in blamed_ids)
            elif constraint.kind == "forbidden_aggregate":
                members.update(blamed_ids)
            # The root of a tree is named only next to other providers.
            in_words = (each.pairs for each in tree_rejections if each.pairs != (roots[each.tree],))
            named.update(ids[[pair for pairs in in_words for pair in pairs]].tolist())
        in_trees = [group.in_tree for group in groups if group.in_tree]
        return cls(
            checked,
            search,
            read_inventories(source, search, inventory_ids),
            resource_providers.map_names_by_id(connection, named),
            _find_memberships(source, search, members) if members else {},
            resource_providers.map_names(connection, in_trees),
        )

    def build_rejection(self, outcome: StageOutcome, tree_rejection: TreeRejection) -> Rejection:
        """Return the reason why a stage rejects a tree."""
        constraint, pairs = outcome.stage.constraint, tree_rejection.pairs
        trees = self.checked.tree_providers
        root = int(trees.root_pairs[tree_rejection.tree])
        if constraint.resource_class:
            return self._build_shortage(outcome, pairs, root)
        values = constraint.as_json()
        del values["kind"]
        values.pop("group", None)
        if constraint.kind == "forbidden_aggregate":
            own = frozenset().union(*map(self.get_memberships, pairs))
            values["aggregates"] = sorted(own & set(constraint.names)) or list(constraint.names)
        whole = trees.get_slice(tree_rejection.tree)
        count = whole.stop - whole.start
        if constraint.family == IN_TREE:
            (uuid,) = constraint.names
            values["tree_name"] = self.tree_names.get(uuid, uuid)
            values |= {} if root in pairs else self._build_provider_values(pairs)
        elif not constraint.is_on_root and 1 < count == len(pairs):
            values["provider_count"] = count
        elif not constraint.is_on_root and pairs != (root,):
            values |= self._build_provider_values(pairs)
        return Rejection(kind=constraint.kind, values=values)

    def _build_shortage(self, outcome: StageOutcome, pairs: Sequence[int], root: int) -> Rejection:
        constraint = outcome.stage.constraint
        items = ((pair, self.find_inventory(outcome, pair)) for pair in pairs)
        inventories = [(pair, item) for pair, item in items if item is not None]
        if not inventories:
            rejection = build_shortage(constraint, None)
            if root in pairs:
                return rejection
            values = {**rejection.values, **self._build_provider_values(pairs)}
            return replace(rejection, values=values)
        parts = [
            build_shortage(constraint, inventory, "" if pair == root else self.get_name(pair))
            for pair, inventory in inventories[:_MAX_NAMED]
        ]
        if len(inventories) == 1:
            return parts[0]
        kinds = {part.kind for part in parts}
        values = {"resource_class": constraint.resource_class, "requested": constraint.amount}
        if (omitted := len(inventories) - _MAX_NAMED) > 0:
            values["more"] = omitted
        kind = "capacity" if "capacity" in kinds else parts[0].kind
        return Rejection(kind=kind, values=values, parts=tuple(parts))

    def _build_provider_values(self, pairs: Sequence[int]) -> dict[str, Any]:
        values: dict[str, Any] = {"providers": list(map(self.get_name, pairs[:_MAX_NAMED]))}
        omitted = len(pairs) - _MAX_NAMED
        return {**values, "more": omitted} if omitted > 0 else values

    def find_inventory(self, outcome: StageOutcome, pair: int) -> UsedInventory | None:
        """Return the inventory of the stage's class on a pair's provider, or None."""
        class_id = self.search.names.classes[outcome.stage.constraint.resource_class]
        return self.inventories.get((int(self.checked.tree_providers.ids[pair]), class_id))

    def get_name(self, pair: int) -> str:
        """Return the name of the provider of a pair."""
        return self.names.get(int(self.checked.tree_providers.ids[pair]), "one provider")

    def get_memberships(self, pair: int) -> frozenset[str]:
        """Return the aggregates of a pair's provider that the query names."""
        return self.memberships.get(int(self.checked.tree_providers.ids[pair]), frozenset())


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
        too_small = "min_unit" if amount < inventory.min_unit else "step_size"
        field_name = "max_unit" if amount > inventory.max_unit else too_small
        values[field_name] = getattr(inventory, field_name)
        return Rejection(kind="allocation_unit", values=values)
    return Rejection(kind="capacity", values=values)


def build_rejections(
    checked: CheckedTrees, outcome: StageOutcome, trees: Sequence[int]
) -> list[TreeRejection]:
    """Return the rejection of each of these trees by a stage.

    If only the root fails a constraint on aggregates, the rejection names the root.
    """
    tree_providers = checked.tree_providers
    own_failures = checked.own_failures.get(outcome.stage.index)
    tree_rejections = []
    for tree in trees:
        blamed = tree_providers.list_pairs(tree, outcome.blamed)
        if own_failures is not None:
            root = int(tree_providers.root_pairs[tree])
            blamed = sorted({pair if own_failures[pair] else root for pair in blamed})
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
