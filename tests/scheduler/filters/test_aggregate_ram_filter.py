"""AggregateRamFilter: memory times the ratio of aggregates. Source: "Filter Scheduler", Stein."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_ram_filter import AggregateRamFilter
from tests.scheduler.states import a_host, a_spec, aggregates

KEY = "ram_allocation_ratio"


def refusal(host):
    plugin = AggregateRamFilter()
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


def host_in(*metadata):
    return a_host(
        aggregates=aggregates(*metadata),
        total_usable_ram_mb=1024,
        free_ram_mb=0,
        ram_allocation_ratio=1.0,
    )


@pytest.mark.parametrize(
    ("metadata", "limit"),
    [([{KEY: "1.5"}], 1536), ([{KEY: "10"}, {KEY: "9"}], 9216)],
)
def test_smallest_ratio_of_the_aggregates_counts(metadata, limit):
    host = host_in(*metadata)
    assert refusal(host) is None
    assert host.limits == {"memory_mb": limit}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([], "512 MB asked, 0 free of 1024 x 1"),
        ([{"cpu_allocation_ratio": "4"}], "512 MB asked, 0 free of 1024 x 1"),
        ([{KEY: "1.25"}, {KEY: "2"}], "512 MB asked, 256 free of 1024 x 1.25"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_ratio(metadata, reason):
    assert refusal(host_in(*metadata)) == reason


def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        told = refusal(host_in({KEY: "1.5x"}, {KEY: "2"}))
    assert told == "512 MB asked, 0 free of 1024 x 1"
    assert "1.5x" in caplog.text
