# SPDX-License-Identifier: Apache-2.0
"""Weigher of moves to other cells, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.cross_cell import CrossCellWeigher
from tests.scheduler.weights.weighing import find_raw_weights, weigh_hosts
from tests.support.states import build_host_state, build_spec

A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
HOSTS = [
    build_host_state("cn1", cell_uuid=B),
    build_host_state("cn2", cell_uuid=A),
    build_host_state("cn3"),
]
LOCAL = {"cell": A, "allow_cross_cell_move": True}


def build_request_with_destination(destination):
    return build_spec(requested_destination=destination)


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (LOCAL, {"cn1": -1, "cn2": 1, "cn3": -1}),
        ({**LOCAL, "cell": A.upper().replace("-", "")}, {"cn1": -1, "cn2": 1, "cn3": -1}),
        ({**LOCAL, "allow_cross_cell_move": False}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({"cell": A}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({"allow_cross_cell_move": True}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        (None, {"cn1": 0, "cn2": 0, "cn3": 0}),
    ],
    ids=str,
)
def test_hosts_of_the_cell_are_preferred_if_a_move_may_leave_the_cell(destination, expected):
    weights = find_raw_weights(CrossCellWeigher, HOSTS, build_request_with_destination(destination))
    assert weights == expected
    assert {
        host.host: CrossCellWeigher()._weigh_object(
            host, build_request_with_destination(destination)
        )
        for host in HOSTS
    } == expected


def test_default_multiplier_is_large_and_may_be_negative():
    answer = weigh_hosts(CrossCellWeigher, HOSTS, build_request_with_destination(LOCAL))
    assert answer == [("cn2", 1000000.0), ("cn1", 0.0), ("cn3", 0.0)]
    options = {"filter_scheduler__cross_cell_move_weight_multiplier": -1.0}
    answer = weigh_hosts(CrossCellWeigher, HOSTS, build_request_with_destination(LOCAL), **options)
    assert answer == [("cn1", 0.0), ("cn3", 0.0), ("cn2", -1.0)]
