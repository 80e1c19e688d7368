# SPDX-License-Identifier: Apache-2.0
"""No request filter widens a request: what was asked is asked still, and maybe more."""

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
from placement_sched.scheduler.narrowing import run_request_filters
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.request_filters import RequestFilterResult
from placement_sched.scheduler.resource_request import TargetNodes, build_query
from tests.exploring import Dice, draws
from tests.scheduler.random_requests import CUSTOM, NUMBERS, SPECS, TRANSLATED, WORLDS
from tests.support.clouds import Cloud, Host, load, stock
from tests.support.states import settings_with

#: Everything that is switched off by default is on.
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


def assert_as_narrow(before: RequestSpec, after: RequestSpec) -> None:
    """Assert that all that ``before`` asks is asked by ``after``, and all else is the same."""
    old, new = before.destination, after.destination
    assert new.aggregates[: len(old.aggregates)] == old.aggregates
    assert set(old.forbidden_aggregates) <= set(new.forbidden_aggregates)
    lists = {"aggregates": old.aggregates, "forbidden_aggregates": old.forbidden_aggregates}
    assert replace(new, **lists) == old
    assert before.root_required <= after.root_required
    assert before.root_forbidden <= after.root_forbidden
    assert before.same_subtree == after.same_subtree
    for one, other in zip(before.requested_resources, after.requested_resources, strict=True):
        assert one.required_traits <= other.required_traits
        assert replace(other, required_traits=one.required_traits) == one
    unchanged = {
        "requested_destination": before.requested_destination,
        "request_level_params": before.request_level_params,
        "requested_resources": before.requested_resources,
    }
    assert replace(after, **unchanged) == before


def outcome_of(plugin, spec, world):
    """Return what a filter says; None where it is none of its business, or cannot be asked."""
    try:
        return plugin.apply(spec, world) if plugin.enabled(plugin.settings) else None
    except Invalid:
        return None


@each_filter
@given(spec=SPECS, world=WORLDS)
def test_each_filter_leaves_everything_asked_that_was(plugin, spec, world):
    given_spec = deepcopy(spec)
    outcome = outcome_of(plugin, spec, world)
    assert spec == given_spec
    if isinstance(outcome, RequestFilterResult):
        assert_as_narrow(spec, outcome.spec)
        assert bool(outcome.changes) == (outcome.spec != spec)


@each_filter
def test_each_filter_narrows_some_of_the_requests_drawn(plugin):
    def is_narrowed(drawn):
        outcome = outcome_of(plugin, *drawn)
        return isinstance(outcome, RequestFilterResult) and bool(outcome.changes)

    find(
        st.tuples(SPECS, WORLDS),
        is_narrowed,
        settings=settings(max_examples=3000, phases=[Phase.generate]),
    )


@given(spec=SPECS, world=WORLDS)
def test_all_of_them_one_after_the_other_leave_everything_asked_that_was(spec, world):
    given_spec = deepcopy(spec)
    try:
        run = run_request_filters(FILTERS, spec, world)
    except Invalid:
        return
    assert spec == given_spec
    assert_as_narrow(spec, run.spec)
    assert [report.name for report in run.reports] == [plugin.name for plugin in FILTERS]


@pytest.fixture
def cloud(sqlite_database):
    """Twelve hosts that differ in traits and aggregates, with a GPU below each."""
    lot = Dice.of(7)
    hosts = []
    for number in range(12):
        root = Host(
            f"h{number}",
            stock("VCPU", 8) | stock("MEMORY_MB", 8192) | stock("DISK_GB", 100),
            frozenset(lot.sample(CUSTOM, 2)) | {one for one in TRANSLATED if lot.random() < 0.9},
            frozenset(f"agg{each}" for each in NUMBERS if lot.random() < 0.4),
        )
        gpu = Host(
            f"g{number}",
            stock("PGPU", 2),
            frozenset(lot.sample(CUSTOM, 2)),
            root.aggregates,
            root.name,
        )
        hosts += [root, gpu]
    load(sqlite_database, Cloud(tuple(hosts)))
    return sqlite_database


def candidates(connection, spec):
    """Return the candidates of a request, each as a value; none for one that cannot be asked."""
    try:
        query = build_query(spec, ALL_ON, TargetNodes()).query
    except Invalid:
        return frozenset()
    found = find_candidates(
        LoadedProviders(connection), prepare(LoadedProviders(connection), query), ALL_ON, Random(0)
    )
    return frozenset(json.dumps(one.as_json(), sort_keys=True) for one in found.requests)


@settings(
    max_examples=draws(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(spec=SPECS, world=WORLDS)
def test_candidates_of_the_narrowed_request_are_among_those_of_the_request(cloud, spec, world):
    try:
        run = run_request_filters(FILTERS, spec, world)
    except Invalid:
        return
    with cloud.read() as connection:
        narrowed = candidates(connection, run.spec)
        assert narrowed <= candidates(connection, spec)


@pytest.mark.slow
def test_requests_drawn_have_candidates_left_and_candidates_lost(cloud):
    def loses_some(drawn):
        spec, world = drawn
        try:
            run = run_request_filters(FILTERS, spec, world)
        except Invalid:
            return False
        with cloud.read() as connection:
            narrowed = candidates(connection, run.spec)
            return not isinstance(run.refusal, Rejection) and bool(
                narrowed and narrowed < candidates(connection, spec)
            )

    find(
        st.tuples(SPECS, WORLDS),
        loses_some,
        settings=settings(max_examples=2000, phases=[Phase.generate]),
    )
