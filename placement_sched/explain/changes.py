# SPDX-License-Identifier: Apache-2.0
"""Suggested changes, after which providers and trees meet constraints."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask
from placement_sched.candidates.combine import FreeCapacity, ProviderTree, WorkBudget, can_serve
from placement_sched.candidates.request import Rules
from placement_sched.explain.advice import build_change, format_advice
from placement_sched.explain.nested_values import Names, with_names
from placement_sched.explain.phrases import format_detail
from placement_sched.explain.stages import Reasons, Stage, StageOutcome, TreeRejection
from placement_sched.model.constraint import IN_TREE, MEMBER_OF, Constraint
from placement_sched.model.provider import MAX_INT, matches_units
from placement_sched.model.rejection import SuggestedChange
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

#: Actions that change the request, not the cloud.
OF_REQUEST = frozenset({"change_request", "require_traits", "drop_constraint"})
_Numbers = NDArray[np.int64]


def suggest_dropping(constraint: Constraint, names: Names | None = None) -> SuggestedChange:
    """Suggest a request without a constraint.

    ``names`` maps uuids of aggregates to the names in the sentence.
    """
    keys = replace(constraint, suffix="").as_json()
    detail = format_detail(keys)
    words = format_advice("drop_constraint", with_names(keys, names))
    values = {"constraint": constraint.family, "detail": detail}
    return SuggestedChange("drop_constraint", words, values, drops=constraint)


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
    target = {} if provider is None else {"provider": provider}
    changes: list[SuggestedChange] = []
    if constraint.resource_class:
        changes.append(_suggest_inventory(constraint, inventory, target))
        changes += _suggest_amounts(constraint, inventories)
    elif constraint.family == MEMBER_OF:
        # The caller replaces the uuids by names.
        uuids = list(constraint.names)
        if constraint.is_forbidden:
            values = {"aggregates": [uuid for uuid in uuids if uuid in memberships] or uuids}
            changes.append(SuggestedChange("leave_aggregate", "", {**values, **target}))
            changes.append(SuggestedChange("require_traits", "", values))
        else:
            joined = {"aggregates": uuids, **target}
            changes += [SuggestedChange("join_aggregate", "", joined), suggest_dropping(constraint)]
    elif constraint.family == IN_TREE:
        changes.append(suggest_dropping(constraint))
    else:
        action = "remove_trait" if constraint.is_forbidden else "add_trait"
        changes.append(build_change(action, {"traits": list(constraint.names), **target}))
        changes.append(suggest_dropping(constraint))
    return tuple(change for change in changes if has_single_target or change.action in OF_REQUEST)


def _suggest_inventory(
    constraint: Constraint, used_inventory: UsedInventory | None, target: Mapping[str, str]
) -> SuggestedChange:
    amount = constraint.amount
    values: dict[str, Any] = {"resource_class": constraint.resource_class, **target}
    if used_inventory is None:
        return build_change("add_inventory", {**values, "total": amount})
    inventory = used_inventory.inventory
    action, missing = "set_inventory", amount - (inventory.capacity - used_inventory.used)
    if missing > 0:
        action = "free" if amount <= inventory.capacity else "add_capacity"
        values["amount"] = missing
    units: dict[str, int] = {}
    if not matches_units(inventory, amount):
        fitting_values = {
            "min_unit": min(inventory.min_unit, amount),
            "max_unit": max(inventory.max_unit, amount),
            "step_size": inventory.step_size if amount % inventory.step_size == 0 else 1,
        }
        fields = fitting_values.items()
        units = {name: value for name, value in fields if value != getattr(inventory, name)}
    return build_change(action, {**values, **units}, units=units)


def _suggest_amounts(
    constraint: Constraint, inventories: Collection[UsedInventory]
) -> Iterator[SuggestedChange]:
    """Suggest requests with the nearest fitting amounts, smaller and larger."""
    limits = [
        (min(item.capacity - each.used, item.max_unit), item.min_unit, item.step_size)
        for each in inventories
        for item in [each.inventory]
    ]
    max_amounts, min_units, step_sizes = np.array(limits, np.int64).reshape(-1, 3).T
    below, above = find_fitting_amounts(max_amounts, min_units, step_sizes, constraint.amount)
    values = {"resource_class": constraint.resource_class}
    for amount in (below.max(initial=0), above[above > 0].min(initial=MAX_INT + 1)):
        if 0 < amount <= MAX_INT:
            changed = {"amount": int(amount), "instead_of": constraint.amount}
            yield build_change("change_request", {**values, **changed})


def find_fitting_amounts(
    max_amounts: _Numbers, min_units: _Numbers, step_sizes: _Numbers, requested: int
) -> tuple[_Numbers, _Numbers]:
    """Return the nearest fitting amounts below and above ``requested``.

    The arrays have a value for each inventory: the largest amount that is free and allowed, and the
    units. 0 means that no amount fits.
    """
    steps = np.maximum(step_sizes, 1)
    below = np.minimum(max_amounts, requested - 1)
    below -= below % steps
    above = np.maximum(min_units, requested + 1)
    above += -above % steps
    fits_below = below >= np.maximum(min_units, 1)
    return np.where(fits_below, below, 0), np.where(above <= max_amounts, above, 0)


class _Cost(NamedTuple):
    """The change that a provider needs for a slot, most important part first."""

    missing_inventories: int
    missing_amount: int
    is_new_target: bool
    is_shared: bool
    is_child: bool
    pair: int


@dataclass(frozen=True)
class TreeAdvice:
    """Suggested changes for a tree that the stages in ``outcomes`` reject.

    ``remaining`` has a mask for each slot: the pairs (:class:`TreeProviders`) that remain if the
    constraints that reject the tree are ignored.
    """

    reasons: Reasons
    tree: int
    outcomes: Sequence[StageOutcome]
    remaining: Sequence[Mask]

    @cached_property
    def root(self) -> int:
        """Return the pair of the tree with its root."""
        return int(self.reasons.checked.tree_providers.root_pairs[self.tree])

    @cached_property
    def targets(self) -> Mapping[int, int]:
        """Map each slot to the pair whose provider needs the smallest change.

        Of equal changes, a provider that changes for an earlier slot is preferred, then a provider
        of the tree to a sharing provider, and then the root.
        """
        targets: dict[int, int] = {}
        for slot in range(len(self.remaining)):
            costs = [
                self._compute_cost(slot, pair, is_new_target=pair not in targets.values())
                for pair in self._list_pairs(slot)
            ]
            targets[slot] = min(costs).pair if costs else self.root
        return targets

    def _compute_cost(self, slot: int, pair: int, *, is_new_target: bool) -> _Cost:
        missing_inventories = missing_amount = 0
        for outcome in self._find_outcomes(slot):
            constraint = outcome.stage.constraint
            if not constraint.resource_class:
                continue
            item = self.reasons.find_inventory(outcome, pair)
            if item is None:
                missing_inventories += 1
            else:
                free = item.inventory.capacity - item.used
                missing_amount += max(constraint.amount - free, 0)
        return _Cost(
            missing_inventories,
            missing_amount,
            is_new_target,
            bool(self.reasons.checked.tree_providers.is_shared[pair]),
            pair != self.root,
            pair,
        )

    def _find_outcomes(self, slot: int) -> list[StageOutcome]:
        return [item for item in self.outcomes if slot in item.list_failing_slots(self.tree)]

    def _list_pairs(self, slot: int) -> list[int]:
        return self.reasons.checked.tree_providers.list_pairs(self.tree, self.remaining[slot])

    def suggest(
        self, outcome: StageOutcome, rejection: TreeRejection
    ) -> tuple[SuggestedChange, ...]:
        """Suggest alternative changes that each let the tree pass a stage."""
        constraint, target = outcome.stage.constraint, self._find_target(outcome, rejection)
        if target is None:  # several providers must change
            return suggest_changes(constraint, None, (), has_single_target=False)
        inventories: list[UsedInventory] = []
        own = None
        if constraint.resource_class:
            slots = outcome.list_failing_slots(self.tree)
            pairs = sorted({pair for slot in slots for pair in self._list_pairs(slot)})
            items = (self.reasons.find_inventory(outcome, pair) for pair in pairs)
            inventories = [item for item in items if item is not None]
            own = self.reasons.find_inventory(outcome, target)
        is_plain = target == self.root and len(inventories) < 2
        return suggest_changes(
            constraint,
            own,
            inventories,
            provider=None if is_plain else self.reasons.get_name(target),
            memberships=self.reasons.get_memberships(target),
        )

    def _find_target(self, outcome: StageOutcome, rejection: TreeRejection) -> int | None:
        """Return the pair whose provider must change, None for several pairs."""
        stage, slots = outcome.stage, outcome.list_failing_slots(self.tree)
        if stage.constraint.is_on_root:
            return self.root
        if stage.any_provider_suffices:
            return self._find_trait_target(stage)
        if not slots:  # the tree would lose a provider with a required trait
            return self.root if self.root in rejection.pairs else min(rejection.pairs)
        pairs = {self.targets[slot] for slot in slots}
        own_failures = self.reasons.checked.own_failures.get(stage.index)
        if own_failures is not None:
            pairs = {pair if own_failures[pair] else self.root for pair in pairs}
        return pairs.pop() if len(pairs) == 1 else None

    def _find_trait_target(self, stage: Stage) -> int:
        pairs = {self.targets[slot] for slot in stage.slots}
        return self.root if self.root in pairs else min(pairs)

    def combines(self, rules: Rules, budget: WorkBudget) -> bool:
        """Return whether the first changes for all stages let the tree serve.

        If the result is False, the tree may still serve after the changes. Raises
        :class:`TooComplex` if the budget is exceeded.
        """
        if rules.subtrees:
            return False
        options = tuple(
            (self.targets[slot],) if self._find_outcomes(slot) else tuple(self._list_pairs(slot))
            for slot in range(len(self.remaining))
        )
        stages = [stage for stage in self.reasons.checked.stages if stage.any_provider_suffices]
        choices = tuple(frozenset({number}) for number in range(len(stages)))
        tree = ProviderTree(
            options, self._estimate_free(options, rules), self._map_stages(options, stages)
        )
        return can_serve(tree, replace(rules, trait_choices=choices), budget)

    def _map_stages(
        self, options: Sequence[Sequence[int]], stages: Sequence[Stage]
    ) -> Mapping[int, int]:
        covers: dict[int, int] = defaultdict(int)
        met, rejecting = self.reasons.checked.met, {item.stage.index for item in self.outcomes}
        for bit, stage in enumerate(stages):
            for pair in {pair for slot_pairs in options for pair in slot_pairs}:
                covers[pair] |= int(met[stage.index, pair]) << bit
            if stage.index in rejecting:
                covers[self._find_trait_target(stage)] |= 1 << bit
        return covers

    def _estimate_free(
        self, options: Sequence[Sequence[int]], rules: Rules
    ) -> Mapping[InventoryIds, FreeCapacity]:
        """Return a lower bound of free capacity after the suggested changes.

        Each key is a pair of a tree and a provider, with a class id.
        """
        free: dict[InventoryIds, FreeCapacity] = {}
        ids, inventories = self.reasons.checked.tree_providers.ids, self.reasons.inventories
        requested = [
            (slot, pair, *amount)
            for slot, (pairs, part) in enumerate(zip(options, rules.slots, strict=True))
            for pair in pairs
            for amount in part.amounts
        ]
        for slot, pair, class_id, amount in requested:
            item = inventories.get((int(ids[pair]), class_id))
            unused = item.inventory.capacity - item.used if item else 0
            max_unit = item.inventory.max_unit if item else MAX_INT
            if self._find_outcomes(slot):
                unused, max_unit = max(unused, amount), max(max_unit, amount)
            old = free.get((pair, class_id), FreeCapacity(unused, max_unit))
            free[pair, class_id] = FreeCapacity(
                max(old.amount, unused), max(old.max_unit, max_unit)
            )
        return free
