# SPDX-License-Identifier: Apache-2.0
"""NumInstancesWeigher, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from tests.scheduler.weights.weighing import raw, weighed
from tests.support.states import a_host, aggregates

HOSTS = [
    a_host("cn1", num_instances=5),
    a_host("cn2", num_instances=7),
    a_host("cn3", num_instances=3),
]
MULTIPLIER = "filter_scheduler__num_instances_weight_multiplier"


def test_it_does_not_count_by_default():
    assert weighed(NumInstancesWeigher, HOSTS) == [("cn1", 0.0), ("cn2", 0.0), ("cn3", 0.0)]
    assert raw(NumInstancesWeigher, HOSTS) == {"cn1": 5, "cn2": 7, "cn3": 3}


@pytest.mark.parametrize(
    ("multiplier", "expected"),
    [
        (2.0, [("cn2", 2.0), ("cn1", 1.0), ("cn3", 0.0)]),
        (-2.0, [("cn3", 0.0), ("cn1", -1.0), ("cn2", -2.0)]),
    ],
    ids=["to stack", "to spread"],
)
def test_multiplier_says_whether_many_or_few_are_liked(multiplier, expected):
    assert weighed(NumInstancesWeigher, HOSTS, **{MULTIPLIER: multiplier}) == expected


def test_aggregates_may_switch_it_on_for_their_hosts():
    told = {"num_instances_weight_multiplier": "1.5"}
    hosts = [*HOSTS, a_host("cn4", num_instances=5, aggregates=aggregates(told))]
    assert weighed(NumInstancesWeigher, hosts)[0] == ("cn4", 0.75)
