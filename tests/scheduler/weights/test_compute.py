# SPDX-License-Identifier: Apache-2.0
"""BuildFailureWeigher, as nova 34 weighs the same hosts."""

from dataclasses import asdict

from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights.compute import BuildFailureWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.weights.weighing import raw, run, weighed
from tests.support.states import a_host, a_spec, aggregates, settings_with

HOSTS = [
    a_host("cn1", failed_builds=4),
    a_host("cn2", failed_builds=0),
    a_host("cn3", failed_builds=1),
]
NAME = "BuildFailureWeigher"
KEY = "build_failure_weight_multiplier"


def test_more_failures_weigh_down_more():
    assert weighed(BuildFailureWeigher, HOSTS) == [
        ("cn2", 0.0),
        ("cn3", -250000.0),
        ("cn1", -1000000.0),
    ]
    assert raw(BuildFailureWeigher, HOSTS) == {"cn1": 4, "cn2": 0, "cn3": 1}


def test_multiplier_is_told_with_its_sign():
    told = run(BuildFailureWeigher, HOSTS)
    assert asdict(told.reports[0]) == {"name": NAME, "multiplier": -1000000.0}
    assert told.host_reports()[-1].weights[NAME].as_json() == {
        "raw": 4,
        "normalized": 1.0,
        "multiplier": -1000000.0,
        "weighted": -1000000.0,
    }


def test_one_failure_outweighs_any_amount_of_free_memory():
    settings = settings_with()
    weighers = [kind.with_settings(settings) for kind in (RAMWeigher, BuildFailureWeigher)]
    hosts = [
        a_host("big", free_ram_mb=10_000_000, failed_builds=1),
        a_host("small", free_ram_mb=512),
    ]
    assert run_weighers(weighers, hosts, a_spec()).hosts[0].obj.host == "small"


def test_zero_heeds_no_failures():
    told = weighed(BuildFailureWeigher, HOSTS, filter_scheduler__build_failure_weight_multiplier=0)
    assert told == [("cn1", 0.0), ("cn2", 0.0), ("cn3", 0.0)]


def test_of_several_aggregates_the_smallest_multiplier_counts_and_against_the_host():
    lenient = aggregates({KEY: "5"}, {KEY: "3"})
    failing = a_host("cn4", failed_builds=4, aggregates=lenient)
    liking = a_host("cn5", failed_builds=4, aggregates=aggregates({KEY: "-2"}))
    told = dict(weighed(BuildFailureWeigher, [*HOSTS, failing]))
    assert told["cn4"] == -3.0
    told = dict(weighed(BuildFailureWeigher, [*HOSTS, liking]))
    assert told["cn5"] == 2.0
