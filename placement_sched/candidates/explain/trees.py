"""Report what each constraint of a search removed where trees, sharing or groups combine.

Counted are trees. Group by group and constraint by constraint, each slot of the request loses the
providers that do not meet it; a tree counts for the first constraint that leaves a slot without
any. Where every slot has a provider and they still do not serve together, that is the step
``combination``. The conditions, trees and combinations are those of the search.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget, ProviderTree, Rules, check_trees
from placement_sched.candidates.explain import stages
from placement_sched.candidates.explain.changes import changes_of
from placement_sched.candidates.explain.combination import TreeNames, broken_rules
from placement_sched.candidates.explain.near_misses import explanation_budget, near_misses
from placement_sched.candidates.explain.single_provider import RejectedProvider
from placement_sched.candidates.explain.stages import CheckedTree, Stage
from placement_sched.candidates.from_database import DatabaseProviders
from placement_sched.candidates.search import Search, limiting_option
from placement_sched.candidates.single_provider import ids_of
from placement_sched.candidates.slots import tree_search
from placement_sched.candidates.source import ProviderSource
from placement_sched.candidates.tree_loader import TreeLoader
from placement_sched.errors import TooComplex
from placement_sched.model.placement.candidate import Candidates
from placement_sched.model.results import stages as reports
from placement_sched.model.verdict import Remedy
from placement_sched.settings import Settings
from placement_sched.store.placement.capacity import UsedInventory

_Gone = TypeVar("_Gone", CheckedTree, RejectedProvider)

#: How many providers of a tree a reason names.
_NAMED = 3
_TOGETHER = "no providers serve all groups and classes together"


class SearchRun(NamedTuple):
    """A search to explain, and what it found."""

    connection: Connection
    source: ProviderSource
    search: Search
    found: Candidates
    settings: Settings

    @property
    def rules(self) -> Rules:
        """Return what must hold for a combination of providers."""
        return tree_search(self.search.query, self.search.names).rules

    def limit_step(self, before: int) -> reports.StepReport:
        """Return the step of the hosts that a limit cut out of so many that would serve."""
        after = len({request.root_uuid for request in self.found.requests})
        limited = self.found.limited
        option = limiting_option(self.search.query.limit, self.settings) if limited else None
        return reports.StepReport("limit", str(after), before, after, option=option)

    def or_limit(
        self, steps: Mapping[str, Sequence[reports.StepReport]]
    ) -> dict[str, tuple[reports.StepReport, ...]]:
        """Return the steps by root; where there are none, the limit that cut a tree that serves."""
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
        cut = replace(step, before=1, after=0, rejected=(rejected,))
        return {uuid: tuple(some) or (cut,) for uuid, some in steps.items()}


def explain_trees(run: SearchRun, view: reports.View) -> reports.CandidatesReport:
    """Return what every constraint of ``search`` removed; each tree counts for the first only."""
    trees = standing = stages.checked_trees(run.connection, run.search)
    steps: list[reports.StepReport] = []
    for stage in stages.stages_of(run.search):
        left = {tree.root.id: after for tree in standing if (after := tree.after(stage))}
        gone = shown([tree for tree in standing if tree.root.id not in left], view)
        reasons = tuple(_reasons(run, stage, gone))
        steps.append(
            reports.StepReport(stage.kind, stage.detail, len(standing), len(left), reasons)
        )
        standing = list(left.values())
    taken = {request.root_uuid for request in run.found.requests}
    whole = _whole(run, standing)
    served = {tree.root.id for tree in standing if tree.uuid in taken and tree.root.id in whole}
    if run.found.limited:
        served |= _also_serving(run, whole, served)
    if len(served) < len(standing):
        gone = shown([tree for tree in standing if tree.root.id not in served], view)
        reasons = tuple(_combination_reasons(run, whole, gone))
        rules = _named_rules(run.search)
        steps.append(reports.StepReport("combination", rules, len(standing), len(served), reasons))
    if len(taken) < len(served):
        steps.append(run.limit_step(len(served)))
    nearest = reports.NearMisses()
    if not taken:
        budget = explanation_budget(run.settings, len(trees))
        nearest = near_misses(run.connection, run.search, trees, budget)
    return reports.CandidatesReport(
        query=run.search.query.querystring(),
        providers=len(trees),
        hosts=len(taken),
        steps=tuple(steps),
        nearest_misses=nearest,
    )


def tree_rejections(
    run: SearchRun, roots: Collection[str]
) -> dict[str, tuple[reports.StepReport, ...]]:
    """Return each step that rejects these trees, by the uuid of the root.

    A tree that a constraint leaves without a provider goes on as it was before: later constraints
    are evaluated as if that one were not requested. Only trees with providers left by every
    constraint are combined.
    """
    ids = ids_of(run.connection, roots)
    standing = stages.checked_trees(run.connection, run.search, list(ids.values()))
    steps: dict[str, list[reports.StepReport]] = {tree.uuid: [] for tree in standing}
    for stage in stages.stages_of(run.search):
        left = [(tree, tree.after(stage)) for tree in standing]
        gone = [tree for tree, after in left if after is None]
        for tree, reason in zip(gone, _reasons(run, stage, gone, with_changes=True), strict=True):
            steps[tree.uuid].append(reports.StepReport(stage.kind, stage.detail, 1, 0, (reason,)))
        standing = [after or tree for tree, after in left]
    whole = _whole(run, [tree for tree in standing if not steps[tree.uuid]])
    rejected = whole.keys() - _also_serving(run, whole, ())
    gone = [tree for tree in standing if tree.root.id in rejected]
    rules = _named_rules(run.search)
    reasons = _combination_reasons(run, whole, gone, with_changes=True)
    for tree, reason in zip(gone, reasons, strict=True):
        steps[tree.uuid].append(reports.StepReport("combination", rules, 1, 0, (reason,)))
    return run.or_limit(steps)


def shown(rejected: Iterable[_Gone], view: reports.View) -> list[_Gone]:
    """Return those rejected that a view shows."""
    some = [one for one in rejected if view.shows(one.host, one.node)]
    return some[: view.max_rejected or None]


def _reasons(
    run: SearchRun, stage: Stage, gone: Sequence[CheckedTree], *, with_changes: bool = False
) -> Iterator[reports.Rejected]:
    rooms: dict[int, UsedInventory] = {}
    if stage.constraint.resource_class and gone:
        ids = {provider.id for tree in gone for provider in tree.providers(stage)}
        rooms = stages.inventory_of(run.connection, stage.constraint, sorted(ids))
    for tree in gone:
        changes: tuple[Remedy, ...] = ()
        if with_changes:
            having = [rooms[one.id] for one in tree.providers(stage) if one.id in rooms]
            changes = changes_of(stage.constraint, having)
        yield reports.Rejected(tree.host, tree.node, _reason(stage, tree, rooms), changes)


def _reason(stage: Stage, tree: CheckedTree, rooms: Mapping[int, UsedInventory]) -> str:
    """Return why none of the providers that a tree had left meets a constraint.

    Amounts are those of the providers that have any of the class; one that is the root, or the
    only one left, is reported like a host without children.
    """
    if stage.of_root:
        return stage.constraint.refused
    left = tree.providers(stage)
    if not stage.constraint.resource_class:
        several = f"each of {len(left)} providers: " if len(left) > 1 else ""
        return several + stage.constraint.refused
    having = [provider for provider in left if provider.id in rooms] or list(left[:1])
    named = []
    for provider in having[:_NAMED]:
        words = stages.shortage(stage.constraint, rooms.get(provider.id))
        at_root = provider.id == tree.root.id or provider.id not in rooms
        named.append(words if at_root else f"{words} on {provider.name}")
    more = len(having) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _whole(run: SearchRun, standing: Sequence[CheckedTree]) -> Mapping[int, ProviderTree]:
    """Return the trees left, by root id, without those that lack a provider meanwhile."""
    search = tree_search(run.search.query, run.search.names)
    # Not bounded: no more is read than was looked at already, when the trees were checked.
    loader = TreeLoader(DatabaseProviders(run.connection), search, Budget(0), for_other_rules=True)
    return loader.read_trees([tree.root.id for tree in standing]).trees


def _also_serving(
    run: SearchRun, whole: Mapping[int, ProviderTree], served: Collection[int]
) -> set[int]:
    """Return the roots of trees cut by the limit that serve, or could not be tried in time."""
    untried = {root: tree for root, tree in whole.items() if root not in served}
    budget = explanation_budget(run.settings, len(whole))
    rejected = set()
    try:
        for root, serves in check_trees(untried, run.rules, budget):
            if not serves:
                rejected.add(root)
    except TooComplex:
        pass
    return untried.keys() - rejected


def _combination_reasons(
    run: SearchRun,
    whole: Mapping[int, ProviderTree],
    gone: Sequence[CheckedTree],
    *,
    with_changes: bool = False,
) -> Iterator[reports.Rejected]:
    for checked in gone:
        # Each has a share, so that a difficult tree leaves the others their reasons.
        budget = explanation_budget(run.settings, len(gone), shares=len(gone))
        tree = whole.get(checked.root.id)
        called = {one.id: one.name for slot in checked.slots for one in slot}
        names = TreeNames(run.search.names.class_names, called)
        try:
            broken = list(broken_rules(tree, run.rules, names, budget)) if tree else []
        except TooComplex:
            broken = []
        reason = "; ".join(one.reason for one in broken) or _TOGETHER
        found = (one.change() for one in broken) if with_changes else ()
        changes = tuple(change for change in found if change)
        yield reports.Rejected(checked.host, checked.node, reason, changes)


def _named_rules(search: Search) -> str:
    query = search.query
    rules = ["group_policy=isolate"] if query.isolates else []
    rules += [f"same_subtree={','.join(suffixes)}" for suffixes in query.same_subtrees]
    return " ".join(rules)
