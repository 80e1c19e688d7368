# SPDX-License-Identifier: Apache-2.0
"""Filters of CPUs, memory and disk times a ratio, after nova's "Filter Scheduler"."""

import pytest

from placement_sched.scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter
from placement_sched.scheduler.filters.disk_filter import AggregateDiskFilter, DiskFilter
from placement_sched.scheduler.filters.ram_filter import AggregateRamFilter, RamFilter
from tests.scheduler.filters.ratio_filters import (
    CPU_RATIO,
    DISK_RATIO,
    RAM_RATIO,
    RATIO_AND_LIMIT_BY_FILTER,
    build_host_with_usage,
    build_request_for_amounts,
    find_filter_rejection,
)
from tests.support.states import build_settings, find_rejection


@pytest.mark.parametrize(
    ("kind", "amounts", "total", "left", "ratio", "largest"),
    [
        (CoreFilter, (9,), 8, 5, 1.0, {"vcpus": 3}),
        (CoreFilter, (9,), 8, 4, 2.0, {"vcpus": 8}),
        (CoreFilter, (1,), 8, 8, 1.0, None),
        (DiskFilter, (50, 4, 1024), 20, 10240, 1.0, {"root_gb": 5}),
        (DiskFilter, (1, 4, 1024), 20, 5120, 1.0, {"root_gb": 0}),
        (DiskFilter, (1, 4, 1025), 20, 5120, 1.0, None),
        (RamFilter, (513,), 1024, 512, 1.0, {"memory_mb": 512}),
        (RamFilter, (1,), 1024, 0, 1.0, None),
    ],
)
def test_suggested_flavor_is_the_largest_that_fits(kind, amounts, total, left, ratio, largest):
    plugin = kind.with_settings(build_settings())
    host = build_host_with_usage(kind, total, left, ratio)
    changes = list(plugin.suggested_changes(host, build_request_for_amounts(kind, *amounts)))
    assert [(change.action, change.values) for change in changes] == (
        [("change_request", largest)] if largest else []
    )
    assert not any(find_rejection(plugin, host, change.spec) for change in changes)


@pytest.mark.parametrize(
    ("kind", "total", "left", "amount", "shortage"),
    [
        (CoreFilter, 8, 8, 8, (8, 4, 8, 1.5)),
        (DiskFilter, 20, 0, 11, (11264, 10240, 20480, 1.5)),
        (RamFilter, 1024, 0, 513, (513, 512, 1024, 1.5)),
    ],
)
def test_host_without_a_ratio_uses_the_configured_ratio(kind, total, left, amount, shortage):
    host, name = build_host_with_usage(kind, total, left, None), RATIO_AND_LIMIT_BY_FILTER[kind][0]
    assert find_filter_rejection(kind, host, amount, **{f"DEFAULT__{name}": 2.0}) is None
    assert (
        find_filter_rejection(kind, host, amount, **{f"DEFAULT__initial_{name}": 1.5}) == shortage
    )


@pytest.mark.parametrize(
    ("kind", "total", "left", "amount", "shortage"),
    [
        (CoreFilter, 8, 4, 3, (3, 1, 8, 1)),
        (DiskFilter, 20, 20480, 11, (11264, 9216, 20480, 1)),
        (RamFilter, 1024, 1024, 600, (600, 424, 1024, 1)),
    ],
)
def test_earlier_instances_of_a_request_use_cpus_disk_and_memory_of_the_host(
    kind, total, left, amount, shortage
):
    host = build_host_with_usage(kind, total, left, 1.0)
    assert find_filter_rejection(kind, host, amount) is None
    host.consume_from_request(build_request_for_amounts(kind, amount))
    assert find_filter_rejection(kind, host, amount) == shortage


#: Total and used or free amounts of a host that is full under its own ratio.
FULL_HOST_USAGE_BY_FILTER = {
    AggregateCoreFilter: (8, 16, 2.0),
    AggregateDiskFilter: (2, 0, 1.0),
    AggregateRamFilter: (1024, 0, 1.0),
}
NO_CPU = (1, 0, 8, 2)
NO_DISK = (1024, 0, 2048, 1)
NO_RAM = (512, 0, 1024, 1)


@pytest.mark.parametrize(
    ("kind", "metadata", "limit", "shortage"),
    [
        (AggregateCoreFilter, [{CPU_RATIO: "4.0"}], 32, None),
        (AggregateCoreFilter, [{CPU_RATIO: "3"}, {RAM_RATIO: "1"}], 24, None),
        (AggregateCoreFilter, [], None, NO_CPU),
        (AggregateCoreFilter, [{CPU_RATIO: "1.5"}, {CPU_RATIO: "16"}], None, (1, -4, 8, 1.5)),
        (AggregateDiskFilter, [{DISK_RATIO: "1.5"}], 3.0, None),
        (AggregateDiskFilter, [], None, NO_DISK),
        (AggregateDiskFilter, [{RAM_RATIO: "4"}], None, NO_DISK),
        (
            AggregateDiskFilter,
            [{DISK_RATIO: "1.25"}, {DISK_RATIO: "2"}],
            None,
            (1024, 512, 2048, 1.25),
        ),
        (AggregateRamFilter, [{RAM_RATIO: "1.5"}], 1536, None),
        (AggregateRamFilter, [], None, NO_RAM),
        (AggregateRamFilter, [{CPU_RATIO: "4"}], None, NO_RAM),
        (AggregateRamFilter, [{RAM_RATIO: "1.25"}, {RAM_RATIO: "2"}], None, (512, 256, 1024, 1.25)),
    ],
)
def test_smallest_allocation_ratio_of_the_aggregates_is_used(kind, metadata, limit, shortage):
    host = build_host_with_usage(kind, *FULL_HOST_USAGE_BY_FILTER[kind], *metadata)
    assert find_filter_rejection(kind, host) == shortage
    assert host.limits == ({} if limit is None else {RATIO_AND_LIMIT_BY_FILTER[kind][1]: limit})
