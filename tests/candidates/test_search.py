# SPDX-License-Identifier: Apache-2.0
"""The candidate search, compared with the naive reference, and its limits and samples."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from tests.candidates.reference import (
    convert_candidate,
    find_all_candidates,
    find_candidates_by_tree,
)
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import find_candidates
from tests.candidates.strategies import (
    build_property_test_settings,
    random_clouds,
    random_groups,
    random_queries,
    random_tree_clouds,
)
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud

pytestmark = pytest.mark.usefixtures("with_and_without_provider_cache")

PROPERTY_TEST_SETTINGS = build_property_test_settings(20)
#: ``test_providers.py`` compares the loader with the cache on each server.
on_servers_in_exhaustive_runs = pytest.mark.parametrize(
    "database_url",
    [
        "sqlite",
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("postgresql", "mysql")),
    ],
    indirect=True,
)


def _search_with_group(database, group, options, limit=None):
    return find_candidates(database, CandidatesQuery(groups=(group,), limit=limit), options)


def _list_provider_uuids(candidates):
    return [provider.uuid for provider in candidates.providers]


def _find_expected_root_uuids(cloud, group):
    expected = find_candidates_by_tree(cloud, CandidatesQuery(groups=(group,)))
    return [root for root, candidates in expected.items() if candidates]


@on_servers_in_exhaustive_runs
@PROPERTY_TEST_SETTINGS
@given(cloud=random_clouds(), group=random_groups(), limit=st.integers(1, 4))
def test_search_finds_the_first_candidates_of_the_reference_search(
    database, settings, cloud, group, limit
):
    replace_cloud(database, cloud)
    expected = _find_expected_root_uuids(cloud, group)
    for maximum in (None, limit):
        uuids = _list_provider_uuids(_search_with_group(database, group, settings, maximum))
        assert uuids == expected[:maximum]


@pytest.fixture
def twenty_hosts(database):
    hosts = tuple(Host(f"cn{n:02}", build_inventory("VCPU", 4)) for n in range(20))
    load_cloud(database, Cloud(hosts))
    return hosts


def test_random_candidates_have_the_requested_number_and_fit(database, settings, twenty_hosts):
    shuffled = settings.with_overrides({"placement.randomize_allocation_candidates": True})
    uuids = _list_provider_uuids(
        _search_with_group(database, RequestGroup(resources=(("VCPU", 1),)), shuffled, 5)
    )
    assert len(set(uuids)) == 5
    assert set(uuids) <= {host.uuid for host in twenty_hosts}
    assert uuids != [host.uuid for host in twenty_hosts[:5]]


def test_configured_maximum_limits_the_candidates_of_every_search(database, settings, twenty_hosts):
    bounded = settings.with_overrides({"placement.max_allocation_candidates": 3})
    group = RequestGroup(resources=(("VCPU", 1),))
    assert len(_search_with_group(database, group, bounded).requests) == 3
    assert len(_search_with_group(database, group, bounded, 2).requests) == 2


@pytest.mark.parametrize(
    "unknown",
    [
        {"resources": (("CUSTOM_NOPE", 1),)},
        {"traits": TraitTerms((frozenset({"CUSTOM_NOPE"}),))},
        {"traits": TraitTerms((), frozenset({"CUSTOM_NOPE"}))},
    ],
    ids=["class", "required", "forbidden"],
)
def test_unknown_resource_class_or_trait_is_rejected_with_its_name(database, settings, unknown):
    group = RequestGroup(**{"resources": (("VCPU", 1),), **unknown})
    with pytest.raises(Invalid, match="CUSTOM_NOPE"):
        _search_with_group(database, group, settings)


# Trees and sharing providers

RANDOM_GENERATION_STRATEGIES = st.sampled_from(["depth-first", "breadth-first"])
RANDOM_ORDER_OPTION = "placement.randomize_allocation_candidates"
STRATEGY_OPTION = "placement.allocation_candidates_generation_strategy"
MAX_CANDIDATES = "placement.max_allocation_candidates"


def _find_allocation_requests(*search, **options):
    return find_candidates(*search, **options).requests


def _convert_candidates(requests):
    return [convert_candidate(request) for request in requests]


@on_servers_in_exhaustive_runs
@PROPERTY_TEST_SETTINGS
@given(cloud=random_tree_clouds(), query=random_queries(), single_per_tree=st.booleans())
def test_every_candidate_is_found_once_in_any_order(
    database, settings, cloud, query, single_per_tree
):
    replace_cloud(database, cloud)
    every = find_all_candidates(cloud, query, single_per_tree=single_per_tree)
    for overrides in ({}, {STRATEGY_OPTION: "breadth-first"}, {RANDOM_ORDER_OPTION: True}):
        options = settings.with_overrides(overrides)
        reported = _convert_candidates(
            _find_allocation_requests(database, query, options, single_per_tree=single_per_tree)
        )
        assert set(reported) == every
        assert len(reported) == len(every)


@PROPERTY_TEST_SETTINGS
@given(
    cloud=random_tree_clouds(),
    query=random_queries(),
    limit=st.integers(1, 5),
    strategy=RANDOM_GENERATION_STRATEGIES,
)
def test_search_with_a_limit_returns_the_same_candidates_every_time(
    database, settings, cloud, query, limit, strategy
):
    replace_cloud(database, cloud)
    every = find_all_candidates(cloud, query)
    options = settings.with_overrides({STRATEGY_OPTION: strategy, MAX_CANDIDATES: limit})
    requests = _find_allocation_requests(database, query, options, seed=1)
    assert requests == _find_allocation_requests(database, query, options, seed=2)
    drawn = _find_allocation_requests(
        database, query, options.with_overrides({RANDOM_ORDER_OPTION: True})
    )
    for reported in (_convert_candidates(requests), _convert_candidates(drawn)):
        assert set(reported) <= every
        assert len(set(reported)) == len(reported) == min(limit, len(every))


@PROPERTY_TEST_SETTINGS
@given(
    cloud=random_tree_clouds(sharing=False, most=7), query=random_queries(), limit=st.integers(1, 6)
)
def test_breadth_first_takes_a_candidate_of_each_tree_first(
    database, settings, cloud, query, limit
):
    replace_cloud(database, cloud)
    options = settings.with_overrides({STRATEGY_OPTION: "breadth-first", MAX_CANDIDATES: limit})
    requests = _find_allocation_requests(database, query, options)
    expected = find_candidates_by_tree(cloud, query)
    assert all(convert_candidate(request) in expected[request.root_uuid] for request in requests)
    counts = Counter(request.root_uuid for request in requests)
    max_count = max(counts.values(), default=0)
    assert all(counts[root] >= min(max_count - 1, len(every)) for root, every in expected.items())
