# SPDX-License-Identifier: Apache-2.0
"""Request filter that maps availability zones to aggregates."""

from uuid import UUID

import pytest

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.fake_cloud import FakeCloud, build_aggregate_uuids
from tests.support.scheduling import make_spec
from tests.support.states import build_settings, build_spec

CELL_UUID = str(UUID(int=99))
ZONE_AGGREGATE_METADATA = (
    {"availability_zone": "az1"},
    {"availability_zone": "az2"},
    {"availability_zone": "az1"},
    {"ssd": "true"},
    {"availability_zone": "az3, az4"},
)


def apply_filter(zone, **fields):
    plugin = MapAZToPlacementAggregate.with_settings(build_settings())
    assert plugin.enabled(plugin.settings)
    return plugin.apply(
        build_spec(availability_zone=zone, **fields),
        FakeCloud.with_metadata(*ZONE_AGGREGATE_METADATA),
    )


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
def test_request_requires_the_aggregates_of_its_zones(zone, numbers):
    outcome = apply_filter(zone)
    assert outcome.spec.destination.aggregates == (",".join(build_aggregate_uuids(*numbers)),)
    assert outcome.changes == {"aggregates": build_aggregate_uuids(*numbers)}


@pytest.mark.parametrize("zone", [None, ""])
def test_request_without_a_zone_does_not_change(zone):
    assert apply_filter(zone) is None


@pytest.mark.parametrize("zone", ["az9", "AZ1", "az", "az9,az8", " , "])
def test_unknown_zone_is_rejected_with_its_name(zone):
    outcome = apply_filter(zone)
    assert isinstance(outcome, Rejection)
    assert (outcome.kind, outcome.requested) == ("unknown_zone", zone)
    assert repr(zone) in describe_rejection(outcome)


def test_default_zone_forbids_the_aggregates_of_other_zones():
    outcome = apply_filter("nova")
    assert outcome.spec.destination.aggregates == ()
    assert list(outcome.spec.destination.forbidden_aggregates) == build_aggregate_uuids(1, 2, 3, 5)
    assert outcome.changes == {"forbidden_aggregates": build_aggregate_uuids(1, 2, 3, 5)}
    outcome = apply_filter("nova,az1")
    assert list(outcome.spec.destination.forbidden_aggregates) == build_aggregate_uuids(2, 5)
    outcome = apply_filter(
        "nova", requested_destination={"forbidden_aggregates": build_aggregate_uuids(1, 9)}
    )
    uuids = list(outcome.spec.destination.forbidden_aggregates)
    assert uuids == build_aggregate_uuids(1, 9, 2, 3, 5)
    assert outcome.changes == {"forbidden_aggregates": build_aggregate_uuids(2, 3, 5)}


@pytest.mark.parametrize(
    ("default", "metadata", "changes"),
    [
        ("nova", [{"ssd": "true"}], {}),
        (
            "nova",
            [{"availability_zone": "az1"}, {"availability_zone": "az2,nova"}],
            {"forbidden_aggregates": build_aggregate_uuids(1)},
        ),
        (
            "home",
            [{"availability_zone": "az1"}],
            {"forbidden_aggregates": build_aggregate_uuids(1)},
        ),
    ],
)
def test_default_zone_is_the_configured_zone(default, metadata, changes):
    settings = build_settings(DEFAULT__default_availability_zone=default)
    plugin = MapAZToPlacementAggregate.with_settings(settings)
    outcome = plugin.apply(
        build_spec(availability_zone=default), FakeCloud.with_metadata(*metadata)
    )
    assert outcome.changes == changes
    assert isinstance(
        plugin.apply(
            build_spec(availability_zone="x"), FakeCloud.with_metadata(*ZONE_AGGREGATE_METADATA)
        ),
        Rejection,
    )


#: Names of hosts in nova, and fields of a request that moves an instance.
HOST_AND_MOVE_REQUESTS = {
    "forced host": {"force_hosts": ["cn1"]},
    "forced node": {"force_nodes": ["cn1"]},
    "live migration to a host": {"requested_destination": {"host": "cn1", "node": "cn1"}},
    "live migration": {"requested_destination": {"cell": CELL_UUID}, "ignore_hosts": ["cn2"]},
    "evacuation": {"ignore_hosts": ["cn2"]},
    "unshelve": {"requested_destination": {"cell": CELL_UUID}},
}


@pytest.mark.parametrize("target", HOST_AND_MOVE_REQUESTS.values(), ids=HOST_AND_MOVE_REQUESTS)
def test_only_a_known_zone_applies_to_requested_hosts_and_moves(target):
    assert apply_filter("nova", **target) is None
    assert apply_filter("gone", **target) is None
    assert apply_filter("az2", **target).changes == {"aggregates": build_aggregate_uuids(2)}


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    """Four hosts: in zone az1, in zone az2, in both zones, and in no zone."""
    app = make_shared_app()
    put_hosts(app, cn1=[], cn2=[], cn3=[], cn4=[])
    for number, zones in enumerate(("az1", "az2", "az1,az2"), 1):
        put_aggregate(app, number, {"availability_zone": zones}, f"cn{number}")
    return app


def list_candidate_hosts(cloud, zone, **target):
    return explain_request(cloud, make_spec(availability_zone=zone, **target)).hosts


def test_candidate_hosts_are_those_of_the_requested_zone(cloud):
    expected = {
        "az1": ["cn1", "cn3"],
        "az2,nowhere": ["cn2", "cn3"],
        "az1,az2": ["cn1", "cn2", "cn3"],
        "nova": ["cn4"],
        "nova,az1": ["cn1", "cn3", "cn4"],
        None: ["cn1", "cn2", "cn3", "cn4"],
        # A zone may name a host as in nova's API.
        "nova:cn1": ["cn1"],
        "az2:cn1": ["cn1"],
        "gone:cn4:cn4": ["cn4"],
        "nova::cn2": ["cn2"],
        ":cn3": ["cn3"],
        "az1:": ["cn1", "cn3"],
        "nova:cn1:cn2": [],
    }
    assert {zone: list_candidate_hosts(cloud, zone) for zone in expected} == expected


def test_availability_zone_with_more_parts_than_host_and_node_is_400(cloud):
    body = {"request_spec": make_spec(availability_zone="nova:cn1:cn1:cn1")}
    response = cloud.post_json("/scheduler/v1/explain", body, status=400)
    assert "(at $.request_spec.availability_zone)" in response.json["errors"][0]["detail"]


def test_funnel_names_an_unknown_zone_and_suggests_a_similar_one(cloud):
    for zone, similar in {"mars": [], "az9": ["az1"], "AZ2": ["az2"]}.items():
        hint = f". Did you mean {similar[0]!r}?" if similar else ""
        response = explain_request(cloud, make_spec(availability_zone=zone))
        assert response.hosts == []
        reason = response.get_request_filter_report("map_az_to_placement_aggregate")["rejection"]
        zones = "(zones: az1, az2, nova)"
        assert reason == f"no aggregate has the availability zone {zone!r} {zones}{hint}"
        assert response.result["funnel"]["obstacle"] == {
            "stage": "request_filters",
            "name": "map_az_to_placement_aggregate",
            "reason": f"map_az_to_placement_aggregate rejected the request: {reason}",
            "filter": "map_az_to_placement_aggregate",
            "kind": "unknown_zone",
            "requested": zone,
            "zones": ["az1", "az2", "nova"],
            "similar_names": similar,
        }
