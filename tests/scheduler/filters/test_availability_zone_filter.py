# SPDX-License-Identifier: Apache-2.0
"""Host filter by availability zones, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.availability_zone_filter import AvailabilityZoneFilter
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_settings,
    build_spec,
    find_rejection,
)


def find_filter_rejection(zone, *metadata, **options):
    plugin = AvailabilityZoneFilter.with_settings(build_settings(**options))
    host = build_host_state(aggregates=build_aggregates(*metadata))
    return find_rejection(plugin, host, build_spec(availability_zone=zone))


def build_zone_metadata(*zones):
    return [{"availability_zone": zone} for zone in zones]


@pytest.mark.parametrize(
    ("zone", "metadata", "reason"),
    [
        (None, build_zone_metadata("az1"), None),
        ("", build_zone_metadata("az1"), None),
        (",", build_zone_metadata("az1"), None),
        ("az1", build_zone_metadata("az1"), None),
        ("az1", [{"ssd": "true"}, *build_zone_metadata("az1")], None),
        ("az2", build_zone_metadata("az1, az2"), None),
        ("az1,az2", build_zone_metadata("az2"), None),
        ("az3 , az2", build_zone_metadata("az1,az2"), None),
        ("nova", [], None),
        ("nova", [{"ssd": "true"}], None),
        ("nova", build_zone_metadata(""), None),
        ("az1,nova", [], None),
        ("nova", build_zone_metadata("nova"), None),
        ("az1", build_zone_metadata("az2"), "zone az1 requested, the host is in az2"),
        ("az1", [], "zone az1 requested, the host is in nova"),
        ("nova", build_zone_metadata("az1"), "zone nova requested, the host is in az1"),
        ("AZ1", build_zone_metadata("az1"), "zone AZ1 requested, the host is in az1"),
        (
            "az3,az1",
            build_zone_metadata("az4,az2"),
            "zone az1 or az3 requested, the host is in az2, az4",
        ),
    ],
)
def test_host_in_other_availability_zones_is_rejected(zone, metadata, reason):
    assert find_filter_rejection(zone, *metadata) == reason


def test_host_without_a_zone_is_in_the_configured_default_zone():
    option = {"DEFAULT__default_availability_zone": "home"}
    assert find_filter_rejection("home", **option) is None
    assert find_filter_rejection("nova", **option) == "zone nova requested, the host is in home"
