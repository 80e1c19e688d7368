# SPDX-License-Identifier: Apache-2.0
"""Combinations of groups under same_subtree."""

from itertools import product
from random import Random

import pytest

from placement_sched.candidates import combine
from placement_sched.candidates.combine import FreeCapacity, ProviderTree, WorkBudget, combinations
from placement_sched.candidates.request import Rules, Slot

#: Random trees per case that are compared with an exhaustive search.
TREES = 300
VF = 1


def _rules(groups, *, isolate=False, subtrees=None):
    slots = tuple(Slot(suffix=f"_{number}", amounts=((VF, 1),)) for number in range(groups))
    return Rules(slots=slots, isolate=isolate, subtrees=subtrees or (tuple(range(groups)),))


def _devices(number, *, under=8):
    """Return the lineages of devices, ``under`` per NUMA node (100, 101, ...) of host 99."""
    nodes = range(100, 100 + (number + under - 1) // under)
    lineage = {device: frozenset({device, 100 + device // under, 99}) for device in range(number)}
    return lineage | {node: frozenset({node, 99}) for node in nodes} | {99: frozenset({99})}


def _free_capacities(devices, amount):
    free = FreeCapacity(amount=amount, max_unit=amount)
    return {(device, VF): free for device in range(devices)}


def test_impossible_sibling_groups_stop_at_the_second_group():
    tree = ProviderTree(
        options=(tuple(range(8)),) * 8, free=_free_capacities(8, amount=8), lineage=_devices(8)
    )
    found = list(combinations(tree, _rules(8), WorkBudget(2000)))
    assert found == [(device,) * 8 for device in range(8)]


def test_isolated_groups_cannot_share_a_single_device():
    options = (tuple(range(60)),) * 6
    tree = ProviderTree(options=options, free=_free_capacities(60, amount=8), lineage=_devices(60))
    assert not list(combinations(tree, _rules(6, isolate=True), WorkBudget(5000)))


def test_numa_nodes_with_too_few_devices_are_skipped():
    options = (tuple(range(100, 107)), *[tuple(range(56))] * 9)
    tree = ProviderTree(options=options, lineage=_devices(56))
    assert not list(combinations(tree, _rules(10, isolate=True), WorkBudget(5000)))


def _random_tree(dice, groups):
    """Return a random tree of up to nine providers."""
    ids = list(range(dice.randint(2, 9)))
    lineage = {0: frozenset({0})}
    for provider in ids[1:]:
        lineage[provider] = lineage[dice.choice(ids[:provider])] | {provider}
    options = tuple(
        tuple(sorted(dice.sample(ids, dice.randint(1, len(ids))))) for _ in range(groups)
    )
    free = {(provider, VF): FreeCapacity(amount=dice.randint(1, 5), max_unit=9) for provider in ids}
    return ProviderTree(options=options, free=free, lineage=lineage)


def _is_valid_choice(tree, rules, chosen):
    if rules.isolate and len(set(chosen)) < len(chosen):
        return False
    for (provider, _), free in tree.free.items():
        if chosen.count(provider) > free.amount:
            return False
    return all(
        any(
            all(top in tree.lineage[chosen[slot]] for slot in tied)
            for top in {chosen[slot_index] for slot_index in tied}
        )
        for tied in rules.subtrees
    )


@pytest.mark.parametrize("many", [0, 1000], ids=["narrowed", "as they are"])
@pytest.mark.parametrize("isolate", [False, True])
def test_combinations_equal_exhaustive_search(many, isolate, monkeypatch):
    monkeypatch.setattr(combine, "_MIN_TO_CHECK", many)
    found_any = 0
    for seed in range(TREES):
        dice = Random(seed)
        groups = dice.randint(1, 4)
        tied = [
            tuple(dice.sample(range(groups), dice.randint(1, groups)))
            for _ in range(dice.randint(1, 3))
        ]
        rules = _rules(groups, isolate=isolate, subtrees=tuple(tied))
        tree = _random_tree(dice, groups)
        expected = {
            chosen for chosen in product(*tree.options) if _is_valid_choice(tree, rules, chosen)
        }
        found = list(combinations(tree, rules, WorkBudget(0)))
        assert len(found) == len(set(found))
        assert set(found) == expected
        found_any += bool(found)
    assert found_any > TREES / 4
