# SPDX-License-Identifier: Apache-2.0
"""Equal trees are combined once. The candidates are the same as of single trees."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.batches import CandidateBatches
from placement_sched.candidates.search import find, prepare
from placement_sched.candidates.trees import ProviderTrees
from placement_sched.errors import TooComplex
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reference import SHARING_TRAIT
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import enable_provider_cache, make_provider_source
from tests.candidates.strategies import (
    build_property_test_settings,
    random_queries,
    random_tree_clouds,
)
from tests.support.clouds import Cloud, load_cloud

MAX_CANDIDATES = "placement.max_allocation_candidates"
BUDGET_OPTION = "placement.allocation_candidates_budget"

CARDS_QUERY = CandidatesQuery(
    groups=tuple(
        RequestGroup(suffix=suffix, resources=(("SRIOV_NET_VF", 1),)) for suffix in ("1", "2")
    ),
    group_policy="isolate",
)


@pytest.fixture(autouse=True)
def _use_provider_cache():
    with enable_provider_cache():
        yield


def _build_hosts_with_cards(number, cards):
    """Return hosts with cards. On every third host, card 1 has no functions."""
    return Cloud(
        tuple(
            member
            for host in range(number)
            for member in (
                provider(f"CN{host:03}", {"MEMORY_MB": 64, "VCPU": 8}),
                *(
                    provider(
                        f"CN{host:03} {card}",
                        {"SRIOV_NET_VF": 0 if card == host % 3 == 1 else 4},
                        under=f"CN{host:03}",
                    )
                    for card in range(cards)
                ),
            )
        )
    )


def _find_candidates(database, query, options, *, grouped=True, batch=None):
    """Return the candidates. Unless ``grouped``, no two trees count as equal."""
    with pytest.MonkeyPatch.context() as patch, database.read() as connection:
        if batch is not None:
            patch.setattr(CandidateBatches, "_compute_first_size", lambda _self: batch)
            patch.setattr(CandidateBatches, "_estimate_next_size", lambda *_: batch)
        if not grouped:
            keys = property(lambda trees: [b"%d" % root for root in trees.roots.tolist()])
            patch.setattr(ProviderTrees, "keys", keys)
        source = make_provider_source(connection)
        return find(source, prepare(source, query), options, Random(7))


def _find_grouped_candidates(database, query, options, *, batch=None):
    """Return candidates of grouped trees, after a comparison with single trees."""
    candidates = _find_candidates(database, query, options, batch=batch)
    assert candidates == _find_candidates(database, query, options, grouped=False)
    return candidates


@pytest.mark.slow
@build_property_test_settings(50)
@given(
    cloud=random_tree_clouds(most=10),
    query=random_queries(),
    limit=st.sampled_from([-1, 1, 2, 3, 5]),
    batch=st.sampled_from([1, 2, 100]),
)
def test_search_of_grouped_trees_finds_the_candidates_of_single_trees(
    sqlite_database, sqlite_settings, cloud, query, limit, batch
):
    replace_cloud(sqlite_database, cloud)
    options = sqlite_settings.with_overrides({MAX_CANDIDATES: limit})
    _find_grouped_candidates(sqlite_database, query, options, batch=batch)


def _build_hosts_with_pools(number, pools, *, disk_of_hosts=0):
    """Return hosts and pools, two of each per rack, half of the pools before the hosts."""
    hosts = [
        provider(
            f"CN{host:03}",
            {"MEMORY_MB": 64, "VCPU": 8, "DISK_GB": disk_of_hosts},
            aggregates=[f"rack{host // 2 % pools}"],
        )
        for host in range(number)
    ]
    shared = [
        provider(
            f"pool {pool}",
            {"DISK_GB": 100},
            traits=[SHARING_TRAIT],
            aggregates=[f"rack{pool // 2}"],
        )
        for pool in range(2 * pools)
    ]
    return build_cloud(*shared[:pools], *hosts, *shared[pools:])


DISK_OF_POOLS_QUERY = CandidatesQuery(
    groups=(RequestGroup(suffix="", resources=(("DISK_GB", 1), ("MEMORY_MB", 1), ("VCPU", 1))),)
)


@pytest.mark.parametrize("disk_of_hosts", [0, 10])
@pytest.mark.parametrize("limit", [-1, 1, 7, 1000])
def test_grouped_hosts_sharing_pools_have_the_candidates_of_single_trees(
    sqlite_database, sqlite_settings, limit, disk_of_hosts
):
    load_cloud(sqlite_database, _build_hosts_with_pools(30, 4, disk_of_hosts=disk_of_hosts))
    options = sqlite_settings.with_overrides({MAX_CANDIDATES: limit})
    candidates = _find_grouped_candidates(sqlite_database, DISK_OF_POOLS_QUERY, options)
    per_host = 2 + (disk_of_hosts > 0)
    assert len(candidates.requests) == min(limit if limit > 0 else 1000, 30 * per_host)


def test_candidates_of_sharing_providers_alone_are_returned_once(sqlite_database, sqlite_settings):
    """The pools serve the query without a host."""
    load_cloud(sqlite_database, _build_hosts_with_pools(30, 4))
    query = CandidatesQuery(groups=(RequestGroup(suffix="", resources=(("DISK_GB", 1),)),))
    assert len(_find_grouped_candidates(sqlite_database, query, sqlite_settings).requests) == 8


def test_mutually_sharing_hosts_have_one_candidate_each(sqlite_database, sqlite_settings):
    """P shares CPUs and Q shares disk, so that their own trees are candidates too."""
    shared = {"traits": [SHARING_TRAIT], "aggregates": ["rack"]}
    hosts = [provider(f"CN{number:03}", {"VCPU": 8, "DISK_GB": 10}) for number in range(70)]
    cloud = provider("P", {"VCPU": 8}, **shared), *hosts, provider("Q", {"DISK_GB": 10}, **shared)
    load_cloud(sqlite_database, Cloud(cloud))
    query = CandidatesQuery(
        groups=(RequestGroup(suffix="", resources=(("DISK_GB", 1), ("VCPU", 1))),)
    )
    options = sqlite_settings.with_overrides({MAX_CANDIDATES: 100})
    assert len(_find_grouped_candidates(sqlite_database, query, options, batch=25).requests) == 71


def test_search_of_equal_trees_costs_less_than_of_different_trees(sqlite_database, sqlite_settings):
    load_cloud(sqlite_database, _build_hosts_with_cards(30, 3))
    grouped_budget, single_budget = (
        _find_smallest_sufficient_budget(sqlite_database, sqlite_settings, CARDS_QUERY, grouped)
        for grouped in (True, False)
    )
    assert 500 < grouped_budget < single_budget


def _find_smallest_sufficient_budget(database, options, query, grouped):
    """Return the smallest budget that is enough for a search."""
    rejected, answered = 0, 100_000
    while answered - rejected > 1:
        budget = (rejected + answered) // 2
        try:
            _find_candidates(
                database, query, options.with_overrides({BUDGET_OPTION: budget}), grouped=grouped
            )
        except TooComplex:
            rejected = budget
        else:
            answered = budget
    return answered
