# SPDX-License-Identifier: Apache-2.0
"""Suggested changes that let a provider meet a constraint."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from placement_sched.explain.nested_values import Names, with_names
from placement_sched.explain.phrases import format_advice, format_detail
from placement_sched.model.constraint import IN_TREE, MEMBER_OF, Constraint
from placement_sched.model.provider import Inventory, matches_units
from placement_sched.model.rejection import SuggestedChange
from placement_sched.store.placement.capacity import UsedInventory

#: Actions that change the request, not the cloud.
OF_REQUEST = frozenset({"ask", "ask_traits", "drop_constraint"})


def build_change(action: str, values: dict[str, Any], **shown: Any) -> SuggestedChange:
    """Build a change with its sentence.

    ``shown`` are further values that only the sentence needs.
    """
    words = format_advice(action, {**values, **shown})
    return SuggestedChange("ask" if action == "ask_amount" else action, words, values)


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
    if constraint.resource_class:
        name, amount = constraint.resource_class, constraint.amount
        changes = _advise_amount(name, amount, inventory, inventories, provider)
    elif constraint.family == MEMBER_OF:
        changes = _advise_membership(constraint, provider, memberships)
    elif constraint.family == IN_TREE:
        changes = iter((suggest_dropping(constraint),))
    else:
        changes = _advise_trait(constraint, provider)
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
        yield build_change("add_inventory", {**values, "total": amount})
    else:
        yield _advise_inventory(name, amount, inventory, provider)
    values = {"resource_class": name}
    if largest := max((find_largest_below(item, amount) for item in inventories), default=0):
        yield build_change("ask", {**values, "amount": largest, "instead_of": amount})
    larger = [fitting for item in inventories if (fitting := find_smallest_above(item, amount))]
    if larger:
        yield build_change("ask", {**values, "amount": min(larger), "instead_of": amount})


def _build_values(provider: str | None, **values: Any) -> dict[str, Any]:
    return values if provider is None else {**values, "provider": provider}


def _advise_inventory(
    name: str, amount: int, used_inventory: UsedInventory, provider: str | None
) -> SuggestedChange:
    inventory = used_inventory.inventory
    values = _build_values(provider, resource_class=name)
    action, missing = "set_inventory", amount - (inventory.capacity - used_inventory.used)
    if missing > 0:
        action = "free" if amount <= inventory.capacity else "add_capacity"
        values["amount"] = missing
    units = _find_unit_changes(inventory, amount)
    return build_change(action, {**values, **units}, units=units)


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


def _advise_trait(constraint: Constraint, provider: str | None) -> Iterator[SuggestedChange]:
    action = "remove_trait" if constraint.is_forbidden else "add_trait"
    yield build_change(action, _build_values(provider, traits=list(constraint.names)))
    yield suggest_dropping(constraint)


def _advise_membership(
    constraint: Constraint, provider: str | None, memberships: Collection[str]
) -> Iterator[SuggestedChange]:
    """Suggest changes with uuids that the caller replaces by names."""
    uuids = list(constraint.names)
    if constraint.is_forbidden:
        uuids = [uuid for uuid in uuids if uuid in memberships] or uuids
        yield SuggestedChange("leave_aggregate", "", _build_values(provider, aggregates=uuids))
        yield SuggestedChange("ask_traits", "", {"aggregates": uuids})
    else:
        yield SuggestedChange("join_aggregate", "", _build_values(provider, aggregates=uuids))
        yield suggest_dropping(constraint)
