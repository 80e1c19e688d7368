# SPDX-License-Identifier: Apache-2.0
"""Weigher of moves to other cells, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.cross_cell import CrossCellWeigher
from tests.scheduler.weights.weighing import find_raw_weights
from tests.support.states import build_host_state, build_spec

CELL_A_UUID, CELL_B_UUID = (
    "aaaaaaaa-0000-4000-8000-00000000000a",
    "bbbbbbbb-0000-4000-8000-00000000000b",
)
HOSTS = [
    build_host_state("cn1", cell_uuid=CELL_B_UUID),
    build_host_state("cn2", cell_uuid=CELL_A_UUID),
    build_host_state("cn3"),
]
CROSS_CELL_MOVE = {"cell": CELL_A_UUID, "allow_cross_cell_move": True}


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (CROSS_CELL_MOVE, {"cn1": -1, "cn2": 1, "cn3": -1}),
        (
            {**CROSS_CELL_MOVE, "cell": CELL_A_UUID.upper().replace("-", "")},
            {"cn1": -1, "cn2": 1, "cn3": -1},
        ),
        ({**CROSS_CELL_MOVE, "allow_cross_cell_move": False}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({"cell": CELL_A_UUID}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({"allow_cross_cell_move": True}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        ({}, {"cn1": 0, "cn2": 0, "cn3": 0}),
        (None, {"cn1": 0, "cn2": 0, "cn3": 0}),
    ],
    ids=str,
)
def test_hosts_of_the_cell_are_preferred_if_a_move_may_leave_the_cell(destination, expected):
    spec, plugin = build_spec(requested_destination=destination), CrossCellWeigher()
    assert find_raw_weights(CrossCellWeigher, HOSTS, spec) == expected
    assert {host.host: plugin._weigh_object(host, spec) for host in HOSTS} == expected
