# SPDX-License-Identifier: Apache-2.0
"""Host filter by project and aggregate metadata, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.aggregate_multitenancy_isolation import (
    AggregateMultiTenancyIsolation,
)
from tests.support.states import build_aggregates, build_host_state, build_spec, find_rejection

TENANT_METADATA_KEY = "filter_tenant_id"


def find_filter_rejection(project, *metadata):
    plugin = AggregateMultiTenancyIsolation()
    host = build_host_state(aggregates=build_aggregates(*metadata))
    return find_rejection(plugin, host, build_spec(project_id=project))


@pytest.mark.parametrize(
    ("project", "metadata", "projects"),
    [
        ("p1", [], None),
        ("p1", [{"ssd": "true"}], None),
        (None, [{"ssd": "true"}], None),
        ("p1", [{TENANT_METADATA_KEY: "p1"}], None),
        ("p2", [{TENANT_METADATA_KEY: "p1, p2"}], None),
        ("p2", [{TENANT_METADATA_KEY: "p1"}, {TENANT_METADATA_KEY: "p2"}], None),
        ("p3", [{TENANT_METADATA_KEY: "p1", f"{TENANT_METADATA_KEY}3": "p3"}], None),
        ("p3", [{f"{TENANT_METADATA_KEY}_more": "p2,p3"}], None),
        ("p1", [{TENANT_METADATA_KEY: "p2"}], "p2"),
        ("p1", [{TENANT_METADATA_KEY: "p3,p2"}, {"a": "p1"}], "p2, p3"),
        ("p1", [{f"{TENANT_METADATA_KEY}2": "p2"}], "p2"),
        (None, [{TENANT_METADATA_KEY: "p2"}], "p2"),
        ("p", [{TENANT_METADATA_KEY: "1,2,3,4,5"}], "1, 2, 3 and 2 more"),
        ("P1", [{TENANT_METADATA_KEY: "p1"}], "p1"),
    ],
)
def test_host_of_other_projects_is_rejected(project, metadata, projects):
    requester = f"by project {project}" if project else "without a project"
    reason = projects and f"requested {requester}, the host is for {projects}"
    assert find_filter_rejection(project, *metadata) == reason


def test_suggested_change_adds_the_project_and_lets_the_host_pass():
    plugin, request = AggregateMultiTenancyIsolation(), build_spec(project_id="p9")
    host = build_host_state(aggregates=build_aggregates({TENANT_METADATA_KEY: "p2,p1"}))
    (change,) = plugin.suggested_changes(host, request)
    assert (change.action, change.values) == (
        "tag_aggregate",
        {"key": TENANT_METADATA_KEY, "allowed": ["p1", "p2"]},
    )
    assert change.words == "add project p9 to filter_tenant_id of the host's aggregates"
    assert find_rejection(plugin, host, change.spec) is None
