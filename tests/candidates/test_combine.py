# SPDX-License-Identifier: Apache-2.0
"""Combinations of providers, compared with exhaustive searches."""

from itertools import product
from random import Random

import pytest

from placement_sched.candidates import combine
from placement_sched.candidates.combine import (
    FreeCapacity,
    ProviderTree,
    WorkBudget,
    iterate_combinations,
)
from placement_sched.candidates.request import Rules
from placement_sched.errors import TooComplex
from tests.candidates.slots import build_request_slot
from tests.exploring import scale_example_count


def _find_met_trait_sets(carried, choices):
    """Return the choices that the traits of each provider meet, as bits."""
    return {
        provider: sum(1 << bit for bit, traits in enumerate(choices) if traits & carried[provider])
        for provider in carried
    }


def _find_provider_combinations(options, suffixes, carried, choices, budget=0):
    rules = Rules(
        slots=tuple(build_request_slot(suffix) for suffix in suffixes), trait_choices=tuple(choices)
    )
    tree = ProviderTree(
        options=tuple(map(tuple, options)), covers=_find_met_trait_sets(carried, choices)
    )
    return list(iterate_combinations(tree, rules, WorkBudget(budget)))


@pytest.mark.parametrize(
    ("carried", "steps"),
    [({}, 1), ({0: {1}}, 1), ({0: {1}, 1: {2}}, 10)],
    ids=["no provider has any", "no provider has one", "no provider left has the other"],
)
def test_providers_of_trees_lacking_traits_are_not_combined(carried, steps):
    # Only the providers of the first slot have traits.
    options = [range(6), *[range(6, 14)] * 7]
    assert _find_provider_combinations(options, [""] * 8, carried, [{1}, {2}], budget=steps) == []


def test_each_combination_of_freely_chosen_providers_costs_a_step():
    options = [range(6)] * 2
    assert len(_find_provider_combinations(options, [""] * 2, {}, [], budget=36)) == 36
    with pytest.raises(TooComplex):
        _find_provider_combinations(options, [""] * 2, {}, [], budget=35)


def test_search_cost_of_a_thousand_trait_sets_is_that_of_one():
    choices = [{trait} for trait in range(1000)]
    carried = {0: set(range(500)), 1: set(range(500, 1000))}
    combinations = _find_provider_combinations(
        [range(8)] * 3, [""] * 3, carried, choices, budget=600
    )
    assert all({0, 1} <= set(chosen) for chosen in combinations)
    assert len(combinations) == 42


# Groups under same_subtree

#: Random trees per case that are compared with an exhaustive search.
RANDOM_TREE_COUNT = scale_example_count(300)
VF_CLASS_ID = 1


def _build_same_subtree_rules(groups, *, isolate=False, subtrees=None):
    slots = tuple(build_request_slot(f"_{number}", (VF_CLASS_ID, 1)) for number in range(groups))
    return Rules(slots=slots, isolate=isolate, subtrees=subtrees or (tuple(range(groups)),))


def _build_ancestors_of_devices(number, *, under=8):
    """Return the lineages of devices, ``under`` per NUMA node (100, 101, ...) of host 99."""
    nodes = range(100, 100 + (number + under - 1) // under)
    lineage = {device: frozenset({device, 100 + device // under, 99}) for device in range(number)}
    return lineage | {node: frozenset({node, 99}) for node in nodes} | {99: frozenset({99})}


def _build_free_capacities(devices, amount):
    free = FreeCapacity(amount=amount, max_unit=amount)
    return {(device, VF_CLASS_ID): free for device in range(devices)}


def test_same_subtree_groups_are_served_by_one_device_within_the_budget():
    tree = ProviderTree(
        options=(tuple(range(8)),) * 8,
        free=_build_free_capacities(8, amount=8),
        lineage=_build_ancestors_of_devices(8),
    )
    combinations = list(iterate_combinations(tree, _build_same_subtree_rules(8), WorkBudget(2000)))
    assert combinations == [(device,) * 8 for device in range(8)]


def test_isolated_groups_cannot_share_a_single_device():
    options = (tuple(range(60)),) * 6
    tree = ProviderTree(
        options=options,
        free=_build_free_capacities(60, amount=8),
        lineage=_build_ancestors_of_devices(60),
    )
    assert not list(
        iterate_combinations(tree, _build_same_subtree_rules(6, isolate=True), WorkBudget(5000))
    )


def test_numa_nodes_with_too_few_devices_are_skipped():
    options = (tuple(range(100, 107)), *[tuple(range(56))] * 9)
    tree = ProviderTree(options=options, lineage=_build_ancestors_of_devices(56))
    assert not list(
        iterate_combinations(tree, _build_same_subtree_rules(10, isolate=True), WorkBudget(5000))
    )


def _draw_random_tree(dice, groups):
    """Return a random tree of up to nine providers."""
    ids = list(range(dice.randint(2, 9)))
    lineage = {0: frozenset({0})}
    for provider in ids[1:]:
        lineage[provider] = lineage[dice.choice(ids[:provider])] | {provider}
    options = tuple(
        tuple(sorted(dice.sample(ids, dice.randint(1, len(ids))))) for _ in range(groups)
    )
    free = {
        (provider, VF_CLASS_ID): FreeCapacity(amount=dice.randint(1, 5), max_unit=9)
        for provider in ids
    }
    return ProviderTree(options=options, free=free, lineage=lineage)


def _is_valid_combination(tree, rules, chosen):
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


@pytest.mark.parametrize("many", [0, 1000], ids=["options narrowed", "options unchanged"])
@pytest.mark.parametrize("isolate", [False, True])
def test_provider_combinations_equal_an_exhaustive_search(many, isolate, monkeypatch):
    monkeypatch.setattr(combine, "_MIN_TO_CHECK", many)
    found_any = 0
    for seed in range(RANDOM_TREE_COUNT):
        dice = Random(seed)
        groups = dice.randint(1, 4)
        tied = [
            tuple(dice.sample(range(groups), dice.randint(1, groups)))
            for _ in range(dice.randint(1, 3))
        ]
        rules = _build_same_subtree_rules(groups, isolate=isolate, subtrees=tuple(tied))
        tree = _draw_random_tree(dice, groups)
        expected = {
            chosen
            for chosen in product(*tree.options)
            if _is_valid_combination(tree, rules, chosen)
        }
        combined = list(iterate_combinations(tree, rules, WorkBudget(0)))
        assert len(combined) == len(set(combined))
        assert set(combined) == expected
        found_any += bool(combined)
    assert found_any > RANDOM_TREE_COUNT / 4
