# SPDX-License-Identifier: Apache-2.0
"""Host filter by subnet, as nova 34 decides."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from tests.support.states import build_host_state, build_spec, find_rejection


def find_filter_rejection(host_ip, **hints):
    plugin, request = SimpleCIDRAffinityFilter(), build_spec(scheduler_hints=hints)
    plugin.check(request)
    return find_rejection(plugin, build_host_state(host_ip=host_ip), request)


@pytest.mark.parametrize(
    ("host_ip", "near", "cidr", "subnet"),
    [
        ("10.8.1.1", None, None, None),
        (None, None, "/30", None),
        ("10.8.1.77", "10.8.1.100", None, None),
        ("10.8.1.77", "10.8.2.100", "/16", None),
        ("10.8.1.77", "10.8.1.76", "30", None),
        ("10.8.1.77", ["0.0.0.0"], ["/0"], None),
        ("2001:db8::7", "2001:db8::1", "/64", None),
        ("10.8.2.1", "10.8.1.100", None, "10.8.1.0/24"),
        ("10.8.1.1", "10.8.1.100", "/30", "10.8.1.100/30"),
        ("10.8.1.1", "2001:db8::1", "/64", "2001:db8::/64"),
        (None, "10.8.1.1", None, "10.8.1.0/24"),
    ],
)
def test_host_outside_the_subnet_is_rejected(host_ip, near, cidr, subnet):
    hints = {"build_near_host_ip": near, "cidr": cidr}
    hints = {key: value for key, value in hints.items() if value is not None}
    host_text = f"{host_ip} found" if host_ip else "the host reports none"
    reason = subnet and f"an address in {subnet} requested, {host_text}"
    assert find_filter_rejection(host_ip, **hints) == reason


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (
            {"build_near_host_ip": "cn1"},
            "'cn1' is not an address .*scheduler_hints.build_near_host_ip",
        ),
        ({"build_near_host_ip": "10.0.0.1", "cidr": "/33"}, "'/33' is not a prefix .*hints.cidr"),
        ({"build_near_host_ip": "10.0.0.1", "cidr": "/x"}, "'/x' is not a prefix .*hints.cidr"),
        (
            {"build_near_host_ip": ["10.0.0.1", "10.0.0.2"]},
            "expected a single value .*near_host_ip",
        ),
        (
            {"build_near_host_ip": "10.0.0.1", "cidr": ["/1", "/2"]},
            "expected a single value .*cidr",
        ),
    ],
    ids=str,
)
def test_error_for_an_invalid_hint_has_its_path_in_the_request(hints, expected):
    with pytest.raises(Invalid, match=expected):
        find_filter_rejection("10.0.0.1", **hints)
