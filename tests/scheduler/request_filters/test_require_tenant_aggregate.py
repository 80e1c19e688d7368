# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires the aggregates of the project."""

from uuid import UUID

import pytest

from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.request_filters.require_tenant_aggregate import (
    RequireTenantAggregate,
)
from tests.scheduler.fake_cloud import FakeCloud, build_aggregate_uuids, run_request_filter
from tests.support.states import build_spec

AGGREGATE_REQUIRED_OPTION = "scheduler__placement_aggregate_required_for_tenants"
PROJECT_P1_METADATA = {"filter_tenant_id": "p1"}


def find_required_aggregates(metadata, project="p1", **fields):
    """Return the numbers of the aggregates that the project requires."""
    outcome = run_request_filter(
        RequireTenantAggregate,
        build_spec(project_id=project, **fields),
        FakeCloud.with_metadata(*metadata),
    )
    added = outcome.changes.get("aggregates", [])
    assert outcome.spec.destination.aggregates == ((",".join(added),) if added else ())
    return [UUID(uuid).int for uuid in added]


@pytest.mark.parametrize(
    ("metadata", "numbers"),
    [
        ([PROJECT_P1_METADATA], [1]),
        ([{"filter_tenant_id": "p2"}, PROJECT_P1_METADATA], [2]),
        ([PROJECT_P1_METADATA, {}, PROJECT_P1_METADATA], [1, 3]),
        ([{"filter_tenant_id3": "p1"}], [1]),
        ([{"filter_tenant_id": "p2", "filter_tenant_id_more": "p1"}], [1]),
        ([{"filter_tenant_id": "p0,p1,p2"}], [1]),
        ([{"filter_tenant_id": "p0 , p1"}], [1]),
        ([{"filter_tenant_id": "p11"}], []),
        ([{"filter_tenant_id": "P1"}], []),
        ([{"filter_tenant_id": ""}], []),
        ([{"tenant_id": "p1", "project": "p1"}], []),
        ([{"my_filter_tenant_id": "p1"}], []),
        ([], []),
    ],
    ids=str,
)
def test_aggregates_of_the_project_are_required(metadata, numbers):
    assert find_required_aggregates(metadata) == numbers


@pytest.mark.parametrize("project", [None, ""])
@pytest.mark.parametrize("value", ["p1", "", ",", "None"])
def test_request_without_a_project_requires_no_aggregate(project, value):
    assert find_required_aggregates([{"filter_tenant_id": value}], project) == []


def test_project_without_an_aggregate_is_rejected_if_the_option_requires_an_aggregate():
    request, world = build_spec(project_id="p9"), FakeCloud.with_metadata(PROJECT_P1_METADATA)
    outcome = run_request_filter(RequireTenantAggregate, request, world)
    assert (outcome.spec, outcome.changes) == (request, {})
    rejection = run_request_filter(
        RequireTenantAggregate, request, world, **{AGGREGATE_REQUIRED_OPTION: True}
    )
    assert rejection == Rejection(kind="no_project_aggregate", requested="p9")
    request = build_spec(project_id="p1")
    outcome = run_request_filter(
        RequireTenantAggregate, request, world, **{AGGREGATE_REQUIRED_OPTION: True}
    )
    assert outcome.changes == {"aggregates": build_aggregate_uuids(1)}
