# SPDX-License-Identifier: Apache-2.0
"""Near misses: smallest sets of constraints to drop for candidates.

The request is evaluated without each constraint. If no tree then serves, it is evaluated without
each pair of constraints, and so on. A set can only help if it contains all constraints that the
providers of a tree do not meet. Therefore few sets are evaluated. All evaluations share a budget.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import combinations
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import truncate_capacities
from placement_sched.candidates.combine import FreeCapacity, ProviderTree, WorkBudget, can_serve
from placement_sched.candidates.constraints import (
    iterate_constraints,
    iterate_root_constraints,
    iterate_rules,
)
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Rules, Search, needs_single_provider
from placement_sched.candidates.trees import TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.explain.advice import build_change
from placement_sched.explain.changes import find_fitting_amounts, suggest_dropping
from placement_sched.explain.stages import CheckedTrees, Stage
from placement_sched.explain.values import NearMiss, NearMisses
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.constraint import ISOLATE, MEMBER_OF, SAME_SUBTREE, Constraint
from placement_sched.model.rejection import Rejection, SuggestedChange

#: An explanation has the budget of a search divided by this number: by default about 0.25 seconds.
_DIVISOR = 4
#: Additional steps for each tree, several times the steps of a simple tree.
_TREE_STEPS = 100

#: Steps of an evaluation, and of each slot in it, for building and running SQL statements.
_EVALUATION_STEPS = 1000
_SLOT_STEPS = 500
#: Steps of each tree that is read for an evaluation.
_READ_STEPS = 5
#: Number of checks of a provider for a slot in a step of the budget.
_CHECKS_PER_STEP = 8
#: Maximum number of amounts of a class that a reason lists.
_MAX_LISTED = 3


def build_explanation_budget(settings: Settings, trees: int, shares: int = 1) -> WorkBudget:
    """Return the work budget for an explanation of this many trees.

    The budget is divided by ``shares``. Requests that no host can serve are always explained, so
    this bounds the cost of each such request. There is no limit if ``[placement]
    allocation_candidates_budget`` is 0.
    """
    steps = settings.placement.allocation_candidates_budget
    return WorkBudget(((steps // _DIVISOR) + _TREE_STEPS * trees) // shares or 1 if steps else 0)


def find_near_misses(
    source: ProviderSource,
    search: Search,
    checked: CheckedTrees,
    budget: WorkBudget,
    ignored_roots: Collection[int] = (),
) -> NearMisses:
    """Find the smallest sets of constraints to drop for candidates.

    Rules count as constraints. Sets that let the most trees serve come first.
    ``ignored_roots`` are the root ids of trees to ignore. If the budget is exceeded, the result is
    incomplete: it has only the sets that were evaluated before.
    """
    if search.is_single_provider:
        return _find_single_misses(checked, ignored_roots)
    patterns = tuple(_group_by_pattern(checked, ignored_roots))
    constraints = [*(stage.constraint for stage in checked.stages), *iterate_rules(search.query)]
    rules = (1 << len(constraints)) - (1 << len(checked.stages))
    uuids = dict(
        zip(
            checked.tree_providers.root_ids.tolist(), checked.tree_providers.root_uuids, strict=True
        )
    )
    misses: list[NearMiss] = []
    complete = True
    try:
        blockers = _Blockers(search, checked.stages, patterns, budget)
        for size in range(1, len(constraints) + 1 if patterns else 1):
            for bits in blockers.iterate_sets(size, rules):
                dropped = tuple(
                    constraints[index] for index in range(len(constraints)) if bits >> index & 1
                )
                roots = blockers.find_unblocked_trees(bits)
                relaxed_search = replace(search, query=remove_constraints(search.query, dropped))
                budget.consume(
                    _EVALUATION_STEPS
                    + _SLOT_STEPS * len(relaxed_search.slots)
                    + _READ_STEPS * len(roots)
                )
                reader = TreeReader(source, relaxed_search, budget, for_explanation=True)
                checks = reader.read(roots).check(budget)
                if helped := tuple(uuids[root] for root, serves in checks if serves):
                    misses.append(NearMiss(dropped, len(helped), helped))
            if misses:
                break
    except TooComplex:
        complete = False
    return NearMisses.from_misses(misses, complete=complete)


def _find_single_misses(checked: CheckedTrees, ignored_roots: Collection[int]) -> NearMisses:
    """Find the smallest constraint sets that a provider does not meet.

    :attr:`Search.is_single_provider` must be true. A provider then serves only if all
    constraints that it does not meet are dropped.
    """
    unmet = ~checked.met.T
    numbers = unmet.sum(axis=1)
    is_ignored = np.isin(checked.tree_providers.ids, list(ignored_roots))
    numbers[is_ignored | (numbers == 0)] = len(checked.stages) + 1
    nearest = np.flatnonzero(numbers == numbers.min(initial=len(checked.stages)))
    patterns, inverse = np.unique(unmet[nearest], axis=0, return_inverse=True)
    constraints = [stage.constraint for stage in checked.stages]
    misses = []
    # Patterns with earlier constraints come first.
    for number in reversed(range(len(patterns))):
        roots = tuple(
            checked.tree_providers.root_uuids[nearest[inverse.ravel() == number]].tolist()
        )
        broken = tuple(constraints[index] for index in np.flatnonzero(patterns[number]).tolist())
        misses.append(NearMiss(broken, len(roots), roots))
    return NearMisses.from_misses(misses)


def with_amount(query: CandidatesQuery, stage: Stage, amount: int) -> CandidatesQuery:
    """Return the query with another amount in the constraint of a stage."""

    def replace_amount(group: RequestGroup) -> RequestGroup:
        if group.suffix != stage.constraint.suffix:
            return group
        amounts = dict(group.resources) | {stage.constraint.resource_class: amount}
        return replace(group, resources=tuple(amounts.items()))

    return replace(query, groups=tuple(map(replace_amount, query.groups)))


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
    trees, amount = checked.tree_providers, stage.constraint.amount
    class_id = search.names.classes[stage.constraint.resource_class]
    below, above = np.zeros((2, len(trees.ids)), np.int64)
    with source.open_columns(trees.ids.tolist()) as (columns, _):
        if class_id in columns.classes:
            is_present, rows = columns.find_existing_rows(trees.ids)
            has_inventory, (capacities, *amounts) = columns.classes[class_id].select_values(
                rows, "capacity", "used", "min_unit", "max_unit", "step_size"
            )
            used, min_unit, max_unit, step = (column.astype(np.int64) for column in amounts)
            max_amount = np.minimum(truncate_capacities(capacities) - used, max_unit)
            pairs = np.flatnonzero(is_present)[has_inventory]
            below[pairs], above[pairs] = find_fitting_amounts(max_amount, min_unit, step, amount)
    amounts_by_tree = _find_best(checked, stage, below, np.maximum)
    if not amounts_by_tree.any():
        amounts_by_tree = _find_best(checked, stage, above, np.minimum)
    amounts_by_tree[[uuid in roots_with_candidates for uuid in trees.root_uuids]] = 0
    fitting = np.flatnonzero(amounts_by_tree)
    distances = np.abs(amounts_by_tree[fitting] - amount)
    nearest = fitting[np.lexsort((trees.root_ids[fitting], distances))[:limit]]
    uuids, nearest_amounts = trees.root_uuids[nearest], amounts_by_tree[nearest]
    return dict(zip(uuids.tolist(), nearest_amounts.tolist(), strict=True))


def _find_best(
    checked: CheckedTrees, stage: Stage, amounts: NDArray[np.int64], best: np.ufunc
) -> NDArray[np.int64]:
    """Return for each tree the best amount that passes all stages, or 0."""
    met = checked.met.copy()
    met[stage.index] = amounts > 0
    outcomes, remaining = replace(checked, met=met).evaluate_stages()
    (slot,) = stage.slots
    passing = np.flatnonzero(remaining[slot])
    trees = checked.tree_providers.trees[passing]
    selected = np.zeros(len(checked.tree_providers), np.int64)
    selected[trees] = amounts[passing]
    best.at(selected, trees, amounts[passing])
    for outcome in outcomes:
        selected[outcome.rejected] = 0
    return selected


def remove_constraints(query: CandidatesQuery, dropped: Collection[Constraint]) -> CandidatesQuery:
    """Return the query without these constraints and rules."""

    def rebuild_group(constraints: Iterable[Constraint], suffix: str = "") -> RequestGroup:
        parts = [each.part for each in constraints if each not in dropped]
        return _join_groups(suffix, parts)

    return replace(
        query,
        groups=tuple(
            rebuild_group(iterate_constraints(group), group.suffix) for group in query.groups
        ),
        root=rebuild_group(iterate_root_constraints(query.root)).traits,
        group_policy="none" if ISOLATE in dropped else query.group_policy,
        same_subtrees=tuple(
            suffixes
            for suffixes in query.same_subtrees
            if Constraint(SAME_SUBTREE, names=suffixes) not in dropped
        ),
    )


def _join_groups(suffix: str, groups: Sequence[RequestGroup]) -> RequestGroup:
    return RequestGroup(
        suffix=suffix,
        resources=tuple(amount for group in groups for amount in group.resources),
        traits=TraitTerms(
            tuple(any_of for group in groups for any_of in group.traits.required),
            frozenset().union(*(group.traits.forbidden for group in groups)),
        ),
        aggregates=AggregateTerms(
            tuple(uuids for group in groups for uuids in group.aggregates.member_of),
            frozenset().union(*(group.aggregates.forbidden for group in groups)),
        ),
        in_tree=next((group.in_tree for group in groups if group.in_tree is not None), None),
    )


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The constraints that the providers of several equal trees do not meet.

    Each constraint is a bit. ``root`` are the constraints that the root misses, and ``slots`` has
    for each slot the constraints that each provider misses.
    """

    root: int
    slots: tuple[tuple[int, ...], ...]
    trees: tuple[int, ...]

    @property
    def price(self) -> int:
        return 1 + sum(map(len, self.slots)) // _CHECKS_PER_STEP


class _Blockers:
    """Find the sets of constraints whose removal may let trees serve.

    Constraints and rules that keep a tree from serving block it. Methods raise :class:`TooComplex`
    if the budget is exceeded.
    """

    def __init__(
        self,
        search: Search,
        stages: Sequence[Stage],
        patterns: Sequence[_Pattern],
        budget: WorkBudget,
    ) -> None:
        self._budget = budget
        self._any_provider_stages = [stage for stage in stages if stage.any_provider_suffices]
        self._any_provider_bits = _build_stage_bits(self._any_provider_stages)
        self._linked_memberships = _find_linked_memberships(search, stages)
        self._slot_amount_bits = _find_slot_amount_bits(search, stages)
        self._patterns = patterns
        missed = (mask for pattern in self._patterns for masks in pattern.slots for mask in masks)
        roots = (pattern.root for pattern in self._patterns)
        amounts = _build_stage_bits(stage for stage in stages if stage.constraint.resource_class)
        # Only the removal of these constraints can let a tree serve.
        self._relevant = reduce(
            or_, (*missed, *roots), amounts | self._any_provider_bits | self._linked_memberships
        )

    def iterate_sets(self, size: int, rules: int) -> Iterator[int]:
        """Yield the sets of ``size`` constraints whose removal may help.

        ``rules`` are rules that may also be dropped, as bits. No other set of this size can let a
        tree serve. The caller must search to find out whether a set helps.
        """
        yielded: set[int] = set()
        for core in sorted(
            self._find_minimal_sets(size), key=lambda bits: (-bits.bit_count(), bits)
        ):
            optional = tuple(_yield_bits((self._relevant | rules) & ~core))
            for extra in combinations(optional, size - core.bit_count()):
                self._budget.consume(1)
                whole = core | sum(extra)
                if whole not in yielded:
                    yielded.add(whole)
                    yield whole

    def find_unblocked_trees(self, dropped: int) -> list[int]:
        self._budget.consume(sum(pattern.price for pattern in self._patterns))
        return [
            tree
            for pattern in self._patterns
            if self._find_blockers(pattern, dropped) is None
            for tree in pattern.trees
        ]

    def _find_minimal_sets(self, limit: int) -> set[int]:
        """Find sets of at most ``limit`` constraints whose removal may help.

        Any other set that may help contains a set of the result.
        """
        minimal: set[int] = set()
        for pattern in self._patterns:
            visited, open_sets = {0}, [0]
            while open_sets:
                dropped = open_sets.pop()
                self._budget.consume(pattern.price)
                blockers = self._find_blockers(pattern, dropped)
                if blockers is None:
                    minimal.add(dropped)
                    continue
                unvisited = {dropped | blocker for blocker in blockers} - visited
                open_sets += (bits for bits in unvisited if bits.bit_count() <= limit)
                visited |= unvisited
        return minimal

    def _find_blockers(self, pattern: _Pattern, dropped: int) -> list[int] | None:
        """Find further sets of constraints to drop with ``dropped``.

        Returns None if no constraint blocks the trees of the pattern any more.
        """
        if missing := pattern.root & ~dropped:
            return [missing]
        ignored = dropped | self._any_provider_bits
        if dropped & self._linked_memberships:
            ignored |= self._linked_memberships
        for masks, amount_bit in zip(pattern.slots, self._slot_amount_bits, strict=True):
            if not (dropped & amount_bit or any(not mask & ~ignored for mask in masks)):
                return [*_yield_bits(amount_bit), *self._yield_missing(masks, ignored)]
        for stage in self._any_provider_stages:
            bit = 1 << stage.index
            with_trait = [m for slot in stage.slots for m in pattern.slots[slot] if not m & bit]
            if not (dropped & bit or any(not mask & ~ignored for mask in with_trait)):
                return [bit, *self._yield_missing(with_trait, ignored)]
        return None

    def _yield_missing(self, masks: Iterable[int], ignored: int) -> Iterator[int]:
        for missing in {mask & ~ignored for mask in masks}:
            if memberships := missing & self._linked_memberships:
                yield from (
                    missing & ~memberships | bit for bit in _yield_bits(self._linked_memberships)
                )
            else:
                yield missing


def _group_by_pattern(checked: CheckedTrees, ignored_roots: Collection[int]) -> Iterator[_Pattern]:
    trees, stages = checked.tree_providers, checked.stages
    root_stages = _build_stage_bits(stage for stage in stages if stage.constraint.is_on_root)
    # The distinct sets of unmet stages, as bits, and the number of the set of each pair.
    columns, inverse = np.unique(~checked.met, axis=1, return_inverse=True)
    packed = np.packbits(columns, axis=0, bitorder="little")
    missed = [int.from_bytes(row.tobytes(), "little") for row in packed.T]
    numbers, bounds = inverse.ravel().tolist(), trees.bounds.tolist()
    roots = [missed[numbers[pair]] & root_stages for pair in trees.root_pairs.tolist()]
    equal: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for tree, root in enumerate(trees.root_ids.tolist()):
        if root not in ignored_roots:
            misses = tuple(sorted(set(numbers[bounds[tree] : bounds[tree + 1]])))
            equal[roots[tree], misses].append(root)
    for (root_misses, misses), roots_with_pattern in equal.items():
        slots = []
        for slot in range(checked.slots):
            slot_stages = _build_stage_bits(stage for stage in stages if slot in stage.slots)
            slots.append(tuple(sorted({missed[number] & slot_stages for number in misses})))
        yield _Pattern(root_misses, tuple(slots), tuple(roots_with_pattern))


def _find_linked_memberships(search: Search, stages: Sequence[Stage]) -> int:
    """Find the ``member_of`` constraints that depend on each other, as bits.

    A provider must meet all of them, or its root must meet all of them. If such a constraint is
    dropped, the provider or its root may meet the remaining constraints.
    """
    group = search.query.group
    if group is None or len(group.aggregates.member_of) < 2 or not search.names.topology.has_nested:
        return 0
    return _build_stage_bits(
        stage
        for stage in stages
        if stage.constraint.family == MEMBER_OF and not stage.constraint.suffix
    )


def _find_slot_amount_bits(search: Search, stages: Sequence[Stage]) -> tuple[int, ...]:
    """Find for each slot the constraint on its only amount, as bits.

    If this constraint is dropped, the slot does not exist.
    """
    group, bits = search.query.group, [0] * len(search.slots)
    if group is not None and not needs_single_provider(group):
        for stage in stages:
            if stage.constraint.resource_class and not stage.constraint.suffix:
                bits[stage.slots[0]] = 1 << stage.index
    return tuple(bits)


def _build_stage_bits(stages: Iterable[Stage]) -> int:
    return sum(1 << stage.index for stage in stages)


def _yield_bits(value: int) -> Iterator[int]:
    while value:
        lowest = value & -value
        yield lowest
        value ^= lowest


class BrokenRule(NamedTuple):
    """A rule that keeps a tree from serving, with the reason.

    ``change`` returns the smallest change that lets the tree serve, None if no change was found.
    """

    rejection: Rejection
    change: Callable[[], SuggestedChange | None] = lambda: None


class TreeNames(NamedTuple):
    """Names of resource classes by id, and of a tree's providers in its order."""

    classes: Mapping[int, str]
    providers: Sequence[str | None]


def find_broken_rules(
    tree: ProviderTree, rules: Rules, names: TreeNames, budget: WorkBudget
) -> Iterator[BrokenRule]:
    """Yield each rule whose removal lets the tree serve.

    If the tree serves unchanged, yields only the reason why it has no candidates. Raises
    :class:`TooComplex` if the budget is exceeded while rules are tried. If the budget is exceeded
    while a change is computed, the change is None.
    """
    if can_serve(tree, rules, budget):
        yield BrokenRule(Rejection(kind="sharing_tree"))
        return
    if rules.isolate and can_serve(tree, replace(rules, isolate=False), budget):
        yield BrokenRule(_build_rejection(ISOLATE), partial(suggest_dropping, ISOLATE))
    for subtree in rules.subtrees:
        other_rules = tuple(rule for rule in rules.subtrees if rule != subtree)
        if can_serve(tree, replace(rules, subtrees=other_rules), budget):
            groups = tuple(rules.slots[slot].suffix for slot in subtree)
            constraint = Constraint(SAME_SUBTREE, names=groups)
            yield BrokenRule(_build_rejection(constraint), partial(suggest_dropping, constraint))
    for class_id in sorted({class_id for _, class_id in tree.free}):
        other_free = {key: free for key, free in tree.free.items() if key[1] != class_id}
        if can_serve(replace(tree, free=other_free), rules, budget):
            excess = _build_excess(tree, rules, class_id, names.classes[class_id])
            yield BrokenRule(
                excess, partial(_suggest_capacity, tree, rules, class_id, names, budget)
            )
    if rules.trait_choices and can_serve(tree, replace(rules, trait_choices=()), budget):
        yield BrokenRule(Rejection(kind="trait_combination"))


def _build_rejection(rule: Constraint) -> Rejection:
    values = rule.as_json()
    return Rejection(kind=values.pop("kind"), values=values)


def _map_requested_amounts(rules: Rules, class_id: int) -> dict[int, int]:
    return {
        position: amount
        for position, slot in enumerate(rules.slots)
        for of_class, amount in slot.amounts
        if of_class == class_id
    }


def _build_excess(tree: ProviderTree, rules: Rules, class_id: int, name: str) -> Rejection:
    amounts = _map_requested_amounts(rules, class_id)
    options = {provider for position in amounts for provider in tree.options[position]}
    free = sorted((tree.free[provider, class_id].amount for provider in options), reverse=True)
    values = {
        "resource_class": name,
        "requested": sum(amounts.values()),
        "amounts": list(amounts.values()),
        "free": free[0] if free else 0,
        "free_amounts": free[:_MAX_LISTED],
        "more": max(len(free) - _MAX_LISTED, 0),
    }
    return Rejection(kind="capacity", values=values)


def _suggest_capacity(
    tree: ProviderTree, rules: Rules, class_id: int, names: TreeNames, budget: WorkBudget
) -> SuggestedChange | None:
    """Suggest the smallest additional capacity that makes the tree serve."""

    def serves(provider: int, more: int) -> bool:
        free = tree.free[provider, class_id]
        increased = FreeCapacity(free.amount + more, free.max_unit)
        changed_tree = replace(tree, free={**tree.free, (provider, class_id): increased})
        return can_serve(changed_tree, rules, budget)

    amounts, best = _map_requested_amounts(rules, class_id), None
    limit = sum(amounts.values())
    try:
        for provider in sorted({key for slot in amounts for key in tree.options[slot]}):
            if limit > 0 and serves(provider, limit):
                more = 1 + bisect_left(range(1, limit), True, key=partial(serves, provider))
                best, limit = (more, provider), more - 1
    except TooComplex:
        return None
    if best is None:  # max_unit limits an allocation even if more is free
        return None
    amount, provider = best
    name, host = names.classes[class_id], names.providers[provider] or "one provider"
    return build_change("make_room", {"resource_class": name, "amount": amount, "provider": host})
