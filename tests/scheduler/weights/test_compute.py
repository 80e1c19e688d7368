# SPDX-License-Identifier: Apache-2.0
"""Weigher by failed builds, as in nova 34."""

from placement_sched.scheduler.weights import run_weighers
from placement_sched.scheduler.weights.compute import BuildFailureWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.weights.weighing import build_hosts, check_sign_of_multiplier, run_weigher
from tests.support.explanations import build_weight
from tests.support.states import build_settings, build_spec


def test_sign_of_the_multiplier_prefers_few_or_many_failed_builds():
    check_sign_of_multiplier(BuildFailureWeigher, build_hosts(failed_builds=(2, 4, 0)))


def test_multiplier_of_build_failures_is_reported_with_its_sign():
    result = run_weigher(BuildFailureWeigher, build_hosts(failed_builds=(4, 0, 1)))
    name = "BuildFailureWeigher"
    assert result.reports[0].as_json() == {"name": name, "multiplier": -1000000.0}
    assert result.build_host_reports()[-1].weights[name].as_json() == build_weight(
        1.0, 4, -1000000.0
    )


def test_one_failed_build_outweighs_free_memory():
    settings = build_settings()
    weighers = [kind.with_settings(settings) for kind in (RAMWeigher, BuildFailureWeigher)]
    hosts = build_hosts(free_ram_mb=(10_000_000, 512), failed_builds=(1, 0))
    assert run_weighers(weighers, hosts, build_spec()).hosts[0].obj.host == "cn2"
