# SPDX-License-Identifier: Apache-2.0
"""Removal of redundant trait sets and subtree rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.request import drop_duplicate_subtrees, select_minimal_sets

RANDOM_TRAIT_SETS = st.lists(st.frozensets(st.integers(0, 4), min_size=1))


@given(sets=RANDOM_TRAIT_SETS, provider_traits=st.frozensets(st.integers(0, 4)))
def test_minimal_trait_sets_imply_all_requested_sets(sets, provider_traits):
    minimal = select_minimal_sets(sets)
    assert all(names & provider_traits for names in minimal) == all(
        names & provider_traits for names in sets
    )
    assert not any(names < other for names in minimal for other in minimal)
    assert len(set(minimal)) == len(minimal)


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ([(5, 6)] * 1000, [(5, 6)]),
        ([(5, 6, 7), (7, 5, 6), (6, 5, 7)], [(5, 6, 7)]),
        ([(5, 6), (5, 6, 7)], [(5, 6), (5, 6, 7)]),
        ([(5,), (5, 5), (6, 5)], [(6, 5)]),
        ([], []),
    ],
)
def test_equal_subtree_rules_are_merged(ties, expected):
    assert list(drop_duplicate_subtrees(ties)) == expected
