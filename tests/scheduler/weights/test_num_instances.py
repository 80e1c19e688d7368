# SPDX-License-Identifier: Apache-2.0
"""Weigher of the number of instances, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from tests.scheduler.weights.weighing import raw_weights, weigh_hosts
from tests.support.states import build_aggregates, build_host_state

HOSTS = [
    build_host_state("cn1", num_instances=5),
    build_host_state("cn2", num_instances=7),
    build_host_state("cn3", num_instances=3),
]
MULTIPLIER = "filter_scheduler__num_instances_weight_multiplier"


def test_default_multiplier_is_0():
    assert weigh_hosts(NumInstancesWeigher, HOSTS) == [("cn1", 0.0), ("cn2", 0.0), ("cn3", 0.0)]
    assert raw_weights(NumInstancesWeigher, HOSTS) == {"cn1": 5, "cn2": 7, "cn3": 3}


@pytest.mark.parametrize(
    ("multiplier", "expected"),
    [
        (2.0, [("cn2", 2.0), ("cn1", 1.0), ("cn3", 0.0)]),
        (-2.0, [("cn3", 0.0), ("cn1", -1.0), ("cn2", -2.0)]),
    ],
    ids=["to stack", "to spread"],
)
def test_multiplier_prefers_many_or_few_instances(multiplier, expected):
    assert weigh_hosts(NumInstancesWeigher, HOSTS, **{MULTIPLIER: multiplier}) == expected


def test_aggregates_may_have_another_multiplier():
    answer = {"num_instances_weight_multiplier": "1.5"}
    hosts = [*HOSTS, build_host_state("cn4", num_instances=5, aggregates=build_aggregates(answer))]
    assert weigh_hosts(NumInstancesWeigher, hosts)[0] == ("cn4", 0.75)
