"""Report what each constraint of a search removed, and which fewest constraints block it.

Counted are trees; a sharing provider without a compute node counts only if it serves. If every slot
of a tree has a provider and they still do not serve together, that is the step ``combination``.
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
    Budget,
    FreeCapacity,
    ProviderTree,
    always_combine,
    can_serve,
)
from placement_sched.candidates.constraints import Constraint
from placement_sched.candidates.explain_stages import (
    CheckedTrees,
    Reasons,
    Rejection,
    Stage,
    StageOutcome,
    names_of,
    rejections,
)
from placement_sched.candidates.near_misses import (
    BrokenRule,
    TreeNames,
    broken_rules,
    explanation_budget,
    near_misses,
)
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Rules, tree_search
from placement_sched.candidates.search import Search, limiting_option
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model import explanation as reports
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.provider import MAX_INT, Inventory, obeys_units
from placement_sched.model.verdict import Remedy
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

#: In what amounts of a class are counted.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}


def changes_of(
    constraint: Constraint,
    room: UsedInventory | None,
    rooms: Collection[UsedInventory],
    *,
    provider: str | None = None,
    alone: bool = True,
    memberships: Collection[str] = (),
) -> tuple[Remedy, ...]:
    """Return the changes of which each is enough.

    They are about the host, or about the ``provider`` of this name, which has ``room`` of a
    resource class. ``rooms`` are what all providers have that may serve. Unless ``alone`` it is not
    enough to change one provider: only changes of the request are returned. ``memberships`` are the
    aggregates that the provider is in.
    """
    if constraint.resource_class:
        name, amount = constraint.resource_class, constraint.amount
        every = _of_amount(name, amount, room, rooms, provider)
    elif constraint.kind == "member_of":
        every = _of_membership(constraint.detail, provider, memberships)
    else:
        every = _OF_KIND[constraint.kind](constraint.detail, provider)
    return tuple(one for one in every if alone or one.action in OF_REQUEST)


def largest_below(room: UsedInventory, asked: int) -> int:
    """Return the largest amount below ``asked`` that fits into what is free, 0 for none."""
    inventory = room.inventory
    most = min(inventory.capacity - room.used, inventory.max_unit, asked - 1)
    most -= most % inventory.step_size
    return most if most >= max(inventory.min_unit, 1) else 0


def smallest_above(room: UsedInventory, asked: int) -> int:
    """Return the smallest amount above ``asked`` that fits into what is free, 0 for none."""
    inventory = room.inventory
    least = max(inventory.min_unit, asked + 1)
    least += -least % inventory.step_size
    return least if least <= min(inventory.capacity - room.used, inventory.max_unit) else 0


def _of_amount(
    name: str,
    asked: int,
    room: UsedInventory | None,
    rooms: Collection[UsedInventory],
    provider: str | None,
) -> Iterator[Remedy]:
    values = _values(provider, resource_class=name)
    if room is None:
        words = f"give {provider or 'it'} an inventory of at least {_amount(name, asked)}"
        yield Remedy("add_inventory", words, {**values, "total": asked})
    else:
        yield _of_inventory(name, asked, room, provider)
    values = {"resource_class": name}
    if most := max((largest_below(one, asked) for one in rooms), default=0):
        words = f"ask for at most {_amount(name, most)}"
        yield Remedy("ask", words, {**values, "amount": most, "instead_of": asked})
    above = [found for one in rooms if (found := smallest_above(one, asked))]
    if above:
        words = f"ask for at least {_amount(name, min(above))}"
        yield Remedy("ask", words, {**values, "amount": min(above), "instead_of": asked})


def _values(provider: str | None, **values: Any) -> dict[str, Any]:
    return values if provider is None else {**values, "provider": provider}


def _of_inventory(name: str, asked: int, room: UsedInventory, provider: str | None) -> Remedy:
    """Return what would have to change about an inventory so that the amount fits."""
    inventory, values, parts = room.inventory, _values(provider, resource_class=name), []
    changed: dict[str, Any] = dict(values)
    action = "set_inventory"
    lacking = asked - (inventory.capacity - room.used)
    if lacking > 0:
        if asked <= inventory.capacity:
            action, changed["amount"] = "free", lacking
            parts.append(f"free {_amount(name, lacking)}")
        else:
            action, changed["amount"] = "add_capacity", lacking
            parts.append(f"add capacity for {_amount(name, lacking)}")
    units = _units(inventory, asked)
    if units:
        parts.append("set " + " and ".join(f"{key} of {name} to {n}" for key, n in units.items()))
    where = f" on {provider}" if provider else ""
    return Remedy(action, " and ".join(parts) + where, {**changed, **units})


def _units(inventory: Inventory, asked: int) -> dict[str, int]:
    """Return the fields that have to have another value, so that the amount obeys them."""
    if obeys_units(inventory, asked):
        return {}
    wanted = {
        "min_unit": min(inventory.min_unit, asked),
        "max_unit": max(inventory.max_unit, asked),
        "step_size": inventory.step_size if asked % inventory.step_size == 0 else 1,
    }
    return {key: value for key, value in wanted.items() if value != getattr(inventory, key)}


def _amount(name: str, amount: int) -> str:
    return f"{amount}{_UNITS.get(name, '')} of {name}"


def _of_trait(detail: str, provider: str | None) -> Iterator[Remedy]:
    if detail.startswith("!"):
        name = detail.removeprefix("!")
        words = f"remove trait {name} from {provider or 'its provider'}"
        yield Remedy("remove_trait", words, _values(provider, traits=[name]))
        words = f"ask without forbidding trait {name}"
    else:
        traits = detail.removeprefix("in:").split(",")
        named = " or ".join(traits)
        words = f"give {provider or 'its provider'} trait {named}"
        yield Remedy("add_trait", words, _values(provider, traits=traits))
        words = f"ask without trait {named}"
    yield Remedy("drop_constraint", words, {"constraint": "required", "detail": detail})


def _of_membership(
    detail: str, provider: str | None, memberships: Collection[str]
) -> Iterator[Remedy]:
    outside = detail.startswith("!")
    uuids = detail.removeprefix("!").removeprefix("in:").split(",")
    named, what = " or ".join(uuids), provider or "it"
    if outside:
        uuids = [uuid for uuid in uuids if uuid in memberships] or uuids
        named = " or ".join(uuids)
        words = f"remove {what} from aggregate {named}"
        yield Remedy("leave_aggregate", words, _values(provider, aggregates=uuids))
        yield Remedy("ask_traits", "ask for the traits that it needs", {"aggregates": uuids})
    else:
        words = f"add {what} to aggregate {named}"
        yield Remedy("join_aggregate", words, _values(provider, aggregates=uuids))
        words = f"ask without being confined to aggregate {named}"
        yield Remedy("drop_constraint", words, {"constraint": "member_of", "detail": detail})


def _of_tree(detail: str, _provider: str | None) -> Iterator[Remedy]:
    words = "name this host in the request, or none"
    yield Remedy("drop_constraint", words, {"constraint": "in_tree", "detail": detail})


#: The actions that change the request, not the cloud.
OF_REQUEST = frozenset({"ask", "ask_traits", "drop_constraint"})
_OF_KIND = {"required": _of_trait, "root_required": _of_trait, "in_tree": _of_tree}


@dataclass(frozen=True)
class TreeAdvice:
    """Advice on one tree: the ``outcomes`` that reject it.

    ``left`` are the uses of each slot that meet all constraints but those that reject the tree.
    """

    reasons: Reasons
    tree: int
    outcomes: Sequence[StageOutcome]
    left: Sequence[Mask]

    @cached_property
    def root(self) -> int:
        """The use of the root of the tree."""
        return int(self.reasons.checked.uses.root_uses[self.tree])

    @cached_property
    def targets(self) -> Mapping[int, int]:
        """The use that advice is about, for each slot: the one that lacks least."""
        chosen: dict[int, int] = {}
        for slot in range(len(self.left)):
            lacking = [one for one in self._failing(slot) if one.stage.constraint.resource_class]

            def distance(use: int, stages: Sequence[StageOutcome] = lacking) -> tuple[int, ...]:
                amounts = [self._lacks(one, use) for one in stages]
                return (
                    amounts.count(None),
                    sum(amount or 0 for amount in amounts),
                    use not in chosen.values(),
                    bool(self.reasons.checked.uses.is_shared[use]),
                    use != self.root,
                    use,
                )

            chosen[slot] = min(self._uses_of(slot), key=distance, default=self.root)
        return chosen

    def _failing(self, slot: int) -> list[StageOutcome]:
        return [one for one in self.outcomes if slot in one.failing_slots(self.tree)]

    def _lacks(self, outcome: StageOutcome, use: int) -> int | None:
        room, amount = self.reasons.room(outcome, use), outcome.stage.constraint.amount
        return None if room is None else max(amount - room.inventory.capacity + room.used, 0)

    def _uses_of(self, slot: int) -> list[int]:
        """Return the uses of the tree that are left for a slot."""
        whole = self.reasons.checked.uses.of_tree(self.tree)
        found: list[int] = (np.flatnonzero(self.left[slot][whole]) + whole.start).tolist()
        return found

    def changes(self, outcome: StageOutcome, rejection: Rejection) -> tuple[Remedy, ...]:
        """Return changes of which each is enough for a stage."""
        stage, target = outcome.stage, self._target(outcome, rejection)
        rooms: list[UsedInventory] = []
        own = None
        if stage.constraint.resource_class and target is not None:
            slots = outcome.failing_slots(self.tree)
            every = sorted({use for slot in slots for use in self._uses_of(slot)})
            rooms = [room for use in every if (room := self.reasons.room(outcome, use))]
            own = self.reasons.room(outcome, target)
        is_plain = target == self.root and len(rooms) < 2
        key = -1 if target is None else int(self.reasons.checked.uses.ids[target])
        return changes_of(
            stage.constraint,
            own,
            rooms,
            provider=None if target is None or is_plain else self.reasons.name(target),
            alone=target is not None,
            memberships=self.reasons.memberships.get(key, frozenset()),
        )

    def _target(self, outcome: StageOutcome, rejection: Rejection) -> int | None:
        """Return the use that the advice for a stage is about, None if one is not enough."""
        stage, slots = outcome.stage, outcome.failing_slots(self.tree)
        if stage.of_root:
            return self.root
        if stage.together:
            return self._bearer(stage)
        if not slots:  # a provider with a trait that the tree needs
            about = set(rejection.uses)
            return self.root if self.root in about else min(about)
        about = {self.targets[slot] for slot in slots}
        holds = self.reasons.checked.holds.get(stage.index)
        if holds is not None:
            about = {use if holds[use] else self.root for use in about}
        return about.pop() if len(about) == 1 else None

    def _bearer(self, stage: Stage) -> int:
        """Return the use that gets a trait which any of several providers may have."""
        about = {self.targets[slot] for slot in stage.slots}
        return self.root if self.root in about else min(about)

    def combines(self, rules: Rules, budget: Budget) -> bool:
        """Return whether the tree is known to serve after the first change of each reason.

        False if its providers may not combine then. Raises :class:`TooComplex` if the budget does
        not suffice.
        """
        if rules.subtrees:
            return False
        options = [
            (self.targets[slot],) if self._failing(slot) else tuple(self._uses_of(slot))
            for slot in range(len(self.left))
        ]
        stages = [stage for stage in self.reasons.checked.stages if stage.together]
        choices = tuple(frozenset({number}) for number in range(len(stages)))
        tree = ProviderTree(
            tuple(options), self._free(options, rules), self._covers(options, stages)
        )
        return can_serve(tree, replace(rules, trait_choices=choices), budget)

    def _covers(
        self, options: Sequence[Sequence[int]], stages: Sequence[Stage]
    ) -> Mapping[int, int]:
        """Return by use which of the stages its provider meets after the changes, as bits."""
        covers: dict[int, int] = defaultdict(int)
        met, rejecting = self.reasons.checked.met, {one.stage.index for one in self.outcomes}
        for bit, stage in enumerate(stages):
            for use in {use for some in options for use in some}:
                covers[use] |= int(met[stage.index, use]) << bit
            if stage.index in rejecting:
                covers[self._bearer(stage)] |= 1 << bit
        return covers

    def _free(
        self, options: Sequence[Sequence[int]], rules: Rules
    ) -> Mapping[InventoryIds, FreeCapacity]:
        """Return by use and class what is free after the changes, at least."""
        free: dict[InventoryIds, FreeCapacity] = {}
        for slot, use, class_id, amount in _amounts(options, rules):
            room = self.reasons.rooms.get((int(self.reasons.checked.uses.ids[use]), class_id))
            now = room.inventory.capacity - room.used if room else 0
            most = room.inventory.max_unit if room else MAX_INT
            if self._failing(slot):
                now, most = max(now, amount), max(most, amount)
            known = free.get((use, class_id), FreeCapacity(now, most))
            free[use, class_id] = FreeCapacity(max(known.amount, now), max(known.max_unit, most))
        return free


def _amounts(options: Sequence[Sequence[int]], rules: Rules) -> Iterator[tuple[int, int, int, int]]:
    """Yield slot, use, class and amount of all that is requested."""
    for slot, (some, one) in enumerate(zip(options, rules.slots, strict=True)):
        for use in some:
            for class_id, amount in one.amounts:
                yield slot, use, class_id, amount


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
