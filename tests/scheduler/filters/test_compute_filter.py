# SPDX-License-Identifier: Apache-2.0
"""ComputeFilter: enabled and up."""

from datetime import timedelta

import pytest

from placement_sched.scheduler.filters.compute_filter import ComputeFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import NOW, a_host, a_service, a_spec, settings_with


def refusal(host, **options):
    plugin = ComputeFilter.with_settings(settings_with(**options), lambda: NOW)
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


def silent_for(seconds, **changes):
    service = a_service(last_seen_up=NOW - timedelta(seconds=seconds), **changes)
    return a_host(service=service)


@pytest.mark.parametrize("seconds", [0, 59, 60])
def test_host_heard_of_lately_passes(seconds):
    assert refusal(silent_for(seconds)) is None


def test_silent_host_is_refused_with_how_long_it_is_silent():
    assert refusal(silent_for(61)) == "no heartbeat for 61 s"
    assert refusal(silent_for(93)) == "no heartbeat for 93 s"


def test_how_long_a_host_may_be_silent_is_an_option():
    assert refusal(silent_for(93), DEFAULT__service_down_time=100) is None
    assert refusal(silent_for(11), DEFAULT__service_down_time=10) == "no heartbeat for 11 s"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"disabled": True}, "disabled"),
        ({"disabled": True, "disabled_reason": "disk broken"}, "disabled: disk broken"),
        ({"forced_down": True}, "forced down"),
        ({"last_seen_up": None}, "no heartbeat ever"),
        ({"disabled": True, "forced_down": True}, "disabled"),
    ],
)
def test_service_that_is_not_enabled_and_up_is_refused(changes, reason):
    assert refusal(a_host(service=a_service(**changes))) == reason


def test_host_without_a_known_service_is_refused():
    assert refusal(HostState("cn1", "cn1")) == "no heartbeat ever"


def test_service_may_be_a_plain_dict_as_in_nova():
    service = {"disabled": False, "last_seen_up": NOW}
    assert refusal(a_host(service=service)) is None
