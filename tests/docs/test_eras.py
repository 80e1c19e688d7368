# SPDX-License-Identifier: Apache-2.0
"""The guide's tables of older nova releases have the options and plugins of this service."""

import re

import pytest

from placement_sched.scheduler.drivers import all_drivers
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.weights import all_weighers
from tests.docs.eras import GUIDE_FOLDER
from tests.docs.eras import era_table as era_table  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.slow

#: Options of this service that no release of nova had.
OWN_OPTIONS = {
    ("DEFAULT", "disabled_extensions"),
    ("DEFAULT", "host"),
    *(
        ("filter_scheduler", name)
        for name in (
            *("failover_capacity_max_age", "nova_shim", "preferred_tenant_weight_multiplier"),
            "required_aggregates_by_trait_weight_multiplier",
            *("topology_spread_weight_multiplier", "trait_preference_weight_multiplier"),
            "stranded_resources_weight_multiplier",
        )
    ),
    *(
        ("scheduler", name)
        for name in (
            *("capacity_budget", "capacity_flavors", "decision_retention"),
            *("default_policy_avoids_policy_aggregates", "disabled_cells", "failover_budget"),
            *("failover_host_failures", "failover_interval", "failover_within"),
            *("metrics_listen", "nova_full_sync_interval", "nova_sync_interval", "policies"),
            *("policy_overrides", "policy_selection", "request_filters"),
            *("required_aggregates_by_trait", "strict_extra_specs", "trace_retention"),
            *("waiting_max_age", "waiting_policies", "waiting_webhook_attempts"),
            *("waiting_webhook_urls", "what_if_timeout"),
        )
    ),
}
OWN_FILTERS = {
    *("AggregateSchedulerPolicyConfigurationFilter", "FailoverCapacityFilter"),
    "TopologySpreadFilter",
}
OWN_WEIGHERS = {
    *("PreferredTenantWeigher", "RequiredAggregatesByTraitWeigher"),
    *("StrandedResourcesWeigher", "TopologySpreadWeigher", "TraitPreferenceWeigher"),
}


def test_era_table_has_exactly_the_scheduling_options_shared_with_nova(era_table):
    existing = {(group, option.dest) for group, option in era_table.options_here()}
    assert existing - OWN_OPTIONS <= set(era_table.DEFAULTS)
    assert OWN_OPTIONS.isdisjoint(era_table.DEFAULTS)
    assert set(era_table.DEFAULTS) <= existing


def test_every_option_in_the_era_table_has_a_default_for_each_era(era_table):
    assert {len(row) for row in era_table.DEFAULTS.values()} == {len(era_table.ERAS)}


def test_default_of_each_era_of_releases_can_be_configured(era_table):
    options = {(group, option.dest): option for group, option in era_table.options_here()}
    for (group, name), defaults in era_table.DEFAULTS.items():
        for value in set(defaults) - {era_table.NONE, era_table.UNSET, "empty"}:
            if (group, name) in options:
                assert options[group, name].type(value) is not None


def test_era_table_has_all_plugins_shared_with_nova(era_table):
    assert {kind.__name__ for kind in all_filters()} - OWN_FILTERS <= set(era_table.FILTERS)
    assert {kind.__name__ for kind in all_weighers()} - OWN_WEIGHERS <= set(era_table.WEIGHERS)
    assert {kind.__name__ for kind in all_drivers()} == set(era_table.DRIVERS)


@pytest.mark.parametrize("family", ["FILTERS", "WEIGHERS", "DRIVERS"])
def test_eras_of_plugins_are_columns_of_the_era_table(era_table, family):
    eras = {era.split()[-1] for era in era_table.ERAS}
    for releases, _ in getattr(era_table, family).values():
        assert releases
        assert set(releases.split()) <= eras


def test_filters_enabled_in_any_era_exist(era_table):
    existing = {kind.__name__ for kind in all_filters()}
    for value in era_table.DEFAULTS["filter_scheduler", "enabled_filters"]:
        assert set(value.split(", ")) <= existing


def test_options_named_on_the_differences_page_exist():
    _, _, page = (
        (GUIDE_FOLDER / "differences.rst").read_text().partition("nova.conf of older releases")
    )
    conf = make_full_conf()
    named = re.findall(r"``\[(\w+)\] (\w+)``", page)
    assert named
    for group, name in named:
        assert name in (conf if group == "DEFAULT" else conf[group])
