# SPDX-License-Identifier: Apache-2.0
"""Filters of virtual CPUs times a ratio, after nova's "Filter Scheduler"."""

import logging

import pytest

from placement_sched.scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter
from tests.scheduler.filters.ratio_filters import build_host_with_usage, find_filter_rejection


@pytest.mark.parametrize(
    ("total", "amount", "used", "ratio", "shortage"),
    [
        (8, 4, 4, 1.0, None),
        (8, 8, 8, 2.0, None),
        (1, 1, 0, 1.0, None),
        (2, 1, 0, 0.5, None),
        (8, 5, 4, 1.0, (5, 4, 8, 1)),
        (8, 9, 0, 16.0, (9, 128, 8, 16)),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_cpus_are_free(total, amount, used, ratio, shortage):
    host = build_host_with_usage(CoreFilter, total, used, ratio)
    assert find_filter_rejection(CoreFilter, host, amount) == shortage
    assert host.limits == ({} if shortage else {"vcpu": total * ratio})


def test_host_without_a_number_of_cpus_passes_and_is_logged(caplog):
    host = build_host_with_usage(CoreFilter, 0, 0, None)
    with caplog.at_level(logging.WARNING):
        assert find_filter_rejection(CoreFilter, host, 64) is None
    assert "host cn1 does not report how many CPUs it has" in caplog.text
    assert host.limits == {}


def test_host_without_a_ratio_of_aggregates_uses_the_configured_ratio():
    host = build_host_with_usage(AggregateCoreFilter, 8, 16, None)
    assert find_filter_rejection(AggregateCoreFilter, host) is None
    shortage = (1, -8, 8, 1)
    assert (
        find_filter_rejection(AggregateCoreFilter, host, DEFAULT__cpu_allocation_ratio=1.0)
        == shortage
    )
