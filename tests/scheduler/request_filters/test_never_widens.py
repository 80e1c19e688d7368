# SPDX-License-Identifier: Apache-2.0
"""Request filters never remove a constraint of a request."""

import json
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.search import find as find_candidates
from placement_sched.candidates.search import prepare
from placement_sched.errors import Invalid
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.request_filtering import run_request_filters
from placement_sched.scheduler.request_filters import RequestFilterResult
from placement_sched.scheduler.resource_request import TargetNodes, build_query
from tests.exploring import Dice, draws
from tests.scheduler.random_requests import CUSTOM, NUMBERS, SPECS, TRANSLATED, WORLDS
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud
from tests.support.states import settings_with

#: Enable every option that is disabled by default.
ALL_ON = settings_with(
    scheduler__limit_tenants_to_placement_aggregate=True,
    scheduler__query_placement_for_image_type_support=True,
    scheduler__enable_isolated_aggregate_filtering=True,
    scheduler__image_metadata_prefilter=True,
    scheduler__query_placement_for_routed_network_aggregates=True,
    scheduler__required_aggregates_by_trait="require",
)
FILTERS = plugins_for(ALL_ON).request_filters
each_filter = pytest.mark.parametrize("plugin", FILTERS, ids=lambda plugin: plugin.name)


def assert_no_constraint_is_lost(before: RequestSpec, after: RequestSpec) -> None:
    """Assert that ``after`` has all constraints of ``before`` and no other change."""
    old, new = before.destination, after.destination
    assert new.aggregates[: len(old.aggregates)] == old.aggregates
    assert set(old.forbidden_aggregates) <= set(new.forbidden_aggregates)
    lists = {"aggregates": old.aggregates, "forbidden_aggregates": old.forbidden_aggregates}
    assert replace(new, **lists) == old
    assert before.root_required <= after.root_required
    assert before.root_forbidden <= after.root_forbidden
    assert before.same_subtree == after.same_subtree
    for entry, other in zip(before.requested_resources, after.requested_resources, strict=True):
        assert entry.required_traits <= other.required_traits
        assert replace(other, required_traits=entry.required_traits) == entry
    unchanged = {
        "requested_destination": before.requested_destination,
        "request_level_params": before.request_level_params,
        "requested_resources": before.requested_resources,
    }
    assert replace(after, **unchanged) == before


def apply_filter(plugin, spec, world):
    """Return the result of a filter, or None if it is off or the request is invalid."""
    try:
        return plugin.apply(spec, world) if plugin.enabled(plugin.settings) else None
    except Invalid:
        return None


@each_filter
@given(spec=SPECS, world=WORLDS)
def test_each_filter_keeps_all_constraints(plugin, spec, world):
    original_spec = deepcopy(spec)
    outcome = apply_filter(plugin, spec, world)
    assert spec == original_spec
    if isinstance(outcome, RequestFilterResult):
        assert_no_constraint_is_lost(spec, outcome.spec)
        assert bool(outcome.changes) == (outcome.spec != spec)


@each_filter
def test_each_filter_narrows_some_random_request(plugin):
    def is_narrowed(example):
        outcome = apply_filter(plugin, *example)
        return isinstance(outcome, RequestFilterResult) and bool(outcome.changes)

    find(
        st.tuples(SPECS, WORLDS),
        is_narrowed,
        settings=settings(max_examples=3000, phases=[Phase.generate]),
    )


@given(spec=SPECS, world=WORLDS)
def test_all_filters_together_keep_all_constraints(spec, world):
    original_spec = deepcopy(spec)
    try:
        run = run_request_filters(FILTERS, spec, world)
    except Invalid:
        return
    assert spec == original_spec
    assert_no_constraint_is_lost(spec, run.spec)
    assert [report.name for report in run.reports] == [plugin.name for plugin in FILTERS]


@pytest.fixture
def cloud(sqlite_database):
    """Twelve hosts that differ in traits and aggregates, with a GPU below each."""
    random = Dice.numbered(7)
    hosts = []
    for number in range(12):
        root = Host(
            f"h{number}",
            build_inventory("VCPU", 8)
            | build_inventory("MEMORY_MB", 8192)
            | build_inventory("DISK_GB", 100),
            frozenset(random.sample(CUSTOM, 2))
            | {entry for entry in TRANSLATED if random.random() < 0.9},
            frozenset(f"agg{item}" for item in NUMBERS if random.random() < 0.4),
        )
        gpu = Host(
            f"g{number}",
            build_inventory("PGPU", 2),
            frozenset(random.sample(CUSTOM, 2)),
            root.aggregates,
            root.name,
        )
        hosts += [root, gpu]
    load_cloud(sqlite_database, Cloud(tuple(hosts)))
    return sqlite_database


def candidates(connection, spec):
    """Return the candidates of a request, none if it is invalid."""
    try:
        query = build_query(spec, ALL_ON, TargetNodes())[0]
    except Invalid:
        return frozenset()
    result = find_candidates(
        LoadedProviders(connection), prepare(LoadedProviders(connection), query), ALL_ON, Random(0)
    )
    return frozenset(json.dumps(request.as_json(), sort_keys=True) for request in result.requests)


@settings(
    max_examples=draws(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(spec=SPECS, world=WORLDS)
def test_candidates_after_the_filters_are_a_subset(cloud, spec, world):
    try:
        run = run_request_filters(FILTERS, spec, world)
    except Invalid:
        return
    with cloud.read() as connection:
        narrowed = candidates(connection, run.spec)
        assert narrowed <= candidates(connection, spec)


@pytest.mark.slow
def test_some_random_request_loses_some_candidates(cloud):
    def loses_candidates(example):
        spec, world = example
        try:
            run = run_request_filters(FILTERS, spec, world)
        except Invalid:
            return False
        with cloud.read() as connection:
            narrowed = candidates(connection, run.spec)
            return not isinstance(run.rejection, Rejection) and bool(
                narrowed and narrowed < candidates(connection, spec)
            )

    find(
        st.tuples(SPECS, WORLDS),
        loses_candidates,
        settings=settings(max_examples=2000, phases=[Phase.generate]),
    )
