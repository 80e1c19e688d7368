# SPDX-License-Identifier: Apache-2.0
"""Host filter by failure domain."""

from dataclasses import replace

import pytest

from placement_sched.model.preferences import Spread, SpreadRequest
from placement_sched.scheduler.filters.topology_spread_filter import TopologySpreadFilter
from tests.support.scheduling import make_uuid
from tests.support.states import build_host_state, build_spec, find_rejection

SOFT_ANTI_AFFINITY_GROUP = {"policy": "soft-anti-affinity"}
RACKS_BY_HOST = {"cn1": ("r1",), "cn2": ("r2",), "cn3": ("r2",)}
SKEW_REJECTION_REASON = (
    "Domain rack=r1 has 3 members, the emptiest (r2) has 1: skew 3 after placement exceeds "
    "max_skew 1"
)


def build_spread_request(*, is_hard=True, current_hosts=None, **members):
    request = SpreadRequest("rack", 1, is_hard=is_hard, path="$")
    spread = Spread(
        request, RACKS_BY_HOST, frozenset({"r1", "r2"}), current_hosts=current_hosts or {}
    )
    spec = build_spec(instance_group=SOFT_ANTI_AFFINITY_GROUP, instance_uuids=[make_uuid(1)])
    return replace(spec, spread=spread.with_members(members))


def find_filter_rejection(spec, host):
    return find_rejection(TopologySpreadFilter(), build_host_state(host), spec)


def test_rejection_reason_names_the_domain_and_its_number_of_members():
    spec = build_spread_request(cn1=3, cn3=1)
    assert find_filter_rejection(spec, "cn1") == SKEW_REJECTION_REASON
    assert (find_filter_rejection(spec, "cn2"), find_filter_rejection(spec, "cn3")) == (None, None)
    assert "no aggregate of the host has metadata 'rack'" in find_filter_rejection(spec, "cn4")


def test_rejection_is_computed_once_for_all_hosts_of_a_domain():
    check = TopologySpreadFilter().prepare(build_spread_request(cn2=5))
    assert check(build_host_state("cn2")) is check(build_host_state("cn3")) is not None


@pytest.mark.parametrize("spec", [build_spec(), build_spread_request(is_hard=False, cn1=3)])
def test_every_host_passes_without_a_hard_spread(spec):
    assert TopologySpreadFilter().prepare(spec) is None
    assert find_filter_rejection(spec, "cn1") is None
    assert not TopologySpreadFilter().compares_hosts(spec)


def test_moving_instance_may_stay_on_its_host():
    spec = build_spread_request(cn1=3, current_hosts={make_uuid(1): "cn1"})
    assert find_filter_rejection(spec, "cn1") is None
    assert find_filter_rejection(spec.with_instance(make_uuid(2)), "cn1") is not None


def test_suggested_changes_let_the_host_pass():
    spec, host = build_spread_request(cn1=3, cn3=1), build_host_state("cn1")
    changes = list(TopologySpreadFilter().suggested_changes(host, spec))
    assert [(change.action, change.words, change.values) for change in changes] == [
        ("raise_skew", "raise max_skew to 3", {"max_skew": 3}),
        ("leave_group", "request an instance outside the server group", {}),
    ]
    assert [find_filter_rejection(change.spec, "cn1") for change in changes] == [None, None]
    (only,) = TopologySpreadFilter().suggested_changes(build_host_state("cn4"), spec)
    assert only.action == "leave_group"
