# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires the aggregates of the project."""

from uuid import UUID

import pytest

from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.request_filters.require_tenant_aggregate import (
    RequireTenantAggregate,
)
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.fake_cloud import FakeCloud, run_request_filter
from tests.support.scheduling import spec
from tests.support.states import build_spec

SWITCH = "scheduler__limit_tenants_to_placement_aggregate"
NEEDED = "scheduler__placement_aggregate_required_for_tenants"
P1 = {"filter_tenant_id": "p1"}


def build_aggregate_uuids(*numbers):
    return [str(UUID(int=number)) for number in numbers]


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
        ([P1], [1]),
        ([{"filter_tenant_id": "p2"}, P1], [2]),
        ([P1, {}, P1], [1, 3]),
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
def test_request_without_a_project_has_no_aggregate(project, value):
    assert find_required_aggregates([{"filter_tenant_id": value}], project) == []


def test_project_without_an_aggregate_is_rejected_if_one_is_required():
    request, world = build_spec(project_id="p9"), FakeCloud.with_metadata(P1)
    outcome = run_request_filter(RequireTenantAggregate, request, world)
    assert (outcome.spec, outcome.changes) == (request, {})
    rejection = run_request_filter(RequireTenantAggregate, request, world, **{NEEDED: True})
    assert rejection == Rejection("no aggregate is tagged with project 'p9'", asked="p9")
    request = build_spec(project_id="p1")
    outcome = run_request_filter(RequireTenantAggregate, request, world, **{NEEDED: True})
    assert outcome.changes == {"aggregates": build_aggregate_uuids(1)}


def test_candidates_of_a_project_are_in_its_aggregates(sqlite_app):
    """A host for project p1, a host for p2, and a host for everybody."""
    put_hosts(sqlite_app, cn1=[], cn2=[], cn3=[])
    put_aggregate(sqlite_app, 1, P1, "cn1")
    put_aggregate(sqlite_app, 2, {"filter_tenant_id": "p2"}, "cn2")
    every = ["cn1", "cn2", "cn3"]
    for project, options, hosts, aggregates in (
        ("p1", [SWITCH], ["cn1"], build_aggregate_uuids(1)),
        ("p1", [], every, []),
        ("p9", [SWITCH], every, []),
        ("p9", [SWITCH, NEEDED], [], []),
    ):
        enabled = dict.fromkeys(options, True)
        answer = explain_request(sqlite_app, spec(project_id=project), **enabled)
        report = answer.filter_report("require_tenant_aggregate")
        assert report["applied"] is bool(enabled)
        assert report["changes"] == ({"aggregates": aggregates} if aggregates else {})
        assert answer.query.get("member_of", []) == [f"in:{uuid}" for uuid in aggregates]
        assert answer.hosts == hosts
    assert report["refusal"] == "no aggregate is tagged with project 'p9'"
