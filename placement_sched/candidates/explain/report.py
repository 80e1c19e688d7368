"""Report what each constraint of a search removed, and which fewest constraints block it.

Counted are trees; a sharing provider without a compute node counts only if it serves. If every slot
of a tree has a provider and they still do not serve together, that is the step ``combination``.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget, always_combine
from placement_sched.candidates.explain.advice import TreeAdvice
from placement_sched.candidates.explain.combination import BrokenRule, TreeNames, broken_rules
from placement_sched.candidates.explain.near_misses import explanation_budget, near_misses
from placement_sched.candidates.explain.reasons import Reasons, names_of, rejections
from placement_sched.candidates.explain.stages import CheckedTrees
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Rules, tree_search
from placement_sched.candidates.search import Search, limiting_option
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.errors import TooComplex
from placement_sched.model import explanation as reports
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.verdict import Remedy
from placement_sched.settings import Settings
from placement_sched.store.compute.compute_nodes import NodeNames

_TOGETHER = "no providers serve all groups and classes together"
#: The host and the node of a tree, which has its own name if it has no compute node.
_Names = tuple[str, str]


class SearchRun(NamedTuple):
    """A search to explain, and what it found. ``names`` are those of compute nodes."""

    connection: Connection
    source: ProviderSource
    search: Search
    found: Candidates
    settings: Settings
    names: NodeNames

    @property
    def rules(self) -> Rules:
        """Return what must hold for a combination of providers."""
        return tree_search(self.search.query, self.search.names).rules

    @property
    def taken(self) -> set[str]:
        """Return the uuids of the roots that have candidates."""
        return {request.root_uuid for request in self.found.requests}

    def limit_step(self, before: int) -> reports.StepReport:
        """Return the step of the hosts that a limit cut, of so many that would serve."""
        after = len(self.taken)
        limited = self.found.limited
        option = limiting_option(self.search.query.limit, self.settings) if limited else None
        return reports.StepReport("limit", str(after), before, after, option=option)

    def cut_step(self) -> reports.StepReport:
        """Return the step by which a limit cut a tree that serves."""
        step = self.limit_step(1)
        reason = "it changed while the request was evaluated; try again"
        changes: tuple[Remedy, ...] = ()
        if self.found.limited:
            limit = f"the limit of {step.detail} hosts"
            if self.settings.placement.randomize_allocation_candidates:
                limit += ", drawn at random"
            reason = f"fits, but was cut by {limit}, set by {step.option}"
            words = f"raise {step.option}, or name the host in the request"
            changes = (Remedy("raise_option", words, {"option": step.option}),)
        rejected = reports.Rejected("", "", reason, changes)
        return replace(step, before=1, after=0, rejected=(rejected,))


class _Trees:
    """The trees of a search, checked, with the names of their hosts and nodes."""

    def __init__(self, run: SearchRun, roots: Collection[int] | None = None) -> None:
        self.run = run
        self.checked = CheckedTrees.of(run.source, run.search, roots)
        self.known = run.names.current(run.connection)
        self._others: dict[int, _Names] = {}

    def name(self, trees: Sequence[int]) -> list[_Names]:
        """Return host and node of some trees; names of roots without a compute node are read."""
        uuids = self.checked.uses.root_uuids[list(trees)].tolist()
        found = list(map(self.known.get, uuids))
        lacking = [tree for tree, one in zip(trees, found, strict=True) if one is None]
        if new := [tree for tree in lacking if tree not in self._others]:
            ids = self.checked.uses.root_ids
            names = names_of(self.run.connection, [int(ids[tree]) for tree in new])
            for tree in new:
                name = names.get(int(ids[tree]), "")
                self._others[tree] = (name, name)
        return [
            self._others[tree] if one is None else one
            for tree, one in zip(trees, found, strict=True)
        ]

    def counted(self) -> NDArray[np.bool_]:
        """Return which trees count: not those of sharing providers alone."""
        uses, taken = self.checked.uses, self.run.taken
        counted = ~uses.has_sharing_root
        for tree in np.flatnonzero(uses.has_sharing_root).tolist():
            uuid = uses.root_uuids[tree]
            counted[tree] = uuid in self.known or uuid in taken
        return counted

    def shown(self, trees: Sequence[int], view: reports.View) -> list[tuple[int, _Names]]:
        """Return the trees that a view shows, by host and node."""
        named = sorted(zip(self.name(trees), trees, strict=True))
        some = [(tree, name) for name, tree in named if view.hosts is None or view.shows(*name)]
        return some[: view.max_rejected or None]

    def serving(self, standing: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these trees serve: their providers may be combined.

        Trees that the search found serve. Others are tried if a limit cut them; which of them could
        not be tried in time counts as serving.
        """
        uses, run = self.checked.uses, self.run
        if run.search.is_single or (run.found.limited and always_combine(run.rules)):
            return np.ones(len(standing), np.bool_)
        taken = run.taken
        serves = np.array([uuid in taken for uuid in uses.root_uuids[standing]], np.bool_)
        if run.found.limited and not serves.all():
            untried = standing[~serves]
            rejected = self.rejected(uses.root_ids[untried].tolist())
            serves[~serves] = [key not in rejected for key in uses.root_ids[untried].tolist()]
        return serves

    def rejected(self, roots: Sequence[int]) -> set[int]:
        """Return the roots of trees whose providers do not serve together."""
        rejected = set()
        trees = self.combinable(roots)
        try:
            budget = explanation_budget(self.run.settings, len(roots))
            for root, serves in trees.check(budget):
                if not serves:
                    rejected.add(root)
        except TooComplex:
            pass
        return rejected

    def near_misses(self) -> reports.NearMisses:
        """Return the nearest misses among the trees without candidates that count."""
        uses, run = self.checked.uses, self.run
        counts, taken = self.counted(), run.taken
        counts &= np.array([uuid not in taken for uuid in uses.root_uuids], np.bool_)
        budget = explanation_budget(run.settings, int(counts.sum()))
        left_out = set(uses.root_ids[~counts].tolist())
        return near_misses(run.source, run.search, self.checked, budget, left_out)

    def combines(self, advice: TreeAdvice) -> bool:
        """Return whether a tree is known to serve after the first change of each reason."""
        if always_combine(self.run.rules):
            return True
        budget = explanation_budget(self.run.settings, 1, shares=len(self.checked.uses))
        try:
            return advice.combines(self.run.rules, budget)
        except TooComplex:
            return False

    def combinable(self, roots: Sequence[int]) -> ProviderTrees:
        """Return these trees, which have a provider for each slot."""
        search = tree_search(self.run.search.query, self.run.search.names)
        # Not bounded: no more is read than was looked at already, when the trees were checked.
        return TreeReader(self.run.source, search, Budget(0), for_explanation=True).read(roots)

    def combination_step(
        self,
        trees: Sequence[tuple[int, _Names]],
        before: int,
        after: int,
        *,
        with_changes: bool = False,
    ) -> reports.StepReport:
        """Return the step of trees whose providers do not serve together."""
        uses = self.checked.uses
        combinable = self.combinable([int(uses.root_ids[tree]) for tree, _ in trees])
        names = names_of(
            self.run.connection,
            {key for tree, _ in trees for key in uses.ids[uses.of_tree(tree)].tolist()},
        )
        classes = self.run.search.names.class_names
        numbers = {root: number for number, root in enumerate(combinable.roots.tolist())}
        rejected = []
        for tree, (host, node) in trees:
            # Each has a share, so that a difficult tree leaves the others their reasons.
            budget = explanation_budget(self.run.settings, len(trees), shares=len(trees))
            number = numbers.get(int(uses.root_ids[tree]))
            broken: list[BrokenRule] = []
            if number is not None:
                called = TreeNames(classes, [names.get(key) for key in combinable.ids_of(number)])
                whole = combinable.tree(number, with_all_free=True)
                with suppress(TooComplex):
                    broken = list(broken_rules(whole, self.run.rules, called, budget))
            reason = "; ".join(one.reason for one in broken) or _TOGETHER
            found = (one.change() for one in broken) if with_changes else ()
            changes = tuple(change for change in found if change)
            rejected.append(reports.Rejected(host, node, reason, changes))
        detail = _named_rules(self.run.search)
        return reports.StepReport("combination", detail, before, after, tuple(rejected))


def explain(run: SearchRun, view: reports.View) -> reports.CandidatesReport:
    """Return what every constraint of a search removed; each tree counts for the first only.

    Further trees than were found, which serve the request as well, were cut by the limit, which is
    then the last step. A root without a compute node is named by its own name.
    """
    trees = _Trees(run)
    checked, counts = trees.checked, trees.counted()
    outcomes, _ = checked.outcomes()
    shown = []
    number = before = int(counts.sum())
    sizes = []
    standing = counts
    for outcome in outcomes:
        gone = outcome.rejected[counts[outcome.rejected]]
        standing[gone] = False
        sizes.append((before, before - len(gone)))
        before -= len(gone)
        shown.append((outcome, trees.shown(gone.tolist(), view)))
    every = [
        (outcome, rejections(checked, outcome, [tree for tree, _ in some]))
        for outcome, some in shown
    ]
    words = Reasons.of(run.connection, run.source, run.search, checked, every)
    steps = []
    for (outcome, some), (_, named), size in zip(every, shown, sizes, strict=True):
        rejected = tuple(
            reports.Rejected(host, node, words.reason(outcome, one))
            for one, (_, (host, node)) in zip(some, named, strict=True)
        )
        stage = outcome.stage
        steps.append(reports.StepReport(stage.kind, stage.detail, *size, rejected))
    left = np.flatnonzero(standing)
    serves = trees.serving(left)
    after = int(serves.sum())
    if after < before:
        apart = trees.shown(left[~serves].tolist(), view)
        steps.append(trees.combination_step(apart, before, after))
    taken = run.taken
    if len(taken) < after:
        steps.append(run.limit_step(after))
    misses = reports.NearMisses() if taken or after else trees.near_misses()
    return reports.CandidatesReport(
        query=run.search.query.querystring(),
        providers=number,
        hosts=len(taken),
        steps=tuple(steps),
        nearest_misses=misses,
    )


class TreeRejection(NamedTuple):
    """The steps that reject a tree.

    ``is_certain``: after the first change of each reason its providers serve together.
    """

    steps: tuple[reports.StepReport, ...]
    is_certain: bool = True


def each_refusal(run: SearchRun, roots: Collection[str]) -> dict[str, TreeRejection]:
    """Return each step that rejects a tree, by the uuid of its root, for those rejected.

    The steps are those of :func:`explain`, evaluated for these trees alone, also those after the
    first that rejects a tree: a tree that a constraint rejects goes on as if it were not requested.
    Only trees with providers left by every constraint are combined. The last step is ``limit`` if
    no other rejects the tree.
    """
    out = set(roots) - run.taken
    if not out:
        return {}
    trees = _Trees(run, list(run.source.ids_of(out).values()))
    checked, uses = trees.checked, trees.checked.uses
    outcomes, left = checked.outcomes(relaxed=True)
    every = [(one, rejections(checked, one, one.rejected.tolist())) for one in outcomes]
    words = Reasons.of(run.connection, run.source, run.search, checked, every, range(len(uses.ids)))
    names = trees.name(range(len(uses)))
    steps: dict[int, list[reports.StepReport]] = {tree: [] for tree in range(len(uses))}
    advice: dict[int, TreeAdvice] = {}
    for outcome, some in every:
        stage = outcome.stage
        for one in some:
            tree = one.tree
            if tree not in advice:
                mine = [other for other in outcomes if tree in other.rejected]
                advice[tree] = TreeAdvice(words, tree, mine, left)
            changes = advice[tree].changes(outcome, one)
            rejected = reports.Rejected(*names[tree], words.reason(outcome, one), changes)
            steps[tree].append(reports.StepReport(stage.kind, stage.detail, 1, 0, (rejected,)))
    uncertain = {tree for tree, one in advice.items() if not trees.combines(one)}
    whole = np.array([tree for tree, some in steps.items() if not some], np.int64)
    if not run.search.is_single and len(whole):
        rejected_roots = trees.rejected(uses.root_ids[whole].tolist())
        for tree in whole.tolist():
            if int(uses.root_ids[tree]) in rejected_roots:
                step = trees.combination_step([(tree, names[tree])], 1, 0, with_changes=True)
                steps[tree].append(step)
    uuids = uses.root_uuids.tolist()
    return {
        uuids[tree]: TreeRejection(tuple(some) or (run.cut_step(),), tree not in uncertain)
        for tree, some in steps.items()
    }


def first_steps(run: SearchRun) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield each step of :func:`explain` that removes nodes, by kind and detail, with these.

    They are uuids; there are no reasons, which are what costs most of an explanation.
    """
    trees = _Trees(run)
    outcomes, _ = trees.checked.outcomes()
    uuids, standing = trees.checked.uses.root_uuids, np.ones(len(trees.checked.uses), np.bool_)
    steps = [((one.stage.kind, one.stage.detail), one.rejected) for one in outcomes]
    for _, gone in steps:
        standing[gone] = False
    left = np.flatnonzero(standing)
    if len(left):
        combination = ("combination", _named_rules(run.search))
        steps.append((combination, left[~trees.serving(left)]))
    for name, gone in steps:
        if some := [uuid for uuid in uuids[gone].tolist() if uuid in trees.known]:
            yield name, some


def near_misses_of(run: SearchRun) -> reports.NearMisses:
    """Return the nearest misses among the trees without candidates, whether or not others have.

    None of a search in trees that a limit cut: which of those without candidates would serve as
    they are is not known.
    """
    if run.found.limited and not run.search.is_single:
        return reports.NearMisses()
    return _Trees(run).near_misses()


def _named_rules(search: Search) -> str:
    query = search.query
    rules = ["group_policy=isolate"] if query.isolates else []
    rules += [f"same_subtree={','.join(suffixes)}" for suffixes in query.same_subtrees]
    return " ".join(rules)
