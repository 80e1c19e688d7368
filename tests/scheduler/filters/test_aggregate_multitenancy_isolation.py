# SPDX-License-Identifier: Apache-2.0
"""AggregateMultiTenancyIsolation, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.aggregate_multitenancy_isolation import (
    AggregateMultiTenancyIsolation,
)
from tests.support.states import a_host, a_spec, aggregates

KEY = "filter_tenant_id"


def refusal(project, *metadata):
    plugin = AggregateMultiTenancyIsolation()
    host, spec = a_host(aggregates=aggregates(*metadata)), a_spec(project_id=project)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("project", "metadata"),
    [
        ("p1", []),
        ("p1", [{"ssd": "true"}]),
        (None, [{"ssd": "true"}]),
        ("p1", [{KEY: "p1"}]),
        ("p2", [{KEY: "p1, p2"}]),
        ("p2", [{KEY: "p1"}, {KEY: "p2"}]),
        ("p3", [{KEY: "p1", f"{KEY}3": "p3"}]),
        ("p3", [{f"{KEY}_more": "p2,p3"}]),
    ],
)
def test_host_that_is_for_the_project_or_for_all_passes(project, metadata):
    assert refusal(project, *metadata) is None


@pytest.mark.parametrize(
    ("project", "metadata", "reason"),
    [
        ("p1", [{KEY: "p2"}], "requested by project p1, the host is for p2"),
        ("p1", [{KEY: "p3,p2"}, {"a": "p1"}], "requested by project p1, the host is for p2, p3"),
        ("p1", [{f"{KEY}2": "p2"}], "requested by project p1, the host is for p2"),
        (None, [{KEY: "p2"}], "requested by project None, the host is for p2"),
        ("p", [{KEY: "1,2,3,4,5"}], "requested by project p, the host is for 1, 2, 3 and 2 more"),
        ("P1", [{KEY: "p1"}], "requested by project P1, the host is for p1"),
    ],
)
def test_host_that_is_for_others_is_refused_with_them(project, metadata, reason):
    assert refusal(project, *metadata) == reason


def test_filter_runs_once_per_request():
    assert not AggregateMultiTenancyIsolation().run_filter_for_index(1)
