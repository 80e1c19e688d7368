# SPDX-License-Identifier: Apache-2.0
"""Combinations of providers that have the required traits together.

The reference combines all providers and drops the combinations that lack a trait of a set.
"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.combine import ProviderTree, WorkBudget, combinations
from placement_sched.candidates.request import Rules, Slot

TRAITS = st.integers(0, 3)
CHOICES = st.lists(st.frozensets(TRAITS, min_size=1, max_size=2), min_size=1, max_size=3)
PROVIDERS = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)


def _met_choices(carried, choices):
    """Return the choices that the traits of each provider meet, as bits."""
    return {
        provider: sum(1 << bit for bit, traits in enumerate(choices) if traits & carried[provider])
        for provider in carried
    }


def _find_combinations(options, suffixes, carried, choices, budget=0):
    rules = Rules(
        slots=tuple(Slot(suffix=suffix, amounts=()) for suffix in suffixes),
        trait_choices=tuple(choices),
    )
    tree = ProviderTree(options=tuple(map(tuple, options)), covers=_met_choices(carried, choices))
    return list(combinations(tree, rules, WorkBudget(budget)))


@given(
    slots=st.lists(st.tuples(st.sampled_from(["", "", "1"]), PROVIDERS), min_size=1, max_size=4),
    carried=st.dictionaries(st.integers(0, 5), st.frozensets(TRAITS, max_size=2)),
    choices=CHOICES,
)
def test_unsuffixed_providers_share_required_traits(slots, carried, choices):
    suffixes, options = zip(*slots, strict=True)
    found = _find_combinations(options, suffixes, carried, choices)
    expected = []
    for chosen in product(*options):
        counted = [
            provider for provider, suffix in zip(chosen, suffixes, strict=True) if not suffix
        ]
        together = frozenset().union(*(carried.get(provider, ()) for provider in counted))
        if all(traits & together for traits in choices):
            expected.append(chosen)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("carried", "steps"),
    [({}, 1), ({0: {1}}, 1), ({0: {1}, 1: {2}}, 10)],
    ids=["no provider has any", "no provider has one", "no provider left has the other"],
)
def test_trees_lacking_traits_are_not_combined(carried, steps):
    # Only the providers of the first slot have traits.
    options = [range(6), *[range(6, 14)] * 7]
    assert _find_combinations(options, [""] * 8, carried, [{1}, {2}], budget=steps) == []


def test_thousand_trait_sets_cost_as_much_as_one():
    choices = [{trait} for trait in range(1000)]
    carried = {0: set(range(500)), 1: set(range(500, 1000))}
    found = _find_combinations([range(8)] * 3, [""] * 3, carried, choices, budget=600)
    assert all({0, 1} <= set(chosen) for chosen in found)
    assert len(found) == 42
