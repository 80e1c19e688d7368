# SPDX-License-Identifier: Apache-2.0
"""CrossCellWeigher, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.cross_cell import CrossCellWeigher
from tests.scheduler.weights.weighing import raw, weighed
from tests.support.states import a_host, a_spec, aggregates

A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
HOSTS = [a_host("cn1", cell_uuid=B), a_host("cn2", cell_uuid=A), a_host("cn3")]
LOCAL = {"cell": A, "allow_cross_cell_move": True}


def moving(destination):
    return a_spec(requested_destination=destination)


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
    ids=[
        "allowed",
        "another spelling",
        "not allowed",
        "not said",
        "no cell",
        "anywhere",
        "no destination",
    ],
)
def test_hosts_of_the_cell_are_preferred_where_a_move_may_leave_it(destination, expected):
    assert raw(CrossCellWeigher, HOSTS, moving(destination)) == expected
    assert {
        host.host: CrossCellWeigher()._weigh_object(host, moving(destination)) for host in HOSTS
    } == expected


def test_another_cell_is_the_last_resort():
    told = weighed(CrossCellWeigher, HOSTS, moving(LOCAL))
    assert told == [("cn2", 1000000.0), ("cn1", 0.0), ("cn3", 0.0)]


def test_negative_multiplier_prefers_other_cells():
    options = {"filter_scheduler__cross_cell_move_weight_multiplier": -1.0}
    told = weighed(CrossCellWeigher, HOSTS, moving(LOCAL), **options)
    assert told == [("cn1", 0.0), ("cn3", 0.0), ("cn2", -1.0)]


def test_aggregates_may_have_another_multiplier():
    local = aggregates({"cross_cell_move_weight_multiplier": "-2"})
    hosts = [*HOSTS, a_host("cn4", cell_uuid=A, aggregates=local)]
    assert weighed(CrossCellWeigher, hosts, moving(LOCAL))[-1] == ("cn4", -2.0)
