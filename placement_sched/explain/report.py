# SPDX-License-Identifier: Apache-2.0
"""Explanation of a candidate search: rejected trees and nearest misses.

An explanation has a step for each constraint, with the number of trees before and after. A tree
whose root is a sharing provider without a compute node counts only if it has candidates. If every
slot of a tree has a provider but the providers do not serve together, the step ``combination``
rejects the tree. :mod:`placement_sched.explain.stages` defines stages and pairs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.combine import WorkBudget, can_always_combine
from placement_sched.candidates.constraints import iterate_rules
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Search
from placement_sched.candidates.search import find_limiting_option
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import TooComplex
from placement_sched.explain import values as reports
from placement_sched.explain.advice import build_change
from placement_sched.explain.changes import TreeAdvice
from placement_sched.explain.near_misses import (
    BrokenRule,
    TreeNames,
    build_explanation_budget,
    find_broken_rules,
    find_near_misses,
)
from placement_sched.explain.phrases import format_detail
from placement_sched.explain.stages import CheckedTrees, Reasons, build_rejections
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.constraint import COMBINATION, LIMIT, Constraint
from placement_sched.model.rejection import Rejection, SuggestedChange
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import resource_providers

#: Host and node of a tree. Without a compute node, both are the name of the root.
_Names = tuple[str, str]


@dataclass(frozen=True)
class SearchRun:
    """A search to explain, with its candidates and the names of compute nodes."""

    connection: Connection
    source: ProviderSource
    search: Search
    candidates: Candidates
    settings: Settings
    names: NodeNames

    @cached_property
    def roots_with_candidates(self) -> set[str]:
        """Return the uuids of the roots that have candidates."""
        return {request.root_uuid for request in self.candidates.requests}

    def build_limit_step(self, before: int) -> reports.StepReport:
        """Build the step ``limit`` after ``before`` hosts that can serve."""
        after = len(self.roots_with_candidates)
        limited = self.candidates.limited
        option = find_limiting_option(self.search.query.limit, self.settings) if limited else None
        return reports.StepReport(Constraint(LIMIT, amount=after), before, after, option=option)

    def build_cut_step(self) -> reports.StepReport:
        """Build the step for a tree that can serve but has no candidates."""
        step = self.build_limit_step(1)
        rejection = Rejection(kind="changed")
        changes: tuple[SuggestedChange, ...] = ()
        if step.option is not None:
            is_random = self.settings.placement.randomize_allocation_candidates
            values = {"hosts": step.constraint.amount, **step.option.as_json(), "random": is_random}
            rejection = Rejection(kind="limit", values=values)
            changes = (build_change("raise_option", step.option.as_json(), kind="limit"),)
        rejected = reports.Rejected("", "", rejection, changes)
        return replace(step, before=1, after=0, rejected=(rejected,))


class _Trees:
    """The evaluated trees of a search, with names of hosts and nodes."""

    def __init__(self, run: SearchRun, roots: Collection[int] | None = None) -> None:
        self.run = run
        self.checked = CheckedTrees.check(run.source, run.search, roots)
        self.providers = self.checked.tree_providers
        self.node_names = run.names.get_current(run.connection)
        self._root_names: dict[int, _Names] = {}

    def list_names(self, trees: Sequence[int]) -> list[_Names]:
        """Return host and node of each tree.

        Without a compute node, both are the name of the root, which is read from the database.
        """
        uuids = self.providers.root_uuids[list(trees)].tolist()
        ids = self.providers.root_ids[list(trees)].tolist()
        without_node = [
            key for key, uuid in zip(ids, uuids, strict=True) if uuid not in self.node_names
        ]
        if unloaded := [key for key in without_node if key not in self._root_names]:
            names = resource_providers.map_names_by_id(self.run.connection, unloaded)
            self._root_names |= {key: (names.get(key, ""), names.get(key, "")) for key in unloaded}
        return [
            self.node_names.get(uuid) or self._root_names[key]
            for key, uuid in zip(ids, uuids, strict=True)
        ]

    def has_candidates(self, trees: Any = slice(None)) -> NDArray[np.bool_]:
        """Return a mask of the trees that have candidates."""
        served = self.run.roots_with_candidates
        return np.array([uuid in served for uuid in self.providers.root_uuids[trees]], np.bool_)

    def select_counted(self) -> NDArray[np.bool_]:
        """Return a mask of the trees of hosts (without compute nodes: of all)."""
        is_sharing = self.providers.has_sharing_root
        if not self.node_names:
            return self.has_candidates() | ~is_sharing if is_sharing.any() else ~is_sharing
        is_host = [uuid in self.node_names for uuid in self.providers.root_uuids]
        return self.has_candidates() | np.array(is_host, np.bool_)

    def list_visible(
        self, trees: Sequence[int], view: reports.ExplanationView
    ) -> list[tuple[int, _Names]]:
        named = sorted(zip(self.list_names(trees), trees, strict=True))
        visible = [(tree, name) for name, tree in named if view.hosts is None or view.shows(*name)]
        return visible[: view.max_rejected or None]

    def can_serve(self, remaining: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the trees whose providers can be combined to serve.

        Trees with candidates serve. If a limit cut the search, other trees are tried. A tree that
        could not be tried within the budget counts as serving.
        """
        run, limited = self.run, self.run.candidates.limited
        if run.search.is_single_provider or (limited and can_always_combine(run.search.rules)):
            return np.ones(len(remaining), np.bool_)
        serves = self.has_candidates(remaining)
        if limited and not serves.all():
            untried = self.providers.root_ids[remaining[~serves]].tolist()
            rejected = self.find_rejected(untried)
            serves[~serves] = [key not in rejected for key in untried]
        return serves

    def find_rejected(self, roots: Sequence[int]) -> set[int]:
        """Return the ids of the roots whose providers do not serve together."""
        budget, rejected = build_explanation_budget(self.run.settings, len(roots)), set()
        with suppress(TooComplex):
            for root, serves in self.read_trees(roots).check(budget):
                if not serves:
                    rejected.add(root)
        return rejected

    def find_near_misses(self) -> reports.NearMisses:
        counts = self.select_counted() & ~self.has_candidates()
        budget = build_explanation_budget(self.run.settings, int(counts.sum()))
        ignored_roots = set(self.providers.root_ids[~counts].tolist())
        return find_near_misses(
            self.run.source, self.run.search, self.checked, budget, ignored_roots
        )

    def combines(self, advice: TreeAdvice) -> bool:
        if can_always_combine(self.run.search.rules):
            return True
        budget = build_explanation_budget(self.run.settings, 1, shares=len(self.providers))
        try:
            return advice.combines(self.run.search.rules, budget)
        except TooComplex:
            return False

    def read_trees(self, roots: Sequence[int]) -> ProviderTrees:
        run, no_limit = self.run, WorkBudget(0)  # the same trees were already checked
        return TreeReader(run.source, run.search, no_limit, for_explanation=True).read(roots)

    def build_combination_step(
        self,
        trees: Sequence[tuple[int, _Names]],
        before: int,
        after: int,
        *,
        with_changes: bool = False,
    ) -> reports.StepReport:
        providers, rules = self.providers, self.run.search.rules
        roots = [int(providers.root_ids[tree]) for tree, _ in trees]
        combinable = self.read_trees(roots)
        names: Mapping[int, str] = {}
        if with_changes:  # only changes name providers
            pairs = [providers.ids[providers.get_slice(tree)].tolist() for tree, _ in trees]
            names = resource_providers.map_names_by_id(self.run.connection, {*chain(*pairs)})
        classes = self.run.search.names.class_names
        numbers = {root: number for number, root in enumerate(combinable.roots.tolist())}
        rejected = []
        for root, (_, (host, node)) in zip(roots, trees, strict=True):
            # A share for each tree, so that a difficult tree does not use up the budget.
            budget = build_explanation_budget(self.run.settings, len(trees), shares=len(trees))
            broken: list[BrokenRule] = []
            if (number := numbers.get(root)) is not None:
                provider_names = list(map(names.get, combinable.list_provider_ids(number)))
                tree = combinable.build_tree(number, with_all_free=True)
                with suppress(TooComplex):
                    named = TreeNames(classes, provider_names)
                    broken = list(find_broken_rules(tree, rules, named, budget))
            rejection = Rejection(kind=COMBINATION, parts=tuple(rule.rejection for rule in broken))
            suggestions = (rule.change() for rule in broken) if with_changes else ()
            changes = tuple(change for change in suggestions if change)
            rejected.append(reports.Rejected(host, node, rejection, changes))
        step = build_combination(self.run.search)
        return reports.StepReport(step, before, after, tuple(rejected))


def explain(run: SearchRun, view: reports.ExplanationView) -> reports.CandidatesReport:
    """Report the trees that each constraint of a search rejects.

    Each tree counts once, for the first constraint that rejects it. If more trees can serve than
    have candidates, the last step is ``limit``. Trees without a compute node count only if there
    is no compute node. Otherwise ``other_roots`` names them, if no constraint on resources rejects
    them and they are no sharing providers.
    """
    trees = _Trees(run)
    checked, is_remaining = trees.checked, trees.select_counted()
    is_other = ~is_remaining & ~trees.providers.has_sharing_root
    outcomes, _ = checked.evaluate_stages()
    total = count = int(is_remaining.sum())
    stages = []
    for outcome in outcomes:
        if outcome.stage.constraint.resource_class:
            is_other[outcome.rejected] = False
        removed = outcome.rejected[is_remaining[outcome.rejected]]
        is_remaining[removed] = False
        visible = trees.list_visible(removed.tolist(), view)
        rejections = build_rejections(checked, outcome, [tree for tree, _ in visible])
        stages.append((outcome, visible, rejections, count, count - len(removed)))
        count -= len(removed)
    named_rejections = [(outcome, rejections) for outcome, _, rejections, *_ in stages]
    reasons = Reasons.read(run.connection, run.source, run.search, checked, named_rejections)
    steps = []
    for outcome, visible, rejections, count_before, count_after in stages:
        rejected = tuple(
            reports.Rejected(host, node, reasons.build_rejection(outcome, rejection))
            for rejection, (_, (host, node)) in zip(rejections, visible, strict=True)
        )
        constraint = outcome.stage.constraint
        steps.append(reports.StepReport(constraint, count_before, count_after, rejected))
    remaining = np.flatnonzero(is_remaining)
    serves = trees.can_serve(remaining)
    after = int(serves.sum())
    if after < count:
        not_combinable = trees.list_visible(remaining[~serves].tolist(), view)
        steps.append(trees.build_combination_step(not_combinable, count, after))
    candidate_roots = run.roots_with_candidates
    if len(candidate_roots) < after:
        steps.append(run.build_limit_step(after))
    misses = reports.NearMisses() if candidate_roots or after else trees.find_near_misses()
    return reports.CandidatesReport(
        query=run.search.query.as_querystring(),
        providers=total,
        hosts=len(candidate_roots),
        steps=tuple(steps),
        nearest_misses=misses,
        other_roots=tuple(name for name, _ in trees.list_names(np.flatnonzero(is_other).tolist())),
    )


class TreeSteps(NamedTuple):
    """The steps that reject a tree.

    ``is_certain`` is false if the providers of the tree may not serve together even after the first
    change of each reason.
    """

    steps: tuple[reports.StepReport, ...]
    is_certain: bool = True


def map_rejections_by_root(run: SearchRun, roots: Collection[str]) -> dict[str, TreeSteps]:
    """Map the root uuid of each rejected tree to all steps that reject it.

    Trees with candidates are left out. The steps are the same as in :func:`explain`, but a rejected
    tree continues as if the constraint were not requested, so that later steps may also reject it.
    Combinations are checked only for trees that no other step rejects. The only step is ``limit``
    if no other step rejects the tree.
    """
    rejected_uuids = set(roots) - run.roots_with_candidates
    if not rejected_uuids:
        return {}
    trees = _Trees(run, list(run.source.map_ids(rejected_uuids).values()))
    checked, providers = trees.checked, trees.providers
    outcomes, remaining = checked.evaluate_stages(relaxed=True)
    all_rejections = [
        (item, build_rejections(checked, item, item.rejected.tolist())) for item in outcomes
    ]
    reasons = Reasons.read(
        run.connection, run.source, run.search, checked, all_rejections, range(len(providers.ids))
    )
    names = trees.list_names(range(len(providers)))
    steps: dict[int, list[reports.StepReport]] = {tree: [] for tree in range(len(providers))}
    advice: dict[int, TreeAdvice] = {}
    for outcome, tree_rejections in all_rejections:
        for rejection in tree_rejections:
            tree = rejection.tree
            if tree not in advice:
                rejecting = [item for item in outcomes if tree in item.rejected]
                advice[tree] = TreeAdvice(reasons, tree, rejecting, remaining)
            changes = advice[tree].suggest(outcome, rejection)
            rejected = reports.Rejected(
                *names[tree], reasons.build_rejection(outcome, rejection), changes
            )
            steps[tree].append(reports.StepReport(outcome.stage.constraint, 1, 0, (rejected,)))
    uncertain = {tree for tree, tree_advice in advice.items() if not trees.combines(tree_advice)}
    unrejected = np.array([tree for tree, tree_steps in steps.items() if not tree_steps], np.int64)
    if not run.search.is_single_provider and len(unrejected):
        rejected_roots = trees.find_rejected(providers.root_ids[unrejected].tolist())
        for tree in unrejected.tolist():
            if int(providers.root_ids[tree]) in rejected_roots:
                step = trees.build_combination_step([(tree, names[tree])], 1, 0, with_changes=True)
                steps[tree].append(step)
    uuids = providers.root_uuids.tolist()
    return {
        uuids[tree]: TreeSteps(tuple(entries or [run.build_cut_step()]), tree not in uncertain)
        for tree, entries in steps.items()
    }


def iterate_steps(run: SearchRun) -> Iterator[tuple[Constraint, list[str]]]:
    """Yield each step of :func:`explain` that rejects compute nodes.

    A step is its constraint, followed by the uuids of the rejected nodes. Reasons, which are the
    expensive part of an explanation, and the step ``limit`` are left out.
    """
    trees = _Trees(run)
    outcomes, _ = trees.checked.evaluate_stages()
    uuids, is_remaining = trees.providers.root_uuids, np.ones(len(trees.providers), np.bool_)
    steps = [(outcome.stage.constraint, outcome.rejected) for outcome in outcomes]
    for _, removed in steps:
        is_remaining[removed] = False
    remaining = np.flatnonzero(is_remaining)
    if len(remaining):
        rejected = remaining[~trees.can_serve(remaining)]
        steps.append((build_combination(run.search), rejected))
    for constraint, removed in steps:
        if nodes := [uuid for uuid in uuids[removed].tolist() if uuid in trees.node_names]:
            yield constraint, nodes


def build_combination(search: Search) -> Constraint:
    """Return the step for trees whose providers do not serve together."""
    rules = (each.as_json() for each in iterate_rules(search.query))
    names = [f"{rule['kind']}={format_detail(rule)}" for rule in rules]
    return Constraint(COMBINATION, names=tuple(names))


def list_near_misses(run: SearchRun) -> reports.NearMisses:
    """Return the nearest misses among trees without candidates.

    A search that finds candidates may also have nearest misses. If a limit cut a search that
    combines providers, the result is empty, since trees without candidates may serve unchanged.
    """
    if run.candidates.limited and not run.search.is_single_provider:
        return reports.NearMisses()
    return _Trees(run).find_near_misses()
