# SPDX-License-Identifier: Apache-2.0
"""Comparison of searches in the provider cache with searches in the database."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.api.placement.allocation_candidates import render
from placement_sched.api.versions import Version
from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import (
    SummaryFields,
    find,
    find_on,
    prepare,
    render_summaries,
)
from placement_sched.errors import TooComplex
from placement_sched.model.candidates_query import CandidatesQuery
from placement_sched.store.placement import change_log, provider_state
from tests.candidates.changing import FakeChangeLog, RandomCloudChanger
from tests.candidates.reload import replace_cloud
from tests.candidates.strategies import (
    build_property_test_settings,
    random_clouds,
    random_groups,
    random_queries,
    random_tree_clouds,
)
from tests.support.clouds import uuid_of

pytestmark = [pytest.mark.slow, pytest.mark.provider_cache]

PROPERTY_TEST_SETTINGS = build_property_test_settings(20)
SUMMARY_FIELDS = (
    SummaryFields(classes=None, traits=True, tree=True),
    SummaryFields(classes=None, traits=False, tree=False),
)
RANDOM_SEARCH_OPTIONS = st.fixed_dictionaries(
    {
        "placement.randomize_allocation_candidates": st.booleans(),
        "placement.allocation_candidates_generation_strategy": st.sampled_from(
            ["depth-first", "breadth-first"]
        ),
        "placement.max_allocation_candidates": st.sampled_from([-1, -1, 1, 2, 5]),
        "placement.allocation_candidates_budget": st.sampled_from([0, 0, 200]),
    }
)


def _find_rendered_candidates(source, query, options, *, single_per_tree):
    """Return the rendered candidates, summaries and capacities of a search."""
    search = prepare(source, query)
    try:
        result = find(source, search, options, Random(7), single_per_tree=single_per_tree)
        host_candidates = find_on(source, search, options, [uuid_of(f"host-{n}") for n in range(3)])
    except TooComplex as rejection:
        return str(rejection)
    trees = source.list_tree_providers([provider.id for provider in result.providers])
    rendered_summaries = [
        b"".join(render_summaries(source, trees, fields)) for fields in SUMMARY_FIELDS
    ]
    ids = [*(provider.id for provider in trees), 10**6]
    columns = source.read_free_columns(ids, search.names.classes.values())
    return (
        {class_id: column.tolist() for class_id, column in columns.items()},
        search.names.topology,
        render(result.requests, Version(1, 39)),
        # Sharing providers below a root have no defined order.
        sorted(result.providers),
        result.limited,
        trees,
        rendered_summaries,
        render(host_candidates.requests, Version(1, 39)),
    )


def _check_cache_against_database(connection, cache, query, options, *, single_per_tree=False):
    """Compare the response from the cache with the response from the database."""
    assert cache.refresh(connection)
    search = {"query": query, "options": options, "single_per_tree": single_per_tree}
    cached = _find_rendered_candidates(CachedProviders(cache), **search)
    assert cached == _find_rendered_candidates(LoadedProviders(connection), **search)


RANDOM_FLAT_CLOUDS_AND_QUERIES = st.tuples(
    random_clouds(), random_groups().map(lambda group: CandidatesQuery(groups=(group,)))
)


@pytest.mark.all_databases
@PROPERTY_TEST_SETTINGS
@given(
    searched=st.one_of(
        RANDOM_FLAT_CLOUDS_AND_QUERIES, st.tuples(random_tree_clouds(), random_queries())
    ),
    case=RANDOM_SEARCH_OPTIONS,
    single_per_tree=st.booleans(),
)
def test_search_in_the_cache_equals_search_in_the_database(
    database, settings, searched, case, single_per_tree
):
    cloud, query = searched
    replace_cloud(database, cloud)
    with database.read() as connection:
        options, cache = settings.with_overrides(case), ProviderCache(FakeChangeLog())
        _check_cache_against_database(
            connection, cache, query, options, single_per_tree=single_per_tree
        )


@PROPERTY_TEST_SETTINGS
@given(
    cloud=st.one_of(random_clouds(), random_tree_clouds()),
    searches=st.lists(random_queries(), min_size=2, max_size=4),
    case=RANDOM_SEARCH_OPTIONS,
    seed=st.integers(0, 2**30),
)
def test_search_in_the_cache_equals_the_database_after_every_change(
    database, settings, cloud, searches, case, seed
):
    replace_cloud(database, cloud)
    cache, changer = ProviderCache(change_log), RandomCloudChanger(Random(seed))
    options = settings.with_overrides(case)
    with database.read() as connection:
        for query in searches:
            _check_cache_against_database(connection, cache, query, options)
            for _ in range(changer.random.randint(0, 4)):
                changer.commit_random_change(database)
            _check_cache_against_database(connection, cache, query, options)
    assert cache.figures.full_readings == 1


@PROPERTY_TEST_SETTINGS
@given(cloud=random_tree_clouds(), query=random_queries(), size=st.integers(2, 5))
def test_search_in_a_cache_loaded_in_batches_equals_search_in_the_database(
    sqlite_database, sqlite_settings, cloud, query, size
):
    replace_cloud(sqlite_database, cloud)
    with pytest.MonkeyPatch.context() as patched, sqlite_database.read() as connection:
        patched.setattr(provider_state, "PROVIDERS_PER_STATEMENT", size)
        _check_cache_against_database(
            connection, ProviderCache(FakeChangeLog()), query, sqlite_settings
        )
