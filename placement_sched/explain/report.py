# SPDX-License-Identifier: Apache-2.0
"""Explanation of a candidate search: rejected trees and nearest misses.

An explanation has a step for each constraint, with the number of trees before and after. A tree
whose root is a sharing provider without a compute node counts only if it has candidates. If every
slot of a tree has a provider but the providers do not serve together, the step ``combination``
rejects the tree. :mod:`placement_sched.explain.stages` defines uses.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

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
from placement_sched.explain.advice import TreeAdvice
from placement_sched.explain.changes import build_change
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


class SearchRun(NamedTuple):
    """A search to explain, with its candidates and the names of compute nodes."""

    connection: Connection
    source: ProviderSource
    search: Search
    candidates: Candidates
    settings: Settings
    names: NodeNames

    @property
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
            values = {"hosts": step.constraint.amount, "option": step.option, "random": is_random}
            rejection = Rejection(kind="limit", values=values)
            changes = (build_change("raise_option", {"option": step.option}),)
        rejected = reports.Rejected("", "", rejection, changes)
        return replace(step, before=1, after=0, rejected=(rejected,))


class _Trees:
    """The evaluated trees of a search, with names of hosts and nodes."""

    def __init__(self, run: SearchRun, roots: Collection[int] | None = None) -> None:
        self.run = run
        self.checked = CheckedTrees.check(run.source, run.search, roots)
        self.node_names = run.names.get_current(run.connection)
        self._root_names: dict[int, _Names] = {}

    def list_names(self, trees: Sequence[int]) -> list[_Names]:
        """Return host and node of each tree.

        Without a compute node, both are the name of the root, which is read from the database.
        """
        uuids = self.checked.uses.root_uuids[list(trees)].tolist()
        cached = list(map(self.node_names.get, uuids))
        missing = [tree for tree, pair in zip(trees, cached, strict=True) if pair is None]
        if unloaded := [tree for tree in missing if tree not in self._root_names]:
            ids = self.checked.uses.root_ids
            names = resource_providers.map_names_by_id(
                self.run.connection, [int(ids[tree]) for tree in unloaded]
            )
            for tree in unloaded:
                name = names.get(int(ids[tree]), "")
                self._root_names[tree] = (name, name)
        return [
            self._root_names[tree] if host_and_node is None else host_and_node
            for tree, host_and_node in zip(trees, cached, strict=True)
        ]

    def select_counted(self) -> NDArray[np.bool_]:
        """Return a mask of the trees of hosts (without compute nodes: of all)."""
        uses = self.checked.uses
        if not self.node_names and not uses.has_sharing_root.any():
            return np.ones(len(uses), np.bool_)
        names, candidates = self.node_names, self.run.roots_with_candidates
        roots = uses.root_uuids
        is_host = np.array([uuid in names or uuid in candidates for uuid in roots], np.bool_)
        return is_host if self.node_names else is_host | ~uses.has_sharing_root

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
        uses, run, limited = self.checked.uses, self.run, self.run.candidates.limited
        if run.search.is_single_provider or (limited and can_always_combine(run.search.rules)):
            return np.ones(len(remaining), np.bool_)
        served = run.roots_with_candidates
        serves = np.array([uuid in served for uuid in uses.root_uuids[remaining]], np.bool_)
        if limited and not serves.all():
            untried = remaining[~serves]
            rejected = self.find_rejected(uses.root_ids[untried].tolist())
            serves[~serves] = [key not in rejected for key in uses.root_ids[untried].tolist()]
        return serves

    def find_rejected(self, roots: Sequence[int]) -> set[int]:
        rejected = set()
        trees = self.read_trees(roots)
        try:
            budget = build_explanation_budget(self.run.settings, len(roots))
            for root, serves in trees.check(budget):
                if not serves:
                    rejected.add(root)
        except TooComplex:
            pass
        return rejected

    def find_near_misses(self) -> reports.NearMisses:
        uses, run = self.checked.uses, self.run
        counts, candidate_roots = self.select_counted(), run.roots_with_candidates
        counts &= np.array([uuid not in candidate_roots for uuid in uses.root_uuids], np.bool_)
        budget = build_explanation_budget(run.settings, int(counts.sum()))
        ignored_roots = set(uses.root_ids[~counts].tolist())
        return find_near_misses(run.source, run.search, self.checked, budget, ignored_roots)

    def combines(self, advice: TreeAdvice) -> bool:
        if can_always_combine(self.run.search.rules):
            return True
        budget = build_explanation_budget(self.run.settings, 1, shares=len(self.checked.uses))
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
        uses = self.checked.uses
        combinable = self.read_trees([int(uses.root_ids[tree]) for tree, _ in trees])
        names = resource_providers.map_names_by_id(
            self.run.connection,
            {key for tree, _ in trees for key in uses.ids[uses.get_slice(tree)].tolist()},
        )
        classes = self.run.search.names.class_names
        numbers = {root: number for number, root in enumerate(combinable.roots.tolist())}
        rejected = []
        for tree, (host, node) in trees:
            # A share for each tree, so that a difficult tree does not use up the budget.
            budget = build_explanation_budget(self.run.settings, len(trees), shares=len(trees))
            number = numbers.get(int(uses.root_ids[tree]))
            broken: list[BrokenRule] = []
            if number is not None:
                named = TreeNames(
                    classes, [names.get(key) for key in combinable.list_provider_ids(number)]
                )
                full_tree = combinable.build_tree(number, with_all_free=True)
                with suppress(TooComplex):
                    broken = list(
                        find_broken_rules(full_tree, self.run.search.rules, named, budget)
                    )
            parts = tuple(rule.rejection for rule in broken)
            rejection = Rejection(kind=COMBINATION, parts=parts)
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
    checked, counts = trees.checked, trees.select_counted()
    is_other = ~counts & ~checked.uses.has_sharing_root
    outcomes, _ = checked.evaluate_stages()
    visible = []
    total = count_before = int(counts.sum())
    sizes = []
    is_remaining = counts
    for outcome in outcomes:
        if outcome.stage.constraint.resource_class:
            is_other[outcome.rejected] = False
        removed = outcome.rejected[counts[outcome.rejected]]
        is_remaining[removed] = False
        sizes.append((count_before, count_before - len(removed)))
        count_before -= len(removed)
        visible.append((outcome, trees.list_visible(removed.tolist(), view)))
    all_rejections = [
        (outcome, build_rejections(checked, outcome, [tree for tree, _ in named]))
        for outcome, named in visible
    ]
    reasons = Reasons.read(run.connection, run.source, run.search, checked, all_rejections)
    steps = []
    for (outcome, in_stage), (_, named), size in zip(all_rejections, visible, sizes, strict=True):
        rejected = tuple(
            reports.Rejected(host, node, reasons.build_rejection(outcome, rejection))
            for rejection, (_, (host, node)) in zip(in_stage, named, strict=True)
        )
        steps.append(reports.StepReport(outcome.stage.constraint, *size, rejected))
    remaining = np.flatnonzero(is_remaining)
    serves = trees.can_serve(remaining)
    after = int(serves.sum())
    if after < count_before:
        not_combinable = trees.list_visible(remaining[~serves].tolist(), view)
        steps.append(trees.build_combination_step(not_combinable, count_before, after))
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
    checked, uses = trees.checked, trees.checked.uses
    outcomes, remaining = checked.evaluate_stages(relaxed=True)
    all_rejections = [
        (item, build_rejections(checked, item, item.rejected.tolist())) for item in outcomes
    ]
    reasons = Reasons.read(
        run.connection, run.source, run.search, checked, all_rejections, range(len(uses.ids))
    )
    names = trees.list_names(range(len(uses)))
    steps: dict[int, list[reports.StepReport]] = {tree: [] for tree in range(len(uses))}
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
        rejected_roots = trees.find_rejected(uses.root_ids[unrejected].tolist())
        for tree in unrejected.tolist():
            if int(uses.root_ids[tree]) in rejected_roots:
                step = trees.build_combination_step([(tree, names[tree])], 1, 0, with_changes=True)
                steps[tree].append(step)
    uuids = uses.root_uuids.tolist()
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
    uuids, is_remaining = trees.checked.uses.root_uuids, np.ones(len(trees.checked.uses), np.bool_)
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
