# SPDX-License-Identifier: Apache-2.0
"""Members of a server group by failure domain."""

import pytest

from placement_sched.model.preferences import Spread, SpreadRequest

DOMAINS = {"a": ("r1",), "b": ("r2",), "c": ("r1", "r3"), "e": ("r9",)}


def build_spread(max_skew=1, **members):
    request = SpreadRequest("rack", max_skew, is_hard=True, path="$")
    spread = Spread(request, DOMAINS, frozenset({"r1", "r2", "r3"}), own={"vm": "a"})
    return spread.with_members(members)


def find_rejection_reason(spread, host, instance="new"):
    rejection = spread.rejection(host, instance, spread.find_emptiest())
    return rejection and rejection.reason


def test_group_members_are_counted_by_domain():
    spread = build_spread(a=1, b=1, c=2, d=5)
    assert spread.members == {"r1": 3, "r2": 1, "r3": 2}
    assert [spread.members_beside(host) for host in "abcd"] == [3, 1, 3, None]
    assert spread.find_emptiest() == (1, "r2")
    assert spread.placed_on("c").placed_on("d").members == {"r1": 4, "r2": 1, "r3": 3}


@pytest.mark.parametrize(
    ("members", "max_skew", "host", "expected"),
    [
        ({"a": 3, "b": 1, "c": 0}, 1, "b", "1 member, the emptiest (r3) has 0: skew 2"),
        ({"a": 3, "b": 1, "c": 1}, 1, "a", "4 members, the emptiest (r2) has 1: skew 4"),
        ({"a": 3, "b": 1, "c": 1}, 4, "a", None),
        ({"a": 3, "b": 1, "c": 1}, 1, "b", None),
        ({}, 1, "a", None),
        # The smallest number of all domains of the host and of all eligible domains counts.
        ({"e": 1}, 1, "e", "1 member, the emptiest (r1) has 0: skew 2"),
        ({"a": 1, "b": 1, "c": 1}, 1, "e", None),
    ],
)
def test_host_is_rejected_if_the_skew_exceeds_the_maximum(members, max_skew, host, expected):
    domain = {"a": "r1", "b": "r2", "e": "r9"}[host]
    if expected is not None:
        expected = f"Domain rack={domain} has {expected} after placement exceeds max_skew 1"
    assert find_rejection_reason(build_spread(max_skew, **members), host) == expected


def test_host_in_several_domains_is_rejected_by_its_fullest_domain():
    assert "Domain rack=r1 has 2 members" in str(find_rejection_reason(build_spread(a=2), "c"))


def test_host_without_a_domain_is_rejected():
    expected = "no aggregate of the host has metadata 'rack', the domain to spread over"
    assert find_rejection_reason(build_spread(), "d") == expected


def test_moving_instance_may_stay_on_its_host():
    spread = build_spread(a=3)
    assert find_rejection_reason(spread, "a") is not None
    assert find_rejection_reason(spread, "a", "vm") is None
