# SPDX-License-Identifier: Apache-2.0
"""AvailabilityZoneFilter. Source: nova's "Filter Scheduler", Stein: commas mean any zone."""

import pytest

from placement_sched.scheduler.filters.availability_zone_filter import AvailabilityZoneFilter
from tests.support.states import a_host, a_spec, aggregates, settings_with


def refusal(zone, *metadata, **options):
    plugin = AvailabilityZoneFilter.with_settings(settings_with(**options))
    host, spec = a_host(aggregates=aggregates(*metadata)), a_spec(availability_zone=zone)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


def of(*zones):
    return [{"availability_zone": zone} for zone in zones]


@pytest.mark.parametrize(
    ("zone", "metadata"),
    [
        (None, of("az1")),
        ("", of("az1")),
        (",", of("az1")),
        ("az1", of("az1")),
        ("az1", [{"ssd": "true"}, *of("az1")]),
        ("az2", of("az1, az2")),
        ("az1,az2", of("az2")),
        ("az3 , az2", of("az1,az2")),
        ("nova", []),
        ("nova", [{"ssd": "true"}]),
        ("nova", of("")),
        ("az1,nova", []),
        ("nova", of("nova")),
    ],
)
def test_host_in_any_zone_that_is_asked_for_passes(zone, metadata):
    assert refusal(zone, *metadata) is None


@pytest.mark.parametrize(
    ("zone", "metadata", "reason"),
    [
        ("az1", of("az2"), "zone az1 requested, the host is in az2"),
        ("az1", [], "zone az1 requested, the host is in nova"),
        ("nova", of("az1"), "zone nova requested, the host is in az1"),
        ("AZ1", of("az1"), "zone AZ1 requested, the host is in az1"),
        ("az3,az1", of("az4,az2"), "zone az1 or az3 requested, the host is in az2, az4"),
    ],
)
def test_host_in_other_zones_is_refused_with_them(zone, metadata, reason):
    assert refusal(zone, *metadata) == reason


def test_default_zone_is_an_option():
    option = {"DEFAULT__default_availability_zone": "home"}
    assert refusal("home", **option) is None
    assert refusal("nova", **option) == "zone nova requested, the host is in home"


def test_filter_runs_once_per_request():
    assert not AvailabilityZoneFilter().run_filter_for_index(1)
