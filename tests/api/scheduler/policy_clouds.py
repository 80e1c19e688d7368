# SPDX-License-Identifier: Apache-2.0
"""Clouds with aggregates of two scheduling policies."""

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.support.scheduling import make_report

ZONE_SELECTOR = "AvailabilityZoneBasedSchedulerPolicyConfigurationSelection"
TENANT_SELECTOR = "TenantBasedSchedulerPolicyConfigurationSelection"
EXTRA_SPECS_SELECTOR = "FlavorExtraSpecsBasedSchedulerPolicyConfigurationSelection"
HINT_SELECTOR = "HintBasedSchedulerPolicyConfigurationSelection"
#: ``{0}`` is the selector, ``{1}`` the filter that is used with it.
POLICIES_CONFIG = """[DEFAULT]
scheduler_default_filters = {1}, CoreFilter
cpu_allocation_ratio = 4.0
scheduler_policy_selection = {0}
scheduler_policy_overrides = cpu_allocation_ratio

[low_cpu_density]
cpu_allocation_ratio = 1.0

[high_cpu_density]
cpu_allocation_ratio = 8.0
"""
FILTERS_BY_SELECTOR = {
    ZONE_SELECTOR: "AvailabilityZoneFilter",
    TENANT_SELECTOR: "AggregateMultiTenancyIsolation",
    EXTRA_SPECS_SELECTOR: "AggregateInstanceExtraSpecsFilter",
    HINT_SELECTOR: "AggregateSchedulerPolicyConfigurationFilter",
}
#: Name, hosts and metadata of the aggregate of each policy.
AGGREGATES_BY_POLICY = {
    "low_cpu_density": (
        "rack1",
        ("cn1", "cn2"),
        {"availability_zone": "cpu_intensive_az", "filter_tenant_id": "engineers", "cpus": "own"},
    ),
    "high_cpu_density": (
        "rack2",
        ("cn3", "cn4"),
        {"availability_zone": "shared_az", "filter_tenant_id": "students", "cpus": "shared"},
    ),
}


@pytest.fixture
def start_app(tmp_path, sqlite_url, make_app, monkeypatch):
    """Return a function that starts an application with a configuration on a shared database."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)

    def start_app_with_config(text):
        file = tmp_path / "nova.conf"
        file.write_text(text)
        return make_app(read_settings([str(file)], make_full_conf()))

    return start_app_with_config


def report_hosts(app, number):
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"cn{at + 1}") for at in range(number)]
    )


def create_aggregate(app, name, hosts, **metadata):
    aggregate = app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": name}}).json
    action = f"/compute/v2.1/os-aggregates/{aggregate['aggregate']['id']}/action"
    for host in hosts:
        app.post_json(action, {"add_host": {"host": host}})
    app.post_json(action, {"set_metadata": {"metadata": metadata}})


@pytest.fixture
def make_policy_app(start_app):
    """Return a function that sets up the cloud of user story 1.

    Host cn5 is in none of the two aggregates.
    """

    def build_policy_app(selection=ZONE_SELECTOR, text=POLICIES_CONFIG, companion=None):
        app = start_app(text.format(selection, companion or FILTERS_BY_SELECTOR[selection]))
        report_hosts(app, 5)
        for policy, (name, hosts, metadata) in AGGREGATES_BY_POLICY.items():
            create_aggregate(app, name, hosts, **metadata, sched_policy=policy)
        return app

    return build_policy_app
