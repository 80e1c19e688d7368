# SPDX-License-Identifier: Apache-2.0
"""Batches of trees. Their sizes, order and checks do not change the candidates.

With batches of at most two trees, small clouds reach every branch of ``batches.py``.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates import batches, combine
from placement_sched.candidates.trees import TreeReader
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reference import convert_candidate, find_all_candidates
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import find_candidates, make_provider_source
from tests.candidates.strategies import (
    build_property_test_settings,
    random_queries,
    random_tree_clouds,
)
from tests.support.clouds import Cloud, load_cloud, uuid_of

pytestmark = pytest.mark.usefixtures("with_and_without_provider_cache")

PROPERTY_TEST_SETTINGS = build_property_test_settings(20)
BREADTH_FIRST_OPTIONS = {"placement.allocation_candidates_generation_strategy": "breadth-first"}
RANDOM_ORDER_OPTIONS = {"placement.randomize_allocation_candidates": True}
MAX_CANDIDATES = "placement.max_allocation_candidates"
BUDGET_OPTION = "placement.allocation_candidates_budget"

#: Two isolated cards. Each matching tree of ``_build_cloud_with_cards`` has two candidates.
CARDS_QUERY = CandidatesQuery(
    groups=tuple(
        RequestGroup(
            suffix=suffix,
            resources=(("SRIOV_NET_VF", 1),),
            traits=TraitTerms((frozenset({"CUSTOM_GOLD"}),)),
        )
        for suffix in ("1", "2")
    ),
    group_policy="isolate",
)


def _build_host_tree(number, cards, traits=("CUSTOM_GOLD",), prefix=""):
    """Return a host and its cards. ``cards`` has a letter for each card."""
    host = f"{prefix}CN{number:03}"
    return (
        provider(host, {"VCPU": 8}),
        *(
            provider(f"{prefix}PF{number:03}{card}", {"SRIOV_NET_VF": 4}, under=host, traits=traits)
            for card in cards
        ),
    )


def _build_cloud_with_cards(trees, serving):
    """Return trees of a host and two cards. Only the cards of ``serving`` have the trait."""
    return Cloud(
        tuple(
            member
            for number in range(trees)
            for member in _build_host_tree(
                number, "AB", ("CUSTOM_GOLD",) if number in serving else ()
            )
        )
    )


def _list_root_uuids(candidates):
    return [request.root_uuid for request in candidates.requests]


@pytest.fixture
def batch_sizes(monkeypatch):
    """Collect the number of trees of each batch."""
    sizes = []

    read = TreeReader.read

    def record_batch_size(self, roots):
        sizes.append(len(roots))
        return read(self, roots)

    monkeypatch.setattr(TreeReader, "read", record_batch_size)
    return sizes


def _use_small_batches(monkeypatch):
    sizes = {"_MIN_BATCH": 1, "_MIN_NEXT_BATCH": 1, "_MAX_BATCH": 2, "_GROWTH": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(batches, name, size)
    monkeypatch.setattr(combine, "_MIN_TO_CHECK", 1)


@pytest.mark.all_databases
@PROPERTY_TEST_SETTINGS
@given(
    cloud=random_tree_clouds(most=10),
    query=random_queries(),
    limit=st.sampled_from([-1, 1, 2, 3, 5]),
    strategy=st.sampled_from([{}, BREADTH_FIRST_OPTIONS]),
)
def test_batch_size_of_trees_does_not_change_the_candidates(
    database, settings, cloud, query, limit, strategy
):
    replace_cloud(database, cloud)
    options = settings.with_overrides({**strategy, MAX_CANDIDATES: limit})
    at_once = find_candidates(database, query, options)
    with pytest.MonkeyPatch.context() as patch:
        _use_small_batches(patch)
        by_one_or_two = find_candidates(database, query, options)
        drawn = find_candidates(database, query, options.with_overrides(RANDOM_ORDER_OPTIONS))
    assert by_one_or_two.requests == at_once.requests
    assert set(by_one_or_two.providers) == set(at_once.providers)
    every = find_all_candidates(cloud, query)
    reported = {convert_candidate(request) for request in drawn.requests}
    assert reported <= every
    assert len(reported) == len(drawn.requests) == len(at_once.requests)


def test_sparse_matching_trees_are_found_once_in_random_order(
    sqlite_database, sqlite_settings, monkeypatch
):
    monkeypatch.setattr(batches, "_MIN_BATCH", 4)
    cloud = _build_cloud_with_cards(60, range(0, 60, 10))
    load_cloud(sqlite_database, cloud)
    options = sqlite_settings.with_overrides({MAX_CANDIDATES: -1, **RANDOM_ORDER_OPTIONS})
    for seed in range(10):
        result = find_candidates(sqlite_database, CARDS_QUERY, options, seed=seed)
        candidates = Counter(map(convert_candidate, result.requests))
        assert candidates == Counter(find_all_candidates(cloud, CARDS_QUERY))


@pytest.mark.parametrize(
    "options",
    [{}, BREADTH_FIRST_OPTIONS, RANDOM_ORDER_OPTIONS],
    ids=["depth first", "breadth first", "random"],
)
def test_matching_tree_is_found_with_a_candidate_limit(database, settings, options, batch_sizes):
    cloud = _build_cloud_with_cards(60, {59})
    load_cloud(database, cloud)
    # With this seed the matching tree is not in the first batch.
    result = find_candidates(
        database, CARDS_QUERY, settings.with_overrides({MAX_CANDIDATES: 10, **options}), seed=2
    )
    candidates = {convert_candidate(request) for request in result.requests}
    assert candidates == find_all_candidates(cloud, CARDS_QUERY)
    assert _list_root_uuids(result) == [uuid_of("CN059")] * 2
    # Trees without candidates are not read batch by batch.
    assert batch_sizes == [16, 1]


def _build_query_over_several_providers(*traits):
    """Return a query for two classes and for traits that several providers may share."""
    group = RequestGroup(
        resources=(("VCPU", 1), ("DISK_GB", 1)),
        traits=TraitTerms(tuple(frozenset({name}) for name in traits)),
    )
    return CandidatesQuery(groups=(group,))


def _build_hosts_with_disks(trees, traits):
    """Return trees of three providers. A disk of the last tree has the traits."""
    for number in range(trees):
        name = f"CN{number:03}"
        yield provider(name, {"VCPU": 8})
        yield provider(f"{name} A", {"DISK_GB": 8}, under=name)
        has = traits if number == trees - 1 else ()
        yield provider(f"{name} B", {"DISK_GB": 8}, under=name, traits=has)


@pytest.mark.parametrize("options", [{}, RANDOM_ORDER_OPTIONS], ids=["by id", "at random"])
@pytest.mark.parametrize("number", [1, 30], ids=["one trait", "thirty traits"])
def test_trees_lacking_a_required_trait_are_skipped(
    database, settings, batch_sizes, options, number
):
    traits = [f"CUSTOM_TRAIT_{index}" for index in range(number)]
    load_cloud(database, Cloud(tuple(_build_hosts_with_disks(60, traits))))
    # With this seed the matching tree is not in the first batch. Combining all exceeds the budget.
    small = settings.with_overrides({MAX_CANDIDATES: 10, **options, BUDGET_OPTION: 40})
    result = find_candidates(database, _build_query_over_several_providers(*traits), small, seed=2)
    allocations = [dict(request.allocations) for request in result.requests]
    assert allocations == [{uuid_of("CN059"): {"VCPU": 1}, uuid_of("CN059 B"): {"DISK_GB": 1}}]
    assert batch_sizes == [16, 1]


def test_candidate_limit_is_reached_in_the_second_batch(database, settings, batch_sizes):
    load_cloud(database, _build_cloud_with_cards(60, set(range(0, 60, 2))))
    result = find_candidates(database, CARDS_QUERY, settings.with_overrides({MAX_CANDIDATES: 40}))
    # 8 of the first 16 trees match, with two candidates each: 24 candidates are missing.
    expected = [uuid_of(f"CN{number:03}") for number in range(0, 40, 2) for _ in range(2)]
    assert _list_root_uuids(result) == expected
    assert batch_sizes == [16, 30]


def test_last_batch_of_a_search_has_the_remaining_trees(database, settings, batch_sizes):
    load_cloud(database, _build_cloud_with_cards(40, set(range(10))))
    result = find_candidates(database, CARDS_QUERY, settings.with_overrides({MAX_CANDIDATES: 100}))
    assert len(result.requests) == 20
    assert not result.limited
    with database.read() as connection:
        cheap = make_provider_source(connection).reads_cheaply
    # If the source finds the ten matching trees without a statement, only they are read.
    assert batch_sizes == ([10] if cheap else [25, 15])


@pytest.mark.all_databases
def test_search_continues_after_empty_batches_of_trees(
    database, settings, batch_sizes, monkeypatch
):
    # Only the last tree has a card of its own for each slot.
    monkeypatch.setattr(batches, "_MIN_BATCH", 2)
    single_card_trees = [
        member for number in range(2, 30) for member in _build_host_tree(number, "A")
    ]
    last = _build_host_tree(0, "AB", prefix="last ")
    cloud = build_cloud(*_build_cloud_with_cards(2, set()).hosts, *single_card_trees, *last)
    load_cloud(database, cloud)
    result = find_candidates(database, CARDS_QUERY, settings.with_overrides({MAX_CANDIDATES: 2}))
    assert _list_root_uuids(result) == [uuid_of("last CN000")] * 2
    assert batch_sizes == [2, 2, 8, 19]


def test_random_search_continues_with_growing_batches_of_trees_that_may_match(
    database, settings, batch_sizes, monkeypatch
):
    """No tree matches: a request needs two different cards, and each tree has a single card."""
    for name, size in {"_MIN_BATCH": 2, "_MAX_BATCH": 7}.items():
        monkeypatch.setattr(batches, name, size)
    empty = _build_cloud_with_cards(60, set()).hosts
    single_card_trees = [
        member for number in range(60, 72) for member in _build_host_tree(number, "A")
    ]
    load_cloud(database, build_cloud(*empty, *single_card_trees))
    options = settings.with_overrides({**RANDOM_ORDER_OPTIONS, MAX_CANDIDATES: 2})
    # With this seed the first batch has no tree that may match.
    assert not find_candidates(database, CARDS_QUERY, options, seed=3).requests
    assert batch_sizes == [2, 2, 7, 3]


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_random_candidates_are_equally_distributed_over_trees(
    sqlite_database, sqlite_settings, every, monkeypatch
):
    serving = range(0, 6 * every, every)
    load_cloud(sqlite_database, _build_cloud_with_cards(6 * every, set(serving)))
    monkeypatch.setattr(batches, "_MIN_BATCH", 4)
    options = sqlite_settings.with_overrides(
        {**RANDOM_ORDER_OPTIONS, **BREADTH_FIRST_OPTIONS, MAX_CANDIDATES: 2}
    )
    drawn = Counter(
        root
        for seed in range(60)
        for root in set(
            _list_root_uuids(find_candidates(sqlite_database, CARDS_QUERY, options, seed))
        )
    )
    assert drawn.keys() == {uuid_of(f"CN{number:03}") for number in serving}
    # 60 draws of two of six trees draw each tree 20 times. Three standard deviations are 11.
    assert all(9 < count < 31 for count in drawn.values())


def test_random_candidates_vary_within_a_tree(sqlite_database, sqlite_settings):
    load_cloud(sqlite_database, _build_cloud_with_cards(1, {0}))
    options = sqlite_settings.with_overrides({**RANDOM_ORDER_OPTIONS, MAX_CANDIDATES: 1})
    first = {
        find_candidates(sqlite_database, CARDS_QUERY, options, seed).requests[0].mappings["1"]
        for seed in range(20)
    }
    assert first == {(uuid_of("PF000A"),), (uuid_of("PF000B"),)}


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, [0, 0, 0, 0]), (BREADTH_FIRST_OPTIONS, [0, 1, 2, 3])],
    ids=["depth-first", "breadth-first"],
)
def test_depth_first_finishes_a_tree_and_breadth_first_alternates_between_trees(
    database, settings, options, first
):
    cloud = Cloud(
        tuple(member for number in range(4) for member in _build_host_tree(number, "ABC"))
    )
    load_cloud(database, cloud)
    result = find_candidates(
        database, CARDS_QUERY, settings.with_overrides({**options, MAX_CANDIDATES: 4})
    )
    assert _list_root_uuids(result) == [uuid_of(f"CN{number:03}") for number in first]
    result = find_candidates(
        database, CARDS_QUERY, settings.with_overrides({**options, MAX_CANDIDATES: 20})
    )
    counts = Counter(_list_root_uuids(result))
    assert sorted(counts.values()) == ([5, 5, 5, 5] if options else [2, 6, 6, 6])


def test_maximum_of_zero_candidates_returns_no_candidates(sqlite_database, sqlite_settings):
    load_cloud(sqlite_database, _build_cloud_with_cards(3, {0}))
    none = sqlite_settings.with_overrides({MAX_CANDIDATES: 0})
    assert find_candidates(sqlite_database, CARDS_QUERY, none).requests == ()
