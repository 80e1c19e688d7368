# SPDX-License-Identifier: Apache-2.0
"""Filters of disk times a ratio, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.disk_filter import DiskFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.filters.ratio_filters import (
    DISK_REQUEST_TEXT,
    build_host_with_usage,
    find_filter_rejection,
)


@pytest.mark.parametrize(
    ("amounts", "free", "ratio", "reason"),
    [
        ((10,), 10240, 1.0, None),
        ((5, 4, 1024), 10240, 1.0, None),
        ((1,), -9216, 1.5, None),
        ((11,), 10240, 1.0, f"11264 {DISK_REQUEST_TEXT}, 10240 free of 20480 x 1"),
        ((10, 0, 1), 10240, 1, f"10241 {DISK_REQUEST_TEXT}, 10240 free of 20480 x 1"),
        ((9, 2), 10240, 1.0, f"11264 {DISK_REQUEST_TEXT}, 10240 free of 20480 x 1"),
        ((2,), -9216, 1.5, f"2048 {DISK_REQUEST_TEXT}, 1024 free of 20480 x 1.5"),
        ((21,), 20480, 2.0, f"21504 {DISK_REQUEST_TEXT}, the host has 20480 in all"),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_disk_is_free(amounts, free, ratio, reason):
    host = build_host_with_usage(DiskFilter, 20, free, ratio)
    assert find_filter_rejection(DiskFilter, host, *amounts) == reason
    assert host.limits == ({} if reason else {"disk_gb": 20 * ratio})


def test_disk_filter_rejects_a_host_without_a_report():
    reason = find_filter_rejection(DiskFilter, HostState("cn1", "cn1"), 1)
    assert reason == f"1024 {DISK_REQUEST_TEXT}, the host has 0 in all"
