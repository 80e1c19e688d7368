# SPDX-License-Identifier: Apache-2.0
"""Request filters never remove a constraint of a request."""

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

from hypothesis import given

from placement_sched.errors import Invalid
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filtering import run_request_filters
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.request_filters import RequestFilterResult
from tests.scheduler.random_requests import RANDOM_CLOUDS, RANDOM_REQUEST_SPECS
from tests.support.states import build_settings

#: Enable every option that is disabled by default.
SETTINGS_WITH_ALL_FILTERS = build_settings(
    scheduler__limit_tenants_to_placement_aggregate=True,
    scheduler__query_placement_for_image_type_support=True,
    scheduler__enable_isolated_aggregate_filtering=True,
    scheduler__image_metadata_prefilter=True,
    scheduler__query_placement_for_routed_network_aggregates=True,
    scheduler__required_aggregates_by_trait="require",
)
ALL_REQUEST_FILTERS = get_plugins(SETTINGS_WITH_ALL_FILTERS).request_filters


def check_that_no_constraint_is_lost(before: RequestSpec, after: RequestSpec) -> None:
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


@given(spec=RANDOM_REQUEST_SPECS, world=RANDOM_CLOUDS)
def test_each_request_filter_keeps_all_constraints(spec, world):
    original_spec = deepcopy(spec)
    for plugin in ALL_REQUEST_FILTERS:
        with suppress(Invalid):
            outcome = plugin.apply(spec, world) if plugin.enabled(plugin.settings) else None
            if isinstance(outcome, RequestFilterResult):
                check_that_no_constraint_is_lost(spec, outcome.spec)
                assert bool(outcome.changes) == (outcome.spec != spec), plugin.name
        assert spec == original_spec, plugin.name


@given(spec=RANDOM_REQUEST_SPECS, world=RANDOM_CLOUDS)
def test_all_request_filters_together_keep_all_constraints(spec, world):
    original_spec = deepcopy(spec)
    try:
        run = run_request_filters(ALL_REQUEST_FILTERS, spec, world)
    except Invalid:
        return
    assert spec == original_spec
    check_that_no_constraint_is_lost(spec, run.spec)
    assert [report.name for report in run.reports] == [
        plugin.name for plugin in ALL_REQUEST_FILTERS
    ]
