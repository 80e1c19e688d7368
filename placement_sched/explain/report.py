# SPDX-License-Identifier: Apache-2.0
"""Explanation of a candidate search: rejected trees and nearest misses.

An explanation has a step for each constraint, with the number of trees before and after. A tree
whose root is a sharing provider without a compute node counts only if it has candidates. If every
slot of a tree has a provider but the providers do not serve together, the step ``combination``
rejects the tree. :mod:`placement_sched.explain.stages` defines uses.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from placement_sched.candidates.columns import Mask
from placement_sched.candidates.combine import (
    FreeCapacity,
    ProviderTree,
    WorkBudget,
    can_always_combine,
    can_serve,
)
from placement_sched.candidates.constraints import Constraint
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Rules, Search
from placement_sched.candidates.search import find_limiting_option
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.explain import values as reports
from placement_sched.explain.near_misses import (
    BrokenRule,
    TreeNames,
    build_explanation_budget,
    find_broken_rules,
    find_near_misses,
)
from placement_sched.explain.stages import (
    CheckedTrees,
    Reasons,
    Rejection,
    Stage,
    StageOutcome,
    build_rejections,
    format_rules,
    read_names,
)
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.provider import MAX_INT, Inventory, matches_units
from placement_sched.model.rejection import SuggestedChange
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

#: Units of the amounts of a resource class.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}
#: Actions that change the request, not the cloud.
OF_REQUEST = frozenset({"ask", "ask_traits", "drop_constraint"})
_TOGETHER = "no providers serve all request groups and resource classes together"
#: Host and node of a tree. Without a compute node, both are the name of the root.
_Names = tuple[str, str]


def suggest_changes(
    constraint: Constraint,
    inventory: UsedInventory | None,
    inventories: Collection[UsedInventory],
    *,
    provider: str | None = None,
    has_single_target: bool = True,
    memberships: Collection[str] = (),
) -> tuple[SuggestedChange, ...]:
    """Suggest alternative changes that each make a provider meet a constraint.

    The changes are for the host or, if ``provider`` is set, for this provider. ``inventory`` is the
    provider's inventory of the resource class, and ``memberships`` are its aggregates.
    ``inventories`` are the inventories of all providers that may serve. If several providers must
    change (no ``has_single_target``), only changes of the request are returned.
    """
    if constraint.resource_class:
        name, amount = constraint.resource_class, constraint.amount
        changes = _advise_amount(name, amount, inventory, inventories, provider)
    elif constraint.kind == "member_of":
        changes = _advise_membership(constraint.detail, provider, memberships)
    else:
        changes = _ADVISE_BY_KIND[constraint.kind](constraint.detail, provider)
    return tuple(change for change in changes if has_single_target or change.action in OF_REQUEST)


def find_largest_below(used_inventory: UsedInventory, requested: int) -> int:
    """Return the largest fitting amount below ``requested``, or 0."""
    inventory = used_inventory.inventory
    largest = min(inventory.capacity - used_inventory.used, inventory.max_unit, requested - 1)
    largest -= largest % inventory.step_size
    return largest if largest >= max(inventory.min_unit, 1) else 0


def find_smallest_above(used_inventory: UsedInventory, requested: int) -> int:
    """Return the smallest fitting amount above ``requested``, or 0."""
    inventory = used_inventory.inventory
    smallest = max(inventory.min_unit, requested + 1)
    smallest += -smallest % inventory.step_size
    largest = min(inventory.capacity - used_inventory.used, inventory.max_unit)
    return smallest if smallest <= largest else 0


def _advise_amount(
    name: str,
    amount: int,
    inventory: UsedInventory | None,
    inventories: Collection[UsedInventory],
    provider: str | None,
) -> Iterator[SuggestedChange]:
    values = _build_values(provider, resource_class=name)
    if inventory is None:
        words = f"give {provider or 'it'} an inventory of at least {_format_amount(name, amount)}"
        yield SuggestedChange("add_inventory", words, {**values, "total": amount})
    else:
        yield _advise_inventory(name, amount, inventory, provider)
    values = {"resource_class": name}
    if largest := max((find_largest_below(item, amount) for item in inventories), default=0):
        words = f"request at most {_format_amount(name, largest)}"
        yield SuggestedChange("ask", words, {**values, "amount": largest, "instead_of": amount})
    larger = [fitting for item in inventories if (fitting := find_smallest_above(item, amount))]
    if larger:
        words = f"request at least {_format_amount(name, min(larger))}"
        yield SuggestedChange("ask", words, {**values, "amount": min(larger), "instead_of": amount})


def _build_values(provider: str | None, **values: Any) -> dict[str, Any]:
    return values if provider is None else {**values, "provider": provider}


def _advise_inventory(
    name: str, amount: int, used_inventory: UsedInventory, provider: str | None
) -> SuggestedChange:
    inventory = used_inventory.inventory
    values, parts = _build_values(provider, resource_class=name), []
    changed: dict[str, Any] = dict(values)
    action = "set_inventory"
    missing = amount - (inventory.capacity - used_inventory.used)
    if missing > 0:
        if amount <= inventory.capacity:
            action, changed["amount"] = "free", missing
            parts.append(f"free {_format_amount(name, missing)}")
        else:
            action, changed["amount"] = "add_capacity", missing
            parts.append(f"add capacity for {_format_amount(name, missing)}")
    units = _find_unit_changes(inventory, amount)
    if units:
        parts.append("set " + " and ".join(f"{key} of {name} to {n}" for key, n in units.items()))
    location = f" on {provider}" if provider else ""
    return SuggestedChange(action, " and ".join(parts) + location, {**changed, **units})


def _find_unit_changes(inventory: Inventory, requested: int) -> dict[str, int]:
    """Return fitting values of the unit fields that reject an amount."""
    if matches_units(inventory, requested):
        return {}
    fitting_values = {
        "min_unit": min(inventory.min_unit, requested),
        "max_unit": max(inventory.max_unit, requested),
        "step_size": inventory.step_size if requested % inventory.step_size == 0 else 1,
    }
    return {key: value for key, value in fitting_values.items() if value != getattr(inventory, key)}


def _format_amount(name: str, amount: int) -> str:
    return f"{amount}{_UNITS.get(name, '')} of {name}"


def _advise_trait(detail: str, provider: str | None) -> Iterator[SuggestedChange]:
    if detail.startswith("!"):
        name = detail.removeprefix("!")
        words = f"remove trait {name} from {provider or 'its provider'}"
        yield SuggestedChange("remove_trait", words, _build_values(provider, traits=[name]))
        words = f"do not forbid trait {name}"
    else:
        traits = detail.removeprefix("in:").split(",")
        named = " or ".join(traits)
        words = f"give {provider or 'its provider'} trait {named}"
        yield SuggestedChange("add_trait", words, _build_values(provider, traits=traits))
        words = f"do not require trait {named}"
    yield SuggestedChange("drop_constraint", words, {"constraint": "required", "detail": detail})


def _advise_membership(
    detail: str, provider: str | None, memberships: Collection[str]
) -> Iterator[SuggestedChange]:
    """Suggest changes with empty ``words``, which the caller fills in."""
    uuids = detail.removeprefix("!").removeprefix("in:").split(",")
    if detail.startswith("!"):
        uuids = [uuid for uuid in uuids if uuid in memberships] or uuids
        yield SuggestedChange("leave_aggregate", "", _build_values(provider, aggregates=uuids))
        yield SuggestedChange("ask_traits", "", {"aggregates": uuids})
    else:
        yield SuggestedChange("join_aggregate", "", _build_values(provider, aggregates=uuids))
        yield SuggestedChange("drop_constraint", "", {"constraint": "member_of", "detail": detail})


def _advise_tree(detail: str, _provider: str | None) -> Iterator[SuggestedChange]:
    words = "name this host in the request, or no host"
    yield SuggestedChange("drop_constraint", words, {"constraint": "in_tree", "detail": detail})


_ADVISE_BY_KIND = {
    "required": _advise_trait,
    "root_required": _advise_trait,
    "in_tree": _advise_tree,
}


@dataclass(frozen=True)
class TreeAdvice:
    """Suggested changes for a tree that the stages in ``outcomes`` reject.

    ``remaining`` has a mask for each slot: the uses of providers (:class:`TreeUses`) that remain if
    the constraints that reject the tree are ignored.
    """

    reasons: Reasons
    tree: int
    outcomes: Sequence[StageOutcome]
    remaining: Sequence[Mask]

    @cached_property
    def root(self) -> int:
        """Return the index of the use of the root (see :class:`TreeUses`)."""
        return int(self.reasons.checked.uses.root_uses[self.tree])

    @cached_property
    def targets(self) -> Mapping[int, int]:
        """Map each slot to the use whose provider needs the smallest change."""
        chosen: dict[int, int] = {}
        for slot in range(len(self.remaining)):
            shortages = [
                outcome
                for outcome in self._find_outcomes(slot)
                if outcome.stage.constraint.resource_class
            ]

            def measure(use: int, stages: Sequence[StageOutcome] = shortages) -> tuple[int, ...]:
                amounts = [self._compute_missing_amount(outcome, use) for outcome in stages]
                return (
                    amounts.count(None),
                    sum(amount or 0 for amount in amounts),
                    use not in chosen.values(),
                    bool(self.reasons.checked.uses.is_shared[use]),
                    use != self.root,
                    use,
                )

            chosen[slot] = min(self._find_uses(slot), key=measure, default=self.root)
        return chosen

    def _find_outcomes(self, slot: int) -> list[StageOutcome]:
        return [item for item in self.outcomes if slot in item.list_failing_slots(self.tree)]

    def _compute_missing_amount(self, outcome: StageOutcome, use: int) -> int | None:
        inventory = self.reasons.find_inventory(outcome, use)
        if inventory is None:
            return None
        amount = outcome.stage.constraint.amount
        return max(amount - inventory.inventory.capacity + inventory.used, 0)

    def _find_uses(self, slot: int) -> list[int]:
        whole = self.reasons.checked.uses.get_slice(self.tree)
        return list((np.flatnonzero(self.remaining[slot][whole]) + whole.start).tolist())

    def suggest(self, outcome: StageOutcome, rejection: Rejection) -> tuple[SuggestedChange, ...]:
        """Suggest alternative changes that each let the tree pass a stage."""
        stage, target = outcome.stage, self._find_target(outcome, rejection)
        inventories: list[UsedInventory] = []
        own = None
        if stage.constraint.resource_class and target is not None:
            slots = outcome.list_failing_slots(self.tree)
            uses = sorted({use for slot in slots for use in self._find_uses(slot)})
            inventories = [
                item for use in uses if (item := self.reasons.find_inventory(outcome, use))
            ]
            own = self.reasons.find_inventory(outcome, target)
        is_plain = target == self.root and len(inventories) < 2
        key = -1 if target is None else int(self.reasons.checked.uses.ids[target])
        return suggest_changes(
            stage.constraint,
            own,
            inventories,
            provider=None if target is None or is_plain else self.reasons.get_name(target),
            has_single_target=target is not None,
            memberships=self.reasons.memberships.get(key, frozenset()),
        )

    def _find_target(self, outcome: StageOutcome, rejection: Rejection) -> int | None:
        """Return the index of the use that must change, None for several uses."""
        stage, slots = outcome.stage, outcome.list_failing_slots(self.tree)
        if stage.is_on_root:
            return self.root
        if stage.any_provider_suffices:
            return self._find_trait_target(stage)
        if not slots:  # the tree would lose a provider with a required trait
            uses = set(rejection.uses)
            return self.root if self.root in uses else min(uses)
        uses = {self.targets[slot] for slot in slots}
        own_failures = self.reasons.checked.own_failures.get(stage.index)
        if own_failures is not None:
            uses = {use if own_failures[use] else self.root for use in uses}
        return uses.pop() if len(uses) == 1 else None

    def _find_trait_target(self, stage: Stage) -> int:
        uses = {self.targets[slot] for slot in stage.slots}
        return self.root if self.root in uses else min(uses)

    def combines(self, rules: Rules, budget: WorkBudget) -> bool:
        """Return whether the first changes for all stages let the tree serve.

        If the result is False, the tree may still serve after the changes. Raises
        :class:`TooComplex` if the budget is exceeded.
        """
        if rules.subtrees:
            return False
        options = [
            (self.targets[slot],) if self._find_outcomes(slot) else tuple(self._find_uses(slot))
            for slot in range(len(self.remaining))
        ]
        stages = [stage for stage in self.reasons.checked.stages if stage.any_provider_suffices]
        choices = tuple(frozenset({number}) for number in range(len(stages)))
        tree = ProviderTree(
            tuple(options), self._estimate_free(options, rules), self._covers(options, stages)
        )
        return can_serve(tree, replace(rules, trait_choices=choices), budget)

    def _covers(
        self, options: Sequence[Sequence[int]], stages: Sequence[Stage]
    ) -> Mapping[int, int]:
        """Map each use to the stages that it meets after the changes, as bits."""
        covers: dict[int, int] = defaultdict(int)
        met, rejecting = (self.reasons.checked.met, {item.stage.index for item in self.outcomes})
        for bit, stage in enumerate(stages):
            for use in {use for slot_uses in options for use in slot_uses}:
                covers[use] |= int(met[stage.index, use]) << bit
            if stage.index in rejecting:
                covers[self._find_trait_target(stage)] |= 1 << bit
        return covers

    def _estimate_free(
        self, options: Sequence[Sequence[int]], rules: Rules
    ) -> Mapping[InventoryIds, FreeCapacity]:
        """Return a lower bound of free capacity after the suggested changes.

        Each key is a pair of the index of a use and a class id.
        """
        free: dict[InventoryIds, FreeCapacity] = {}
        for slot, use, class_id, amount in _yield_amounts(options, rules):
            provider_id = int(self.reasons.checked.uses.ids[use])
            inventory = self.reasons.inventories.get((provider_id, class_id))
            unused = inventory.inventory.capacity - inventory.used if inventory else 0
            max_unit = inventory.inventory.max_unit if inventory else MAX_INT
            if self._find_outcomes(slot):
                unused, max_unit = max(unused, amount), max(max_unit, amount)
            old = free.get((use, class_id), FreeCapacity(unused, max_unit))
            free[use, class_id] = FreeCapacity(max(old.amount, unused), max(old.max_unit, max_unit))
        return free


def _yield_amounts(
    options: Sequence[Sequence[int]], rules: Rules
) -> Iterator[tuple[int, int, int, int]]:
    for index, (uses, slot) in enumerate(zip(options, rules.slots, strict=True)):
        for use in uses:
            for class_id, amount in slot.amounts:
                yield index, use, class_id, amount


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
        return reports.StepReport("limit", str(after), before, after, option=option)

    def build_cut_step(self) -> reports.StepReport:
        """Build the step for a tree that can serve but has no candidates."""
        step = self.build_limit_step(1)
        reason = "it changed while the request was evaluated. Try again"
        changes: tuple[SuggestedChange, ...] = ()
        if self.candidates.limited:
            limit = f"the limit of {step.detail} hosts"
            if self.settings.placement.randomize_allocation_candidates:
                limit += ", drawn at random"
            reason = f"fits, but was cut by {limit}, set by {step.option}"
            words = f"raise {step.option}, or name the host in the request"
            changes = (SuggestedChange("raise_option", words, {"option": step.option}),)
        rejected = reports.Rejected("", "", reason, changes)
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
            names = read_names(self.run.connection, [int(ids[tree]) for tree in unloaded])
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
        names = read_names(
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
            reason = "; ".join(rule.reason for rule in broken) or _TOGETHER
            suggestions = (rule.change() for rule in broken) if with_changes else ()
            changes = tuple(change for change in suggestions if change)
            rejected.append(reports.Rejected(host, node, reason, changes))
        detail = format_rules(self.run.search)
        return reports.StepReport("combination", detail, before, after, tuple(rejected))


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
        if outcome.stage.kind == "resources":
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
            reports.Rejected(host, node, reasons.describe_rejection(outcome, rejection))
            for rejection, (_, (host, node)) in zip(in_stage, named, strict=True)
        )
        stage = outcome.stage
        steps.append(reports.StepReport(stage.kind, stage.detail, *size, rejected))
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


class TreeRejection(NamedTuple):
    """The steps that reject a tree.

    ``is_certain`` is false if the providers of the tree may not serve together even after the first
    change of each reason.
    """

    steps: tuple[reports.StepReport, ...]
    is_certain: bool = True


def map_rejections_by_root(run: SearchRun, roots: Collection[str]) -> dict[str, TreeRejection]:
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
        stage = outcome.stage
        for rejection in tree_rejections:
            tree = rejection.tree
            if tree not in advice:
                rejecting = [item for item in outcomes if tree in item.rejected]
                advice[tree] = TreeAdvice(reasons, tree, rejecting, remaining)
            changes = advice[tree].suggest(outcome, rejection)
            rejected = reports.Rejected(
                *names[tree], reasons.describe_rejection(outcome, rejection), changes
            )
            steps[tree].append(reports.StepReport(stage.kind, stage.detail, 1, 0, (rejected,)))
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
        uuids[tree]: TreeRejection(tuple(entries or [run.build_cut_step()]), tree not in uncertain)
        for tree, entries in steps.items()
    }


def iterate_steps(run: SearchRun) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield each step of :func:`explain` that rejects compute nodes.

    A step is a pair of kind and detail, followed by the uuids of the rejected nodes. Reasons, which
    are the expensive part of an explanation, and the step ``limit`` are left out.
    """
    trees = _Trees(run)
    outcomes, _ = trees.checked.evaluate_stages()
    uuids, is_remaining = trees.checked.uses.root_uuids, np.ones(len(trees.checked.uses), np.bool_)
    steps = [((outcome.stage.kind, outcome.stage.detail), outcome.rejected) for outcome in outcomes]
    for _, removed in steps:
        is_remaining[removed] = False
    remaining = np.flatnonzero(is_remaining)
    if len(remaining):
        combination = ("combination", format_rules(run.search))
        steps.append((combination, remaining[~trees.can_serve(remaining)]))
    for name, removed in steps:
        if nodes := [uuid for uuid in uuids[removed].tolist() if uuid in trees.node_names]:
            yield name, nodes


def list_near_misses(run: SearchRun) -> reports.NearMisses:
    """Return the nearest misses among trees without candidates.

    A search that finds candidates may also have nearest misses. If a limit cut a search that
    combines providers, the result is empty, since trees without candidates may serve unchanged.
    """
    if run.candidates.limited and not run.search.is_single_provider:
        return reports.NearMisses()
    return _Trees(run).find_near_misses()
