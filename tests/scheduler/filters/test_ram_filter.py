# SPDX-License-Identifier: Apache-2.0
"""Filters of memory times a ratio, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.ram_filter import RamFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.filters.ratio_filters import build_host_with_usage, find_filter_rejection


@pytest.mark.parametrize(
    ("amount", "total", "free", "ratio", "shortage"),
    [
        (512, 1024, 512, 1.0, None),
        (1024, 1024, 512, 1.5, None),
        (8192, 131072, -61440, 1.5, (8192, 4096, 131072, 1.5)),
        (1025, 1024, 1024, 2.0, (1025, 2048, 1024, 2)),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_memory_is_free(amount, total, free, ratio, shortage):
    host = build_host_with_usage(RamFilter, total, free, ratio)
    assert find_filter_rejection(RamFilter, host, amount) == shortage
    assert host.limits == ({} if shortage else {"memory_mb": total * ratio})


def test_ram_filter_rejects_a_host_without_a_report():
    shortage = find_filter_rejection(RamFilter, HostState("cn1", "cn1"), 512)
    assert shortage == (512, 0, 0, 1)
