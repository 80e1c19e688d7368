# SPDX-License-Identifier: Apache-2.0
"""Suggested changes for a tree that stages of the search reject."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from placement_sched.candidates.columns import Mask
from placement_sched.candidates.combine import FreeCapacity, ProviderTree, WorkBudget, can_serve
from placement_sched.candidates.request import Rules
from placement_sched.explain.changes import suggest_changes
from placement_sched.explain.stages import Reasons, Stage, StageOutcome, TreeRejection
from placement_sched.model.provider import MAX_INT
from placement_sched.model.rejection import SuggestedChange
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory


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

    def suggest(
        self, outcome: StageOutcome, rejection: TreeRejection
    ) -> tuple[SuggestedChange, ...]:
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

    def _find_target(self, outcome: StageOutcome, rejection: TreeRejection) -> int | None:
        """Return the index of the use that must change, None for several uses."""
        stage, slots = outcome.stage, outcome.list_failing_slots(self.tree)
        if stage.constraint.is_on_root:
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
