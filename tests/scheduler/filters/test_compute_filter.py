# SPDX-License-Identifier: Apache-2.0
"""Host filter for enabled hosts that are up."""

from datetime import timedelta

import pytest

from placement_sched.scheduler.filters.compute_filter import ComputeFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import (
    NOW,
    build_host_state,
    build_service,
    build_settings,
    build_spec,
    find_rejection,
)


def find_filter_rejection(host, **options):
    plugin = ComputeFilter.with_settings(build_settings(**options), lambda: NOW)
    return find_rejection(plugin, host, build_spec())


def build_host_with_heartbeat_age(seconds, **changes):
    service = build_service(last_seen_up=NOW - timedelta(seconds=seconds), **changes)
    return build_host_state(service=service)


@pytest.mark.parametrize(
    ("seconds", "options", "reason"),
    [
        (0, {}, None),
        (60, {}, None),
        (61, {}, "no heartbeat for 61 s"),
        (93, {"DEFAULT__service_down_time": 100}, None),
        (11, {"DEFAULT__service_down_time": 10}, "no heartbeat for 11 s"),
    ],
)
def test_host_without_heartbeat_is_rejected_after_service_down_time(seconds, options, reason):
    assert find_filter_rejection(build_host_with_heartbeat_age(seconds), **options) == reason


def test_host_of_an_unknown_service_is_rejected_and_a_dictionary_is_accepted():
    assert find_filter_rejection(HostState("cn1", "cn1")) == "no heartbeat ever"
    service = {"disabled": False, "last_seen_up": NOW}
    assert find_filter_rejection(build_host_state(service=service)) is None


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
def test_host_of_a_disabled_or_down_service_is_rejected(changes, reason):
    assert find_filter_rejection(build_host_state(service=build_service(**changes))) == reason
