# SPDX-License-Identifier: Apache-2.0
"""require_tenant_aggregate: projects go to the aggregates that are tagged with them."""

from uuid import UUID

import pytest

from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.request_filters.require_tenant_aggregate import (
    RequireTenantAggregate,
)
from tests.scheduler.explained import explained, put_aggregate, put_hosts
from tests.scheduler.worlds import AWorld, applied
from tests.support.scheduling import spec
from tests.support.states import a_spec, settings_with

SWITCH = "scheduler__limit_tenants_to_placement_aggregate"
NEEDED = "scheduler__placement_aggregate_required_for_tenants"
P1 = {"filter_tenant_id": "p1"}


def uuids(*numbers):
    return [str(UUID(int=number)) for number in numbers]


def confined_to(metadata, project="p1", **fields):
    """Return the numbers of the aggregates to which the project is confined."""
    outcome = applied(
        RequireTenantAggregate, a_spec(project_id=project, **fields), AWorld.of(*metadata)
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
    ids=[
        "key",
        "other project's left out",
        "any of several",
        "key with a number",
        "one key of several",
        "commas",
        "spaces around commas",
        "longer id",
        "case counts",
        "empty value",
        "other keys",
        "key that ends so",
        "no aggregates",
    ],
)
def test_project_is_confined_to_the_aggregates_tagged_with_it(metadata, numbers):
    assert confined_to(metadata) == numbers


@pytest.mark.parametrize("project", [None, ""])
@pytest.mark.parametrize("value", ["p1", "", ",", "None"])
def test_request_without_a_project_belongs_to_no_tag(project, value):
    assert confined_to([{"filter_tenant_id": value}], project) == []


def test_project_without_an_aggregate_may_use_any_host():
    asked = a_spec(project_id="p1")
    outcome = applied(RequireTenantAggregate, asked, AWorld.of({"filter_tenant_id": "p2"}))
    assert (outcome.spec, outcome.changes) == (asked, {})


def test_project_without_an_aggregate_finds_no_host_where_one_is_required():
    refusal = applied(
        RequireTenantAggregate,
        a_spec(project_id="p9"),
        AWorld.of({"filter_tenant_id": "p2"}),
        **{NEEDED: True},
    )
    assert refusal == Rejection("no aggregate is tagged with project 'p9'", asked="p9")


def test_project_with_an_aggregate_is_not_refused_where_one_is_required():
    outcome = applied(
        RequireTenantAggregate, a_spec(project_id="p1"), AWorld.of(P1), **{NEEDED: True}
    )
    assert outcome.changes == {"aggregates": uuids(1)}


def test_aggregates_of_the_request_itself_are_needed_as_well():
    asked = a_spec(
        project_id="p1",
        requested_destination={"aggregates": ["x,y"], "forbidden_aggregates": ["z"], "host": "h"},
    )
    destination = applied(RequireTenantAggregate, asked, AWorld.of(P1)).spec.destination
    assert destination.aggregates == ("x,y", *uuids(1))
    assert (destination.forbidden_aggregates, destination.host) == (("z",), "h")


def test_filter_is_off_by_default_and_needs_its_own_switch():
    plugin = RequireTenantAggregate()
    assert not plugin.enabled(settings_with())
    assert not plugin.enabled(settings_with(**{NEEDED: True}))
    assert plugin.enabled(settings_with(**{SWITCH: True}))


# From end to end


@pytest.fixture
def cloud(sqlite_app):
    """A host for project p1, one for p2 and one for everybody."""
    put_hosts(sqlite_app, cn1=[], cn2=[], cn3=[])
    put_aggregate(sqlite_app, 1, P1, "cn1")
    put_aggregate(sqlite_app, 2, {"filter_tenant_id": "p2"}, "cn2")
    return sqlite_app


def test_tagged_projects_hosts_are_the_candidates(cloud):
    told = explained(cloud, spec(project_id="p1"), **{SWITCH: True})
    assert told.told_by("require_tenant_aggregate") == {
        "applied": True,
        "changes": {"aggregates": uuids(1)},
    }
    assert told.query["member_of"] == [f"in:{uuids(1)[0]}"]
    assert told.hosts == ["cn1"]


def test_untagged_project_is_let_in_or_refused_as_configured(cloud):
    asked = spec(project_id="p9")
    assert explained(cloud, asked, **{SWITCH: True}).hosts == ["cn1", "cn2", "cn3"]
    refused = explained(cloud, asked, **{SWITCH: True, NEEDED: True})
    assert refused.hosts == []
    assert refused.told_by("require_tenant_aggregate") == {
        "applied": True,
        "changes": {},
        "refusal": "no aggregate is tagged with project 'p9'",
    }


def test_filter_that_is_off_leaves_the_question_as_it_is(cloud):
    told = explained(cloud, spec(project_id="p1"))
    assert told.told_by("require_tenant_aggregate") == {"applied": False, "changes": {}}
    assert "member_of" not in told.query
    assert told.hosts == ["cn1", "cn2", "cn3"]
