# SPDX-License-Identifier: Apache-2.0
"""Filters of CPUs, memory and disk times a ratio, after nova's "Filter Scheduler"."""

import logging

import pytest

from placement_sched.scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter
from placement_sched.scheduler.filters.disk_filter import AggregateDiskFilter, DiskFilter
from placement_sched.scheduler.filters.ram_filter import AggregateRamFilter, RamFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_spec,
    find_rejection,
    settings_with,
)

CPU, DISK, RAM = "cpu_allocation_ratio", "disk_allocation_ratio", "ram_allocation_ratio"
#: The ratio, and the name of the limit, of each filter.
NAMES = {
    CoreFilter: (CPU, "vcpu"),
    DiskFilter: (DISK, "disk_gb"),
    RamFilter: (RAM, "memory_mb"),
    AggregateCoreFilter: (CPU, "vcpu"),
    AggregateDiskFilter: (DISK, "disk_gb"),
    AggregateRamFilter: (RAM, "memory_mb"),
}


DISK_MB = "MB of disk requested"


def build_host_with_amounts(kind, total, left, ratio, *metadata):
    """Return a host. ``left`` is the used amount of CPUs, or the free amount of others."""
    name, _ = NAMES[kind]
    fields = {
        CPU: {"vcpus_total": total, "vcpus_used": left},
        DISK: {"total_usable_disk_gb": total, "free_disk_mb": left},
        RAM: {"total_usable_ram_mb": total, "free_ram_mb": left},
    }[name]
    return build_host_state(aggregates=build_aggregates(*metadata), **fields, **{name: ratio})


def build_request_for_amounts(kind, *amounts):
    """Return a request for CPUs, for MB, or for GB of root and ephemeral disk and MB of swap."""
    names = {CPU: ["vcpus"], DISK: ["root_gb", "ephemeral_gb", "swap"], RAM: ["memory_mb"]}
    return build_spec(
        flavor={"name": "f", **dict(zip(names[NAMES[kind][0]], (*amounts, 0, 0, 0), strict=False))}
    )


def find_filter_rejection(kind, host, *amounts, **options):
    plugin = kind.with_settings(settings_with(**options))
    return find_rejection(
        plugin, host, build_request_for_amounts(kind, *amounts) if amounts else None
    )


@pytest.mark.parametrize(
    ("kind", "amounts", "total", "left", "ratio", "reason"),
    [
        (CoreFilter, (4,), 8, 4, 1.0, None),
        (CoreFilter, (8,), 8, 8, 2.0, None),
        (DiskFilter, (10,), 20, 10240, 1.0, None),
        (DiskFilter, (5, 4, 1024), 20, 10240, 1.0, None),
        (DiskFilter, (1,), 20, -9216, 1.5, None),
        (RamFilter, (512,), 1024, 512, 1.0, None),
        (RamFilter, (1024,), 1024, 512, 1.5, None),
        (CoreFilter, (5,), 8, 4, 1.0, "5 VCPU requested, 4 free of 8 x 1"),
        (CoreFilter, (9,), 8, 0, 16.0, "9 VCPU requested, the host has 8 in all"),
        (DiskFilter, (11,), 20, 10240, 1.0, f"11264 {DISK_MB}, 10240 free of 20480 x 1"),
        (DiskFilter, (10, 0, 1), 20, 10240, 1, f"10241 {DISK_MB}, 10240 free of 20480 x 1"),
        (DiskFilter, (9, 2), 20, 10240, 1.0, f"11264 {DISK_MB}, 10240 free of 20480 x 1"),
        (DiskFilter, (2,), 20, -9216, 1.5, f"2048 {DISK_MB}, 1024 free of 20480 x 1.5"),
        (DiskFilter, (21,), 20, 20480, 2.0, f"21504 {DISK_MB}, the host has 20480 in all"),
        (RamFilter, (8192,), 131072, -61440, 1.5, "8192 MB requested, 4096 free of 131072 x 1.5"),
        (RamFilter, (1025,), 1024, 1024, 2.0, "1025 MB requested, the host has 1024 in all"),
    ],
)
def test_host_passes_and_has_a_limit_if_enough_remains(kind, amounts, total, left, ratio, reason):
    host = build_host_with_amounts(kind, total, left, ratio)
    assert find_filter_rejection(kind, host, *amounts) == reason
    assert host.limits == ({} if reason else {NAMES[kind][1]: total * ratio})


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
    plugin = kind.with_settings(settings_with())
    host = build_host_with_amounts(kind, total, left, ratio)
    changes = list(plugin.suggested_changes(host, build_request_for_amounts(kind, *amounts)))
    assert [(change.action, change.values) for change in changes] == (
        [("ask", largest)] if largest else []
    )
    assert not any(find_rejection(plugin, host, change.spec) for change in changes)


def test_host_without_any_report_is_rejected():
    host = HostState("cn1", "cn1")
    assert find_filter_rejection(DiskFilter, host, 1) == f"1024 {DISK_MB}, the host has 0 in all"
    assert find_filter_rejection(RamFilter, host, 512) == "512 MB requested, the host has 0 in all"


@pytest.mark.parametrize(
    ("kind", "total", "left", "amount", "reason"),
    [
        (CoreFilter, 8, 8, 8, "8 VCPU requested, 4 free of 8 x 1.5"),
        (DiskFilter, 20, 0, 11, f"11264 {DISK_MB}, 10240 free of 20480 x 1.5"),
        (RamFilter, 1024, 0, 513, "513 MB requested, 512 free of 1024 x 1.5"),
    ],
)
def test_host_without_a_ratio_uses_the_configured_ratio(kind, total, left, amount, reason):
    host, name = build_host_with_amounts(kind, total, left, None), NAMES[kind][0]
    assert find_filter_rejection(kind, host, amount, **{f"DEFAULT__{name}": 2.0}) is None
    assert find_filter_rejection(kind, host, amount, **{f"DEFAULT__initial_{name}": 1.5}) == reason


def test_host_without_a_number_of_cpus_passes_and_is_logged(caplog):
    host = build_host_with_amounts(CoreFilter, 0, 0, None)
    with caplog.at_level(logging.WARNING):
        assert find_filter_rejection(CoreFilter, host, 64) is None
    assert "host cn1 does not report how many CPUs it has" in caplog.text
    assert host.limits == {}


@pytest.mark.parametrize(
    ("kind", "total", "left", "amount", "reason"),
    [
        (CoreFilter, 8, 4, 3, "3 VCPU requested, 1 free of 8 x 1"),
        (DiskFilter, 20, 20480, 11, f"11264 {DISK_MB}, 9216 free of 20480 x 1"),
        (RamFilter, 1024, 1024, 600, "600 MB requested, 424 free of 1024 x 1"),
    ],
)
def test_instances_of_one_request_use_the_amounts_of_a_host(kind, total, left, amount, reason):
    host = build_host_with_amounts(kind, total, left, 1.0)
    assert find_filter_rejection(kind, host, amount) is None
    host.consume_from_request(build_request_for_amounts(kind, amount))
    assert find_filter_rejection(kind, host, amount) == reason


#: Total and used or free amounts of a host that is full under its own ratio.
FULL = {
    AggregateCoreFilter: (8, 16, 2.0),
    AggregateDiskFilter: (2, 0, 1.0),
    AggregateRamFilter: (1024, 0, 1.0),
}
NO_CPU = "1 VCPU requested, 0 free of 8 x 2"
NO_DISK = f"1024 {DISK_MB}, 0 free of 2048 x 1"
NO_RAM = "512 MB requested, 0 free of 1024 x 1"


@pytest.mark.parametrize(
    ("kind", "metadata", "limit", "reason"),
    [
        (AggregateCoreFilter, [{CPU: "4.0"}], 32, None),
        (AggregateCoreFilter, [{CPU: "3"}, {RAM: "1"}], 24, None),
        (AggregateCoreFilter, [], None, NO_CPU),
        (
            AggregateCoreFilter,
            [{CPU: "1.5"}, {CPU: "16"}],
            None,
            "1 VCPU requested, -4 free of 8 x 1.5",
        ),
        (AggregateDiskFilter, [{DISK: "1.5"}], 3.0, None),
        (AggregateDiskFilter, [], None, NO_DISK),
        (AggregateDiskFilter, [{RAM: "4"}], None, NO_DISK),
        (
            AggregateDiskFilter,
            [{DISK: "1.25"}, {DISK: "2"}],
            None,
            f"1024 {DISK_MB}, 512 free of 2048 x 1.25",
        ),
        (AggregateRamFilter, [{RAM: "1.5"}], 1536, None),
        (AggregateRamFilter, [], None, NO_RAM),
        (AggregateRamFilter, [{CPU: "4"}], None, NO_RAM),
        (
            AggregateRamFilter,
            [{RAM: "1.25"}, {RAM: "2"}],
            None,
            "512 MB requested, 256 free of 1024 x 1.25",
        ),
    ],
)
def test_smallest_ratio_of_the_aggregates_is_used(kind, metadata, limit, reason):
    host = build_host_with_amounts(kind, *FULL[kind], *metadata)
    assert find_filter_rejection(kind, host) == reason
    assert host.limits == ({} if limit is None else {NAMES[kind][1]: limit})


def test_host_without_a_ratio_of_aggregates_uses_the_configured_ratio():
    host = build_host_with_amounts(AggregateCoreFilter, 8, 16, None)
    assert find_filter_rejection(AggregateCoreFilter, host) is None
    reason = "1 VCPU requested, -8 free of 8 x 1"
    assert (
        find_filter_rejection(AggregateCoreFilter, host, DEFAULT__cpu_allocation_ratio=1.0)
        == reason
    )
