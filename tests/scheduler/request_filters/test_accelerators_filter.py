# SPDX-License-Identifier: Apache-2.0
"""accelerators_filter: accelerators need hosts that can handle them."""

import pytest

from placement_sched.scheduler.request_filters.root_traits import AcceleratorsFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

TRAIT = "COMPUTE_ACCELERATORS"
PROFILE = {"accel:device_profile": "fpga"}


def test_device_profile_asks_for_the_trait():
    assert root_required(AcceleratorsFilter, a_spec(PROFILE)) == [TRAIT]


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({}, {}),
        ({"accel:device_profile": ""}, {}),
        ({"device_profile": "fpga"}, {}),
        ({}, {"accel:device_profile": "fpga"}),
    ],
    ids=["none", "empty", "no namespace", "image"],
)
def test_nothing_is_asked_without_a_profile_in_the_flavor(extra_specs, properties):
    assert applied(AcceleratorsFilter, a_spec(extra_specs, properties)) is None


def test_trait_that_is_asked_already_is_asked_once():
    asked = a_spec(PROFILE, request_level_params={"root_required": [TRAIT]})
    outcome = applied(AcceleratorsFilter, asked)
    assert (outcome.spec, outcome.changes) == (asked, {})


def test_filter_is_always_on():
    assert AcceleratorsFilter().enabled(settings_with())


def test_hosts_without_the_trait_are_no_candidates(sqlite_app):
    put_hosts(sqlite_app, cn1=[TRAIT], cn2=[])
    told = explained(sqlite_app, spec(flavor=flavor(extra_specs=PROFILE)))
    assert told.told_by("accelerators_filter") == {
        "applied": True,
        "changes": {"root_required": [TRAIT]},
    }
    assert told.query["root_required"] == [f"{TRAIT},!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn1"]
    plain = explained(sqlite_app, spec())
    assert plain.told_by("accelerators_filter") == {"applied": False, "changes": {}}
    assert plain.hosts == ["cn1", "cn2"]
