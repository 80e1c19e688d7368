"""AggregateCoreFilter: CPUs times the ratio of aggregates. Source: "Filter Scheduler", Stein."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_core_filter import AggregateCoreFilter
from tests.scheduler.states import a_host, a_spec, aggregates, settings_with

KEY = "cpu_allocation_ratio"


def refusal(host, **options):
    plugin = AggregateCoreFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


def host_in(*metadata, **attributes):
    fields = {"vcpus_total": 8, "vcpus_used": 16, "cpu_allocation_ratio": 2.0} | attributes
    return a_host(aggregates=aggregates(*metadata), **fields)


@pytest.mark.parametrize(
    ("metadata", "limit"),
    [
        ([{KEY: "4.0"}], 32),
        ([{KEY: "10"}, {KEY: "9"}], 72),
        ([{KEY: "3"}, {"ram_allocation_ratio": "1"}], 24),
    ],
)
def test_smallest_ratio_of_the_aggregates_counts(metadata, limit):
    host = host_in(*metadata)
    assert refusal(host) is None
    assert host.limits == {"vcpu": limit}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([], "1 VCPU asked, 0 free of 8 x 2"),
        ([{"other": "4"}], "1 VCPU asked, 0 free of 8 x 2"),
        ([{KEY: "1.5"}, {KEY: "16"}], "1 VCPU asked, -4 free of 8 x 1.5"),
        ([{KEY: "0"}], "1 VCPU asked, -16 free of 8 x 0"),
        ([{KEY: "4,5"}], "1 VCPU asked, 0 free of 8 x 2"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_ratio(metadata, reason):
    assert refusal(host_in(*metadata)) == reason


def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        told = refusal(host_in({KEY: "much"}, {KEY: "16"}))
    assert told == "1 VCPU asked, 0 free of 8 x 2"
    assert "host cn1: cpu_allocation_ratio of its aggregates is no number" in caplog.text


def test_host_without_any_ratio_has_that_of_the_options():
    host = host_in(cpu_allocation_ratio=None)
    assert refusal(host) is None
    assert refusal(host, DEFAULT__cpu_allocation_ratio=1.0) == "1 VCPU asked, -8 free of 8 x 1"
