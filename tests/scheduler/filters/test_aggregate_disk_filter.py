"""AggregateDiskFilter: disk times the ratio of aggregates. Source: "Filter Scheduler", Stein."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_disk_filter import AggregateDiskFilter
from tests.scheduler.states import a_host, a_spec, aggregates

KEY = "disk_allocation_ratio"


def refusal(host):
    plugin = AggregateDiskFilter()
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


def host_in(*metadata):
    return a_host(
        aggregates=aggregates(*metadata),
        total_usable_disk_gb=2,
        free_disk_mb=0,
        disk_allocation_ratio=1.0,
    )


@pytest.mark.parametrize(
    ("metadata", "limit"),
    [([{KEY: "1.5"}], 3.0), ([{KEY: "10"}, {KEY: "9"}], 18.0)],
)
def test_smallest_ratio_of_the_aggregates_counts(metadata, limit):
    host = host_in(*metadata)
    assert refusal(host) is None
    assert host.limits == {"disk_gb": limit}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([], "1024 MB of disk asked, 0 free of 2048 x 1"),
        ([{"ram_allocation_ratio": "4"}], "1024 MB of disk asked, 0 free of 2048 x 1"),
        ([{KEY: "1.25"}, {KEY: "2"}], "1024 MB of disk asked, 512 free of 2048 x 1.25"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_ratio(metadata, reason):
    assert refusal(host_in(*metadata)) == reason


def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        told = refusal(host_in({KEY: "double"}, {KEY: "2"}))
    assert told == "1024 MB of disk asked, 0 free of 2048 x 1"
    assert "double" in caplog.text
