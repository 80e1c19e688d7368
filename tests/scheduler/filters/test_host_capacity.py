# SPDX-License-Identifier: Apache-2.0
"""Remaining capacity of hosts, and numbers of their aggregates."""

import logging

import pytest

from placement_sched.scheduler.filters import (
    HostCapacity,
    find_aggregate_minimum,
    find_aggregate_ratio,
    get_reported_ratio,
)
from tests.scheduler.filters.ratio_filters import read_shortage
from tests.support.states import build_aggregates, build_host_state, build_settings


def find_smallest_metadata_number(*values):
    host = build_host_state(aggregates=build_aggregates(*({"most": value} for value in values)))
    return find_aggregate_minimum(host, "most", int, 7)


@pytest.mark.parametrize(
    ("values", "number"), [((), 7), (("3",), 3), (("10", "9"), 9), (("-1", "0"), -1), ((" 5 ",), 5)]
)
def test_smallest_number_of_the_aggregates_is_used(values, number, caplog):
    assert find_smallest_metadata_number(*values) == number
    assert not caplog.records


@pytest.mark.parametrize("values", [("x",), ("3", "x"), ("1.5",), ("3,4",), ("",)])
def test_invalid_number_in_aggregate_metadata_is_ignored_and_logged(values, caplog):
    with caplog.at_level(logging.WARNING):
        assert find_smallest_metadata_number(*values) == 7
    (record,) = caplog.records
    assert "host cn1: most of its aggregates is not a number" in record.getMessage()


CPU_RATIO_OPTION = "cpu_allocation_ratio"


@pytest.mark.parametrize(
    ("capacity", "amount", "shortage"),
    [
        (HostCapacity(8, 0, 1.0), 8, None),
        (HostCapacity(8, 8, 2.0), 8, None),
        (HostCapacity(8, 0, 0.5), 4, None),
        (HostCapacity(8, 9, 1.0), 0, (0, -1, 8, 1)),
        (HostCapacity(8, 1, 1.0), 8, (8, 7, 8, 1)),
        (HostCapacity(131072, 192512, 1.5), 8192, (8192, 4096, 131072, 1.5)),
        # Eleven tenths of ten are a little more than eleven, in floating point.
        (HostCapacity(10, 1, 1.1), 10, None),
        (HostCapacity(10, 2, 1.1), 10, (10, 9, 10, 1.1)),
        (HostCapacity(8, 0, 16.0), 9, (9, 128, 8, 16)),
        (HostCapacity(0, 0, 16.0), 1, (1, 0, 0, 16)),
    ],
)
def test_amount_beyond_the_total_times_the_ratio_is_rejected(capacity, amount, shortage):
    rejection = capacity.find_rejection(amount, "MEMORY_MB", "GB")
    assert (rejection and read_shortage(rejection)) == shortage


def test_rejection_by_capacity_has_the_amounts_of_the_resource_class():
    rejection = HostCapacity(8, 9, 2.0).find_rejection(8, "DISK_GB", "MB")
    assert rejection.as_json() == {
        "kind": "capacity",
        "resource_class": "DISK_GB",
        "unit": "MB",
        "requested": 8,
        "free": 7.0,
        "capacity": 16.0,
        "total": 8,
        "allocation_ratio": 2.0,
    }


@pytest.mark.parametrize(
    ("expected", "options", "ratio"),
    [
        (2.5, {}, 2.5),
        (None, {}, 4.0),
        (0.0, {}, 4.0),
        (None, {"DEFAULT__initial_cpu_allocation_ratio": 3.0}, 3.0),
        (None, {"DEFAULT__cpu_allocation_ratio": 16.0}, 16.0),
        (None, {"DEFAULT__cpu_allocation_ratio": 0.0}, 4.0),
        (2.5, {"DEFAULT__cpu_allocation_ratio": 16.0}, 2.5),
    ],
)
def test_allocation_ratio_is_reported_or_the_default(expected, options, ratio):
    host = build_host_state(cpu_allocation_ratio=expected)
    assert get_reported_ratio(host, CPU_RATIO_OPTION, build_settings(**options)) == ratio


@pytest.mark.parametrize(
    ("metadata", "ratio"),
    [
        ([], 4.0),
        ([{"other": "2"}], 4.0),
        ([{CPU_RATIO_OPTION: "2.5"}], 2.5),
        ([{CPU_RATIO_OPTION: "10"}, {CPU_RATIO_OPTION: "9"}], 9.0),
        ([{CPU_RATIO_OPTION: "0"}], 0.0),
        ([{CPU_RATIO_OPTION: "x"}, {CPU_RATIO_OPTION: "2"}], 4.0),
        ([{CPU_RATIO_OPTION: "2,3"}], 4.0),
        ([{CPU_RATIO_OPTION: ""}], 4.0),
        ([{CPU_RATIO_OPTION: "nan"}, {CPU_RATIO_OPTION: "2"}], 4.0),
        ([{CPU_RATIO_OPTION: "inf"}], 4.0),
    ],
)
def test_smallest_allocation_ratio_of_the_aggregates_is_used(metadata, ratio):
    host = build_host_state(aggregates=build_aggregates(*metadata))
    assert find_aggregate_ratio(host, CPU_RATIO_OPTION, 4.0) == ratio
