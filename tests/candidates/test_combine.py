# SPDX-License-Identifier: Apache-2.0
"""Candidates of trees and sharing providers, compared with the naive reference."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.search import find, prepare
from tests.candidates.reference import all_candidates, candidates_of, convert_candidate
from tests.candidates.reload import reload
from tests.candidates.sources import source_of
from tests.candidates.strategies import examples, queries, tree_clouds

pytestmark = pytest.mark.usefixtures("each_source")

EXAMPLES = examples(40)
STRATEGIES = st.sampled_from(["depth-first", "breadth-first"])
SHUFFLED = "placement.randomize_allocation_candidates"
STRATEGY = "placement.allocation_candidates_generation_strategy"
MAX_CANDIDATES = "placement.max_allocation_candidates"


def _find(database, query, options, *, single_per_tree=False, seed=7):
    with database.read() as connection:
        search = prepare(source_of(connection), query)
        found = find(
            source_of(connection), search, options, Random(seed), single_per_tree=single_per_tree
        )
    return found.requests


def _convert_candidates(requests):
    return [convert_candidate(request) for request in requests]


@pytest.mark.all_databases
@EXAMPLES
@given(cloud=tree_clouds(), query=queries(), single_per_tree=st.booleans())
def test_every_combination_is_found_once_in_any_order(
    database, settings, cloud, query, single_per_tree
):
    reload(database, cloud)
    every = all_candidates(cloud, query, single_per_tree=single_per_tree)
    for overrides in ({}, {STRATEGY: "breadth-first"}, {SHUFFLED: True}):
        options = settings.with_overrides(overrides)
        reported = _convert_candidates(
            _find(database, query, options, single_per_tree=single_per_tree)
        )
        assert set(reported) == every
        assert len(reported) == len(every)


@EXAMPLES
@given(cloud=tree_clouds(), query=queries(), limit=st.integers(1, 5), strategy=STRATEGIES)
def test_limit_returns_the_same_candidates_every_time(
    database, settings, cloud, query, limit, strategy
):
    reload(database, cloud)
    every = all_candidates(cloud, query)
    options = settings.with_overrides({STRATEGY: strategy, MAX_CANDIDATES: limit})
    found = _find(database, query, options, seed=1)
    assert found == _find(database, query, options, seed=2)
    drawn = _find(database, query, options.with_overrides({SHUFFLED: True}))
    for reported in (_convert_candidates(found), _convert_candidates(drawn)):
        assert set(reported) <= every
        assert len(set(reported)) == len(reported) == min(limit, len(every))


@EXAMPLES
@given(cloud=tree_clouds(sharing=False, most=7), query=queries(), limit=st.integers(1, 6))
def test_breadth_first_takes_one_candidate_per_tree_first(database, settings, cloud, query, limit):
    reload(database, cloud)
    options = settings.with_overrides({STRATEGY: "breadth-first", MAX_CANDIDATES: limit})
    found = _find(database, query, options)
    expected = candidates_of(cloud, query)
    assert all(convert_candidate(request) in expected[request.root_uuid] for request in found)
    counts = Counter(request.root_uuid for request in found)
    most = max(counts.values(), default=0)
    assert all(counts[root] >= min(most - 1, len(every)) for root, every in expected.items())
