"""CoreFilter: CPUs times ratio. Sources: nova's "Filter Scheduler" of Icehouse and Stein."""

import logging

import pytest

from placement_sched.scheduler.filters.core_filter import CoreFilter
from tests.scheduler.states import a_host, a_spec, settings_with


def asking(vcpus):
    return a_spec(flavor={"name": "f", "vcpus": vcpus})


def refusal(vcpus, host, **options):
    plugin = CoreFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, asking(vcpus))
    assert plugin.host_passes(host, asking(vcpus)) is (found is None)
    return found and found.reason


def host_with(total, used, ratio):
    return a_host(vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio)


@pytest.mark.parametrize(
    ("vcpus", "total", "used", "ratio"),
    [(4, 8, 4, 1.0), (8, 8, 8, 2.0), (0, 8, 8, 1.0), (1, 4, 63, 16.0), (3, 8, 1, 0.5)],
)
def test_host_with_enough_left_passes_and_is_given_its_limit(vcpus, total, used, ratio):
    host = host_with(total, used, ratio)
    assert refusal(vcpus, host) is None
    assert host.limits == {"vcpu": total * ratio}


@pytest.mark.parametrize(
    ("vcpus", "total", "used", "ratio", "reason"),
    [
        (5, 8, 4, 1.0, "5 VCPU asked, 4 free of 8 x 1"),
        (2, 4, 63, 16.0, "2 VCPU asked, 1 free of 4 x 16"),
        (1, 4, 7, 1.5, "1 VCPU asked, -1 free of 4 x 1.5"),
        (9, 8, 0, 16.0, "9 VCPU asked, the host has 8 in all"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_numbers(vcpus, total, used, ratio, reason):
    assert refusal(vcpus, host_with(total, used, ratio)) == reason


@pytest.mark.parametrize("told", [None, 0.0])
def test_host_without_a_ratio_has_that_of_the_options(told):
    host = host_with(8, 8, told)
    assert refusal(8, host, DEFAULT__cpu_allocation_ratio=2.0) is None
    assert refusal(8, host, DEFAULT__initial_cpu_allocation_ratio=1.5) == (
        "8 VCPU asked, 4 free of 8 x 1.5"
    )


def test_host_that_does_not_tell_its_cpus_passes_and_is_logged(caplog):
    host = host_with(0, 0, None)
    with caplog.at_level(logging.WARNING):
        assert refusal(64, host) is None
    assert "host cn1 does not tell how many CPUs it has" in caplog.text
    assert host.limits == {}


def test_filter_runs_for_each_instance_but_not_on_rebuild():
    assert CoreFilter().run_filter_for_index(1)
    assert not CoreFilter.RUN_ON_REBUILD


def test_instances_of_one_request_count_against_each_other():
    host = host_with(8, 4, 1.0)
    assert refusal(3, host) is None
    host.consume_from_request(asking(3))
    assert refusal(3, host) == "3 VCPU asked, 1 free of 8 x 1"
