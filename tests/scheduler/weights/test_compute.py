# SPDX-License-Identifier: Apache-2.0
"""Weigher of build failures, as nova 34 weighs the same hosts."""

from dataclasses import asdict

from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights.compute import BuildFailureWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.weights.weighing import raw_weights, weigh, weigh_hosts
from tests.support.explanations import weight
from tests.support.states import build_aggregates, build_host_state, build_spec, settings_with

HOSTS = [
    build_host_state("cn1", failed_builds=4),
    build_host_state("cn2", failed_builds=0),
    build_host_state("cn3", failed_builds=1),
]
NAME = "BuildFailureWeigher"
KEY = "build_failure_weight_multiplier"


def test_hosts_with_more_failures_have_lower_weights():
    weights = [("cn2", 0.0), ("cn3", -250000.0), ("cn1", -1000000.0)]
    assert weigh_hosts(BuildFailureWeigher, HOSTS) == weights
    assert raw_weights(BuildFailureWeigher, HOSTS) == {"cn1": 4, "cn2": 0, "cn3": 1}
    weights = weigh_hosts(BuildFailureWeigher, HOSTS, **{f"filter_scheduler__{KEY}": 0})
    assert weights == [("cn1", 0.0), ("cn2", 0.0), ("cn3", 0.0)]


def test_multiplier_is_reported_with_its_sign():
    answer = weigh(BuildFailureWeigher, HOSTS)
    assert asdict(answer.reports[0]) == {"name": NAME, "multiplier": -1000000.0}
    assert answer.host_reports()[-1].weights[NAME].as_json() == weight(1.0, 4, -1000000.0)


def test_one_failure_outweighs_free_memory():
    settings = settings_with()
    weighers = [kind.with_settings(settings) for kind in (RAMWeigher, BuildFailureWeigher)]
    hosts = [
        build_host_state("big", free_ram_mb=10_000_000, failed_builds=1),
        build_host_state("small", free_ram_mb=512),
    ]
    assert run_weighers(weighers, hosts, build_spec()).hosts[0].obj.host == "small"


def test_smallest_multiplier_of_the_aggregates_counts_negatively():
    lenient = build_aggregates({KEY: "5"}, {KEY: "3"})
    failing = build_host_state("cn4", failed_builds=4, aggregates=lenient)
    liking = build_host_state("cn5", failed_builds=4, aggregates=build_aggregates({KEY: "-2"}))
    answer = dict(weigh_hosts(BuildFailureWeigher, [*HOSTS, failing]))
    assert answer["cn4"] == -3.0
    answer = dict(weigh_hosts(BuildFailureWeigher, [*HOSTS, liking]))
    assert answer["cn5"] == 2.0
