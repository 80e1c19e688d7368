"""map_az_to_placement_aggregate: zones become aggregates, commas mean any."""

from uuid import UUID

import pytest

from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from tests.scheduler.states import a_spec, aggregates, settings_with

CLOUD = (
    {"availability_zone": "az1"},
    {"availability_zone": "az2"},
    {"availability_zone": "az1"},
    {"ssd": "true"},
    {"availability_zone": "az3, az4"},
)


class Cloud:
    def host_aggregates(self):
        return aggregates(*CLOUD)


def apply(zone, **fields):
    plugin = MapAZToPlacementAggregate.with_settings(settings_with())
    assert plugin.enabled(plugin.settings)
    return plugin.apply(a_spec(availability_zone=zone, **fields), Cloud())


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
    ],
)
def test_request_is_confined_to_the_aggregates_of_its_zones(zone, numbers):
    outcome = apply(zone)
    assert outcome.spec.destination.aggregates == (",".join(uuids(*numbers)),)
    assert outcome.changes == {"aggregates": uuids(*numbers)}


def test_aggregates_that_the_request_requires_itself_are_required_as_well():
    outcome = apply("az2", requested_destination={"aggregates": ["x,y"]})
    assert outcome.spec.destination.aggregates == ("x,y", *uuids(2))


@pytest.mark.parametrize("zone", [None, "", " , "])
def test_request_without_a_zone_is_not_touched(zone):
    assert apply(zone) is None


@pytest.mark.parametrize("zone", ["az9", "AZ1", "az", "az9,az8"])
def test_zone_that_no_aggregate_has_is_refused_by_name(zone):
    outcome = apply(zone)
    assert isinstance(outcome, Refusal)
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
    class Plain:
        def host_aggregates(self):
            return aggregates({"ssd": "true"})

    plugin = MapAZToPlacementAggregate.with_settings(settings_with())
    spec = a_spec(availability_zone="nova")
    assert plugin.apply(spec, Plain()).spec == spec
