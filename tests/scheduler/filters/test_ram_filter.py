# SPDX-License-Identifier: Apache-2.0
"""Filters of memory times a ratio, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.ram_filter import RamFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.filters.ratio_filters import build_host_with_usage, find_filter_rejection


@pytest.mark.parametrize(
    ("amount", "total", "free", "ratio", "reason"),
    [
        (512, 1024, 512, 1.0, None),
        (1024, 1024, 512, 1.5, None),
        (8192, 131072, -61440, 1.5, "8192 MB requested, 4096 free of 131072 x 1.5"),
        (1025, 1024, 1024, 2.0, "1025 MB requested, the host has 1024 in all"),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_memory_is_free(amount, total, free, ratio, reason):
    host = build_host_with_usage(RamFilter, total, free, ratio)
    assert find_filter_rejection(RamFilter, host, amount) == reason
    assert host.limits == ({} if reason else {"memory_mb": total * ratio})


def test_ram_filter_rejects_a_host_without_a_report():
    reason = find_filter_rejection(RamFilter, HostState("cn1", "cn1"), 512)
    assert reason == "512 MB requested, the host has 0 in all"
