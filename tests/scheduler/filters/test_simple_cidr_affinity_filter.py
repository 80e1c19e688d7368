# SPDX-License-Identifier: Apache-2.0
"""SimpleCIDRAffinityFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from tests.support.states import a_host, a_spec, refusal_of


def by_address(host_ip, **hints):
    plugin, asked = SimpleCIDRAffinityFilter(), a_spec(scheduler_hints=hints)
    plugin.check(asked)
    return refusal_of(plugin, a_host(host_ip=host_ip), asked)


@pytest.mark.parametrize(
    ("host_ip", "hints"),
    [
        ("10.8.1.1", {}),
        (None, {"cidr": "/30"}),
        ("10.8.1.77", {"build_near_host_ip": "10.8.1.100"}),
        ("10.8.1.77", {"build_near_host_ip": "10.8.2.100", "cidr": "/16"}),
        ("10.8.1.77", {"build_near_host_ip": "10.8.1.76", "cidr": "30"}),
        ("10.8.1.77", {"build_near_host_ip": ["0.0.0.0"], "cidr": ["/0"]}),
        ("2001:db8::7", {"build_near_host_ip": "2001:db8::1", "cidr": "/64"}),
    ],
    ids=str,
)
def test_host_in_the_subnet_passes_and_any_without_the_hint(host_ip, hints):
    assert by_address(host_ip, **hints) is None


@pytest.mark.parametrize(
    ("host_ip", "hints", "reason"),
    [
        (
            "10.8.2.1",
            {"build_near_host_ip": "10.8.1.100"},
            "an address in 10.8.1.0/24 requested, 10.8.2.1 found",
        ),
        (
            "10.8.1.1",
            {"build_near_host_ip": "10.8.1.100", "cidr": "/30"},
            "an address in 10.8.1.100/30 requested, 10.8.1.1 found",
        ),
        (
            "10.8.1.1",
            {"build_near_host_ip": "2001:db8::1", "cidr": "/64"},
            "an address in 2001:db8::/64 requested, 10.8.1.1 found",
        ),
        (
            None,
            {"build_near_host_ip": "10.8.1.1"},
            "an address in 10.8.1.0/24 requested, the host reports none",
        ),
    ],
    ids=str,
)
def test_host_outside_the_subnet_is_refused_with_both(host_ip, hints, reason):
    assert by_address(host_ip, **hints) == reason


@pytest.mark.parametrize(
    ("hints", "told"),
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
def test_hints_that_cannot_be_are_told_with_their_place(hints, told):
    with pytest.raises(Invalid, match=told):
        by_address("10.0.0.1", **hints)
