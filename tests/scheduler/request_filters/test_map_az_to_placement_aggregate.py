# SPDX-License-Identifier: Apache-2.0
"""map_az_to_placement_aggregate: zones become aggregates, commas mean any."""

from uuid import UUID

import pytest

from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from tests.scheduler.explained import explained, put_aggregate, put_hosts
from tests.scheduler.worlds import AWorld
from tests.support.scheduling import spec
from tests.support.states import a_spec, settings_with

CELL = str(UUID(int=99))
CLOUD = (
    {"availability_zone": "az1"},
    {"availability_zone": "az2"},
    {"availability_zone": "az1"},
    {"ssd": "true"},
    {"availability_zone": "az3, az4"},
)


def apply(zone, **fields):
    plugin = MapAZToPlacementAggregate.with_settings(settings_with())
    assert plugin.enabled(plugin.settings)
    return plugin.apply(a_spec(availability_zone=zone, **fields), AWorld.of(*CLOUD))


def uuids(*numbers):
    return [str(UUID(int=number)) for number in numbers]


@pytest.mark.parametrize(
    ("zone", "numbers"),
    [
        ("az2", [2]),
        ("az1", [1, 3]),
        ("az1,az2", [1, 2, 3]),
        ("az2 , az1", [1, 2, 3]),
        ("az4", [5]),
        ("az4,nowhere", [5]),
        ("nowhere,az4", [5]),
        ("az3,az4", [5]),
        (",az2,", [2]),
        ("az1,az4", [1, 3, 5]),
    ],
)
def test_request_is_confined_to_the_aggregates_of_its_zones(zone, numbers):
    outcome = apply(zone)
    assert outcome.spec.destination.aggregates == (",".join(uuids(*numbers)),)
    assert outcome.changes == {"aggregates": uuids(*numbers)}


def test_aggregates_that_the_request_requires_itself_are_required_as_well():
    outcome = apply("az2", requested_destination={"aggregates": ["x,y"]})
    assert outcome.spec.destination.aggregates == ("x,y", *uuids(2))


@pytest.mark.parametrize("zone", [None, ""])
def test_request_without_a_zone_is_not_touched(zone):
    assert apply(zone) is None


@pytest.mark.parametrize("zone", ["az9", "AZ1", "az", "az9,az8", " , "])
def test_zone_that_no_aggregate_has_is_refused_by_name(zone):
    outcome = apply(zone)
    assert isinstance(outcome, Rejection)
    assert repr(zone) in outcome.reason


def test_hosts_of_the_default_zone_are_those_in_no_other():
    outcome = apply("nova")
    assert outcome.spec.destination.aggregates == ()
    assert list(outcome.spec.destination.forbidden_aggregates) == uuids(1, 2, 3, 5)
    assert outcome.changes == {"forbidden_aggregates": uuids(1, 2, 3, 5)}


def test_default_zone_beside_another_leaves_that_one_open():
    outcome = apply("nova,az1")
    assert list(outcome.spec.destination.forbidden_aggregates) == uuids(2, 5)


def test_default_zone_of_a_cloud_without_zones_is_everywhere():
    plugin = MapAZToPlacementAggregate.with_settings(settings_with())
    asked = a_spec(availability_zone="nova")
    outcome = plugin.apply(asked, AWorld.of({"ssd": "true"}))
    assert (outcome.spec, outcome.changes) == (asked, {})


def test_aggregate_may_name_the_default_zone():
    plugin = MapAZToPlacementAggregate.with_settings(settings_with())
    world = AWorld.of({"availability_zone": "az1"}, {"availability_zone": "az2,nova"})
    outcome = plugin.apply(a_spec(availability_zone="nova"), world)
    assert outcome.changes == {"forbidden_aggregates": uuids(1)}


def test_default_zone_is_the_configured_one():
    settings = settings_with(DEFAULT__default_availability_zone="home")
    plugin = MapAZToPlacementAggregate.with_settings(settings)
    asked = a_spec(availability_zone="home")
    outcome = plugin.apply(asked, AWorld.of({"availability_zone": "az1"}))
    assert outcome.changes == {"forbidden_aggregates": uuids(1)}
    refused = plugin.apply(a_spec(availability_zone="nova"), AWorld.of(*CLOUD))
    assert isinstance(refused, Rejection)


def test_aggregates_that_the_request_forbids_stay_forbidden():
    before = {"forbidden_aggregates": uuids(1, 9)}
    outcome = apply("nova", requested_destination=before)
    assert list(outcome.spec.destination.forbidden_aggregates) == uuids(1, 9, 2, 3, 5)
    assert outcome.changes == {"forbidden_aggregates": uuids(2, 3, 5)}


#: How nova names hosts, and what it sends when an instance moves.
NAMING = {
    "forced host": {"force_hosts": ["cn1"]},
    "forced node": {"force_nodes": ["cn1"]},
    "live migration to a host": {"requested_destination": {"host": "cn1", "node": "cn1"}},
    "live migration": {"requested_destination": {"cell": CELL}, "ignore_hosts": ["cn2"]},
    "evacuation": {"ignore_hosts": ["cn2"]},
    "unshelve": {"requested_destination": {"cell": CELL}},
}


@pytest.mark.parametrize("naming", NAMING.values(), ids=NAMING)
@pytest.mark.parametrize("zone", ["nova", "gone"])
def test_zone_that_no_aggregate_has_does_not_confine_named_hosts_and_moves(zone, naming):
    assert apply(zone, **naming) is None


@pytest.mark.parametrize("naming", NAMING.values(), ids=NAMING)
def test_zone_that_an_aggregate_has_confines_named_hosts_and_moves(naming):
    assert apply("az2", **naming).changes == {"aggregates": uuids(2)}


# From end to end


@pytest.fixture
def cloud(sqlite_app):
    """A host in each of two zones, one in both by commas, and one in none."""
    put_hosts(sqlite_app, cn1=[], cn2=[], cn3=[], cn4=[])
    put_aggregate(sqlite_app, 1, {"availability_zone": "az1"}, "cn1")
    put_aggregate(sqlite_app, 2, {"availability_zone": "az2"}, "cn2")
    put_aggregate(sqlite_app, 3, {"availability_zone": "az1,az2"}, "cn3")
    return sqlite_app


@pytest.mark.parametrize(
    ("zone", "hosts"),
    [
        ("az1", ["cn1", "cn3"]),
        ("az2,nowhere", ["cn2", "cn3"]),
        ("az1,az2", ["cn1", "cn2", "cn3"]),
        ("nova", ["cn4"]),
        ("nova,az1", ["cn1", "cn3", "cn4"]),
        (None, ["cn1", "cn2", "cn3", "cn4"]),
    ],
)
def test_hosts_of_the_zone_are_the_candidates(cloud, zone, hosts):
    assert explained(cloud, spec(availability_zone=zone)).hosts == hosts


@pytest.mark.parametrize("zone", ["nova", "gone"])
@pytest.mark.parametrize(
    ("naming", "hosts"),
    [
        ({"force_hosts": ["cn1"]}, ["cn1"]),
        ({"requested_destination": {"host": "cn1", "node": "cn1"}}, ["cn1"]),
        ({"ignore_hosts": ["cn1"]}, ["cn2", "cn3", "cn4"]),
    ],
    ids=["forced host", "live migration to a host", "evacuation"],
)
def test_named_hosts_and_moves_are_placed_whatever_became_of_the_zone(cloud, zone, naming, hosts):
    assert explained(cloud, spec(availability_zone=zone, **naming)).hosts == hosts


@pytest.mark.parametrize(
    ("zone", "hosts"),
    [
        ("nova:cn1", ["cn1"]),
        ("az2:cn1", ["cn1"]),
        ("gone:cn4:cn4", ["cn4"]),
        ("nova::cn2", ["cn2"]),
        (":cn3", ["cn3"]),
        ("az1:", ["cn1", "cn3"]),
        ("nova:cn1:cn2", []),
    ],
)
def test_a_zone_may_force_a_host_as_in_novas_api(cloud, zone, hosts):
    assert explained(cloud, spec(availability_zone=zone)).hosts == hosts


def test_a_zone_with_more_than_host_and_node_is_400(cloud):
    body = {"request_spec": spec(availability_zone="nova:cn1:cn1:cn1")}
    answer = cloud.post_json("/scheduler/v1/explain", body, status=400)
    assert "(at $.request_spec.availability_zone)" in answer.json["errors"][0]["detail"]


def test_funnel_and_question_name_the_aggregates(cloud):
    told = explained(cloud, spec(availability_zone="az1"))
    assert told.told_by("map_az_to_placement_aggregate") == {
        "applied": True,
        "changes": {"aggregates": uuids(1, 3)},
    }
    assert told.query["member_of"] == [f"in:{','.join(uuids(1, 3))}"]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("mars", ""), ("az9", "; did you mean 'az1'?"), ("AZ2", "; did you mean 'az2'?")],
)
def test_zone_that_is_nowhere_is_told_in_the_funnel(cloud, asked, meant):
    told = explained(cloud, spec(availability_zone=asked))
    assert told.hosts == []
    told_by = told.told_by("map_az_to_placement_aggregate")
    assert told_by["refusal"] == (
        f"no aggregate has the availability zone {asked!r} (zones: az1, az2, nova){meant}"
    )
    assert told.answer["funnel"]["obstacle"] == {
        "stage": "request_filters",
        "name": "map_az_to_placement_aggregate",
        "reason": f"map_az_to_placement_aggregate rejected the request: {told_by['refusal']}",
    }
