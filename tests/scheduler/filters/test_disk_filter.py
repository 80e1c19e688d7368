# SPDX-License-Identifier: Apache-2.0
"""Filters of disk times a ratio, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.disk_filter import DiskFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.filters.ratio_filters import build_host_with_usage, find_filter_rejection


@pytest.mark.parametrize(
    ("amounts", "free", "ratio", "shortage"),
    [
        ((10,), 10240, 1.0, None),
        ((5, 4, 1024), 10240, 1.0, None),
        ((1,), -9216, 1.5, None),
        ((11,), 10240, 1.0, (11264, 10240, 20480, 1)),
        ((10, 0, 1), 10240, 1, (10241, 10240, 20480, 1)),
        ((9, 2), 10240, 1.0, (11264, 10240, 20480, 1)),
        ((2,), -9216, 1.5, (2048, 1024, 20480, 1.5)),
        ((21,), 20480, 2.0, (21504, 40960, 20480, 2)),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_disk_is_free(amounts, free, ratio, shortage):
    host = build_host_with_usage(DiskFilter, 20, free, ratio)
    assert find_filter_rejection(DiskFilter, host, *amounts) == shortage
    assert host.limits == ({} if shortage else {"disk_gb": 20 * ratio})


def test_disk_filter_rejects_a_host_without_a_report():
    shortage = find_filter_rejection(DiskFilter, HostState("cn1", "cn1"), 1)
    assert shortage == (1024, 0, 0, 1)
