# SPDX-License-Identifier: Apache-2.0
"""CPUs, memory and disk times a ratio. Sources: nova's "Filter Scheduler" of Icehouse and Stein."""

import logging

import pytest

from placement_sched.scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter
from placement_sched.scheduler.filters.disk_filter import AggregateDiskFilter, DiskFilter
from placement_sched.scheduler.filters.ram_filter import AggregateRamFilter, RamFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import a_host, a_spec, aggregates, refusal_of, settings_with

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
every = pytest.mark.parametrize("kind", [CoreFilter, DiskFilter, RamFilter])


def host_with(kind, total, left, ratio, *metadata):
    """Return a host by what it has, and what of that is used (CPUs) or free (the others)."""
    name, _ = NAMES[kind]
    fields = {
        CPU: {"vcpus_total": total, "vcpus_used": left},
        DISK: {"total_usable_disk_gb": total, "free_disk_mb": left},
        RAM: {"total_usable_ram_mb": total, "free_ram_mb": left},
    }[name]
    return a_host(aggregates=aggregates(*metadata), **fields, **{name: ratio})


def asking(kind, *amounts):
    """Return a request for so many CPUs, MB, or GB of root and ephemeral disk and MB of swap."""
    names = {CPU: ["vcpus"], DISK: ["root_gb", "ephemeral_gb", "swap"], RAM: ["memory_mb"]}
    every = names[NAMES[kind][0]]
    given = dict(zip(every, (*amounts, 0, 0, 0), strict=False))
    return a_spec(flavor={"name": "f", **given})


def refusal(kind, host, *amounts, **options):
    plugin = kind.with_settings(settings_with(**options))
    return refusal_of(plugin, host, asking(kind, *amounts) if amounts else None)


@pytest.mark.parametrize(
    ("kind", "amounts", "total", "left", "ratio"),
    [
        (CoreFilter, (4,), 8, 4, 1.0),
        (CoreFilter, (8,), 8, 8, 2.0),
        (CoreFilter, (0,), 8, 8, 1.0),
        (CoreFilter, (1,), 4, 63, 16.0),
        (CoreFilter, (3,), 8, 1, 0.5),
        (DiskFilter, (10,), 20, 10240, 1.0),
        (DiskFilter, (5, 4, 1024), 20, 10240, 1.0),
        (DiskFilter, (20,), 20, 10240, 1.5),
        (DiskFilter, (1,), 20, -9216, 1.5),
        (DiskFilter, (0,), 20, 0, 1.0),
        (RamFilter, (512,), 1024, 512, 1.0),
        (RamFilter, (1024,), 1024, 512, 1.5),
        (RamFilter, (256,), 1024, -256, 1.5),
        (RamFilter, (512,), 1024, 1024, 0.5),
        (RamFilter, (0,), 1024, 0, 1.0),
    ],
)
def test_host_with_enough_left_passes_and_is_given_its_limit(kind, amounts, total, left, ratio):
    host = host_with(kind, total, left, ratio)
    assert refusal(kind, host, *amounts) is None
    assert host.limits == {NAMES[kind][1]: total * ratio}


@pytest.mark.parametrize(
    ("kind", "amounts", "total", "left", "ratio", "reason"),
    [
        (CoreFilter, (5,), 8, 4, 1.0, "5 VCPU requested, 4 free of 8 x 1"),
        (CoreFilter, (2,), 4, 63, 16.0, "2 VCPU requested, 1 free of 4 x 16"),
        (CoreFilter, (1,), 4, 7, 1.5, "1 VCPU requested, -1 free of 4 x 1.5"),
        (CoreFilter, (9,), 8, 0, 16.0, "9 VCPU requested, the host has 8 in all"),
        (DiskFilter, (11,), 20, 10240, 1.0, "11264 MB of disk requested, 10240 free of 20480 x 1"),
        (
            DiskFilter,
            (10, 0, 1),
            20,
            10240,
            1,
            "10241 MB of disk requested, 10240 free of 20480 x 1",
        ),
        (DiskFilter, (9, 2), 20, 10240, 1.0, "11264 MB of disk requested, 10240 free of 20480 x 1"),
        (DiskFilter, (2,), 20, -9216, 1.5, "2048 MB of disk requested, 1024 free of 20480 x 1.5"),
        (
            DiskFilter,
            (21,),
            20,
            20480,
            2.0,
            "21504 MB of disk requested, the host has 20480 in all",
        ),
        (RamFilter, (8192,), 131072, -61440, 1.5, "8192 MB requested, 4096 free of 131072 x 1.5"),
        (RamFilter, (513,), 1024, 512, 1.0, "513 MB requested, 512 free of 1024 x 1"),
        (RamFilter, (1,), 1024, -1, 1.0, "1 MB requested, -1 free of 1024 x 1"),
        (RamFilter, (1025,), 1024, 1024, 2.0, "1025 MB requested, the host has 1024 in all"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_numbers(
    kind, amounts, total, left, ratio, reason
):
    host = host_with(kind, total, left, ratio)
    assert refusal(kind, host, *amounts) == reason
    assert host.limits == {}


@pytest.mark.parametrize("told", [None, 0.0])
@pytest.mark.parametrize(
    ("kind", "total", "left", "asked", "reason"),
    [
        (CoreFilter, 8, 8, 8, "8 VCPU requested, 4 free of 8 x 1.5"),
        (DiskFilter, 20, 0, 11, "11264 MB of disk requested, 10240 free of 20480 x 1.5"),
        (RamFilter, 1024, 0, 513, "513 MB requested, 512 free of 1024 x 1.5"),
    ],
)
def test_host_without_a_ratio_has_that_of_the_options(kind, total, left, asked, reason, told):
    host, name = host_with(kind, total, left, told), NAMES[kind][0]
    assert refusal(kind, host, asked, **{f"DEFAULT__{name}": 2.0}) is None
    assert refusal(kind, host, asked, **{f"DEFAULT__initial_{name}": 1.5}) == reason


def test_host_that_does_not_tell_its_cpus_passes_and_is_logged(caplog):
    host = host_with(CoreFilter, 0, 0, None)
    with caplog.at_level(logging.WARNING):
        assert refusal(CoreFilter, host, 64) is None
    assert "host cn1 does not report how many CPUs it has" in caplog.text
    assert host.limits == {}


@pytest.mark.parametrize(
    ("kind", "asked", "reason"),
    [
        (DiskFilter, 1, "1024 MB of disk requested, the host has 0 in all"),
        (RamFilter, 512, "512 MB requested, the host has 0 in all"),
    ],
)
def test_host_of_which_nothing_is_known_is_refused(kind, asked, reason):
    assert refusal(kind, HostState("cn1", "cn1"), asked) == reason


@every
def test_filter_runs_for_each_instance_but_not_on_rebuild(kind):
    assert kind().run_filter_for_index(1)
    assert not kind.RUN_ON_REBUILD


@pytest.mark.parametrize(
    ("kind", "total", "left", "asked", "reason"),
    [
        (CoreFilter, 8, 4, 3, "3 VCPU requested, 1 free of 8 x 1"),
        (DiskFilter, 20, 20480, 11, "11264 MB of disk requested, 9216 free of 20480 x 1"),
        (RamFilter, 1024, 1024, 600, "600 MB requested, 424 free of 1024 x 1"),
    ],
)
def test_instances_of_one_request_count_against_each_other(kind, total, left, asked, reason):
    host = host_with(kind, total, left, 1.0)
    assert refusal(kind, host, asked) is None
    host.consume_from_request(asking(kind, asked))
    assert refusal(kind, host, asked) == reason


#: What each host has, and what of that is used or free, so that nothing is left by its own ratio.
FULL = {
    AggregateCoreFilter: (8, 16, 2.0),
    AggregateDiskFilter: (2, 0, 1.0),
    AggregateRamFilter: (1024, 0, 1.0),
}
NO_CPU = "1 VCPU requested, 0 free of 8 x 2"
NO_DISK = "1024 MB of disk requested, 0 free of 2048 x 1"
NO_RAM = "512 MB requested, 0 free of 1024 x 1"


@pytest.mark.parametrize(
    ("kind", "metadata", "limit"),
    [
        (AggregateCoreFilter, [{CPU: "4.0"}], 32),
        (AggregateCoreFilter, [{CPU: "10"}, {CPU: "9"}], 72),
        (AggregateCoreFilter, [{CPU: "3"}, {RAM: "1"}], 24),
        (AggregateDiskFilter, [{DISK: "1.5"}], 3.0),
        (AggregateDiskFilter, [{DISK: "10"}, {DISK: "9"}], 18.0),
        (AggregateRamFilter, [{RAM: "1.5"}], 1536),
        (AggregateRamFilter, [{RAM: "10"}, {RAM: "9"}], 9216),
    ],
)
def test_smallest_ratio_of_the_aggregates_counts(kind, metadata, limit):
    host = host_with(kind, *FULL[kind], *metadata)
    assert refusal(kind, host) is None
    assert host.limits == {NAMES[kind][1]: limit}


@pytest.mark.parametrize(
    ("kind", "metadata", "reason"),
    [
        (AggregateCoreFilter, [], NO_CPU),
        (AggregateCoreFilter, [{"other": "4"}], NO_CPU),
        (AggregateCoreFilter, [{CPU: "1.5"}, {CPU: "16"}], "1 VCPU requested, -4 free of 8 x 1.5"),
        (AggregateCoreFilter, [{CPU: "0"}], "1 VCPU requested, -16 free of 8 x 0"),
        (AggregateCoreFilter, [{CPU: "4,5"}], NO_CPU),
        (AggregateDiskFilter, [], NO_DISK),
        (AggregateDiskFilter, [{RAM: "4"}], NO_DISK),
        (
            AggregateDiskFilter,
            [{DISK: "1.25"}, {DISK: "2"}],
            "1024 MB of disk requested, 512 free of 2048 x 1.25",
        ),
        (AggregateRamFilter, [], NO_RAM),
        (AggregateRamFilter, [{CPU: "4"}], NO_RAM),
        (
            AggregateRamFilter,
            [{RAM: "1.25"}, {RAM: "2"}],
            "512 MB requested, 256 free of 1024 x 1.25",
        ),
    ],
)
def test_host_without_enough_left_is_refused_with_the_ratio(kind, metadata, reason):
    assert refusal(kind, host_with(kind, *FULL[kind], *metadata)) == reason


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (AggregateCoreFilter, "much", NO_CPU),
        (AggregateDiskFilter, "double", NO_DISK),
        (AggregateRamFilter, "1.5x", NO_RAM),
    ],
)
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(
    caplog, kind, value, reason
):
    name = NAMES[kind][0]
    with caplog.at_level(logging.WARNING):
        found = refusal(kind, host_with(kind, *FULL[kind], {name: value}, {name: "2"}))
    assert found == reason
    assert f"host cn1: {name} of its aggregates is not a number" in caplog.text
    assert value in caplog.text


def test_host_without_any_ratio_by_aggregates_has_that_of_the_options():
    host = host_with(AggregateCoreFilter, 8, 16, None)
    assert refusal(AggregateCoreFilter, host) is None
    reason = "1 VCPU requested, -8 free of 8 x 1"
    assert refusal(AggregateCoreFilter, host, DEFAULT__cpu_allocation_ratio=1.0) == reason
