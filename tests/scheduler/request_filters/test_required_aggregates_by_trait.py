# SPDX-License-Identifier: Apache-2.0
"""required_aggregates_by_trait: who requires a trait goes where it is reserved."""

from uuid import UUID

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.request_filters.required_aggregates_by_trait import (
    RequiredAggregatesByTrait,
)
from tests.scheduler.explained import explained, put_aggregate, put_hosts
from tests.scheduler.worlds import AWorld, applied
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

A, B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}
SWITCH = "scheduler__required_aggregates_by_trait"
ISOLATE = "scheduler__enable_isolated_aggregate_filtering"


def uuids(*numbers):
    return [str(UUID(int=number)) for number in numbers]


def offered(metadata, extra_specs=None, properties=None, **fields):
    """Return the numbers of the aggregates offered for each trait; None where none is asked."""
    asked = a_spec(extra_specs, properties, **fields)
    outcome = applied(RequiredAggregatesByTrait, asked, AWorld.of(*metadata))
    if outcome is None:
        return None
    told = outcome.changes["aggregates_by_trait"]
    joined = tuple(",".join(each) for each in told.values())
    assert outcome.spec.destination.aggregates == (*asked.destination.aggregates, *joined)
    return {trait: [UUID(uuid).int for uuid in each] for trait, each in told.items()}


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "properties", "expected"),
    [
        ([A], A, {}, {"CUSTOM_A": [1]}),
        ([A], {}, A, {"CUSTOM_A": [1]}),
        ([{}, A, A], A, {}, {"CUSTOM_A": [2, 3]}),
        ([A, B], A | B, {}, {"CUSTOM_A": [1], "CUSTOM_B": [2]}),
        ([A | B], A, B, {"CUSTOM_A": [1], "CUSTOM_B": [1]}),
        ([A], A | B, {}, {"CUSTOM_A": [1]}),
        ([A], {"trait1:CUSTOM_A": "required"}, {}, {"CUSTOM_A": [1]}),
        ([A], {}, {"trait1:CUSTOM_A": "required"}, {"CUSTOM_A": [1]}),
        (
            [{"trait:COMPUTE_SECURITY_TPM_2_0": "required"}],
            {"hw:tpm_version": "2.0"},
            {},
            {"COMPUTE_SECURITY_TPM_2_0": [1]},
        ),
    ],
    ids=[
        "flavor",
        "image",
        "any of several",
        "each trait its own",
        "both in one",
        "trait without aggregates",
        "flavor's suffix",
        "image's suffix",
        "translated",
    ],
)
def test_host_must_be_in_an_aggregate_of_each_trait(metadata, extra_specs, properties, expected):
    assert offered(metadata, extra_specs, properties) == expected


@pytest.mark.parametrize(
    ("metadata", "extra_specs"),
    [
        ([A], {}),
        ([A], B),
        ([A], {"trait:CUSTOM_A": "forbidden"}),
        ([{"trait:CUSTOM_A": "forbidden"}], A),
        ([{"trait:CUSTOM_A": "Required"}], A),
        ([{"CUSTOM_A": "required"}], A),
        ([], A),
    ],
    ids=[
        "nothing required",
        "another required",
        "forbidden by the flavor",
        "forbidden in the metadata",
        "other value",
        "other key",
        "no aggregates",
    ],
)
def test_nothing_is_asked_where_no_aggregate_is_tagged_with_what_is_required(metadata, extra_specs):
    assert offered(metadata, extra_specs) is None


def test_traits_of_ports_count():
    port = {"requester_id": "port", "resources": {"X": 1}, "required_traits": ["CUSTOM_A"]}
    assert offered([A], requested_resources=[port]) == {"CUSTOM_A": [1]}


def test_traits_of_the_root_that_callers_ask_for_do_not_count():
    assert offered([A], request_level_params={"root_required": ["CUSTOM_A"]}) is None


def test_aggregates_of_the_request_itself_are_needed_as_well():
    before = {"aggregates": [",".join(uuids(7, 8))]}
    assert offered([A], A, requested_destination=before) == {"CUSTOM_A": [1]}


def test_aggregates_that_are_forbidden_already_are_not_offered():
    before = {"forbidden_aggregates": [uuids(1)[0].upper()]}
    assert offered([A, A], A, requested_destination=before) == {"CUSTOM_A": [2]}


def test_request_to_which_all_of_them_are_forbidden_finds_no_host():
    asked = a_spec(A, requested_destination={"forbidden_aggregates": uuids(1)})
    assert applied(RequiredAggregatesByTrait, asked, AWorld.of(A)) == Rejection(
        "every aggregate with trait:CUSTOM_A=required is forbidden to the request", asked="CUSTOM_A"
    )


def test_filter_runs_last_and_with_require_alone():
    assert plugins_for(settings_with()).request_filters[-1].name == RequiredAggregatesByTrait.name
    plugin = RequiredAggregatesByTrait()
    for value, expected in (("off", False), ("prefer", False), ("require", True)):
        assert plugin.enabled(settings_with(**{SWITCH: value})) == expected
    assert not plugin.enabled(settings_with())


def test_other_values_are_refused_by_name():
    with pytest.raises(Invalid, match="required_aggregates_by_trait"):
        with_overrides(settings_with(), {"scheduler.required_aggregates_by_trait": "must"})


# From end to end


@pytest.fixture
def cloud(sqlite_app):
    """Two licensed hosts, one with the trait that is in no aggregate, and a plain one."""
    licensed = ["CUSTOM_A"]
    put_hosts(sqlite_app, cn1=[], stray=licensed, win1=licensed, win2=licensed)
    put_aggregate(sqlite_app, 1, A, "win1", "win2")
    return sqlite_app


BY_IMAGE = {"image": {"properties": A}}


def test_licensed_hosts_are_neither_wasted_nor_missed(cloud):
    both = {SWITCH: "require", ISOLATE: True}
    assert explained(cloud, spec(), **both).hosts == ["cn1", "stray"]
    licensed = explained(cloud, spec(**BY_IMAGE), **both)
    assert licensed.hosts == ["win1", "win2"]
    assert licensed.told_by("required_aggregates_by_trait") == {
        "applied": True,
        "changes": {"aggregates_by_trait": {"CUSTOM_A": uuids(1)}},
    }
    assert licensed.query["member_of"] == [f"in:{uuids(1)[0]}"]


def test_host_that_merely_has_the_trait_will_do_by_default(cloud):
    told = explained(cloud, spec(**BY_IMAGE), **{ISOLATE: True})
    assert told.hosts == ["stray", "win1", "win2"]
    assert told.told_by("required_aggregates_by_trait") == {"applied": False, "changes": {}}


def test_aggregate_that_asks_for_more_is_not_offered(cloud):
    put_aggregate(cloud, 2, A | B, "stray")
    told = explained(cloud, spec(**BY_IMAGE), **{SWITCH: "require", ISOLATE: True})
    assert told.hosts == ["win1", "win2"]
    assert told.told_by("required_aggregates_by_trait")["changes"] == {
        "aggregates_by_trait": {"CUSTOM_A": uuids(1)}
    }


def test_request_for_two_traits_needs_an_aggregate_of_each(sqlite_app):
    both = ["CUSTOM_A", "CUSTOM_B"]
    put_hosts(sqlite_app, one=both, other=both, rich=both)
    put_aggregate(sqlite_app, 1, A, "one", "rich")
    put_aggregate(sqlite_app, 2, B, "other", "rich")
    told = explained(
        sqlite_app, spec(flavor=flavor(extra_specs=B), **BY_IMAGE), **{SWITCH: "require"}
    )
    assert told.hosts == ["rich"]
    assert sorted(told.query["member_of"]) == [f"in:{uuid}" for uuid in uuids(1, 2)]


def test_refusal_is_told_in_the_funnel(cloud):
    asked = spec(requested_destination={"forbidden_aggregates": uuids(1)}, **BY_IMAGE)
    told = explained(cloud, asked, **{SWITCH: "require"})
    assert told.hosts == []
    assert told.told_by("required_aggregates_by_trait")["refusal"] == (
        "every aggregate with trait:CUSTOM_A=required is forbidden to the request"
    )
