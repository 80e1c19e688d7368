"""What would have to change so that a tree is no longer rejected.

All advice on a slot is about the same provider, the target: it meets every other constraint of the
slot, so that it serves after the changes.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from placement_sched.candidates.combine import Budget, FreeCapacity, ProviderTree, can_serve
from placement_sched.candidates.explain.changes import changes_of
from placement_sched.candidates.explain.reasons import Reasons, Rejection
from placement_sched.candidates.explain.stages import Stage, StageOutcome
from placement_sched.candidates.request import Rules
from placement_sched.candidates.row_values import Mask
from placement_sched.model.provider import MAX_INT
from placement_sched.model.verdict import Remedy
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory


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
