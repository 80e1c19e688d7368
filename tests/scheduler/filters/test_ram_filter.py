"""RamFilter: memory times ratio. Sources: nova's "Filter Scheduler" of Icehouse and Stein."""

import pytest

from placement_sched.scheduler.filters.ram_filter import RamFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.states import a_host, a_spec, settings_with


def asking(memory_mb):
    return a_spec(flavor={"name": "f", "memory_mb": memory_mb})


def refusal(memory_mb, host, **options):
    plugin = RamFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, asking(memory_mb))
    assert plugin.host_passes(host, asking(memory_mb)) is (found is None)
    return found and found.reason


def host_with(total, free, ratio):
    return a_host(total_usable_ram_mb=total, free_ram_mb=free, ram_allocation_ratio=ratio)


@pytest.mark.parametrize(
    ("memory_mb", "total", "free", "ratio"),
    [
        (512, 1024, 512, 1.0),
        (1024, 1024, 512, 1.5),
        (256, 1024, -256, 1.5),
        (512, 1024, 1024, 0.5),
        (0, 1024, 0, 1.0),
    ],
)
def test_host_with_enough_left_passes_and_is_given_its_limit(memory_mb, total, free, ratio):
    host = host_with(total, free, ratio)
    assert refusal(memory_mb, host) is None
    assert host.limits == {"memory_mb": total * ratio}


@pytest.mark.parametrize(
    ("memory_mb", "total", "free", "ratio", "reason"),
    [
        (8192, 131072, -61440, 1.5, "8192 MB asked, 4096 free of 131072 x 1.5"),
        (513, 1024, 512, 1.0, "513 MB asked, 512 free of 1024 x 1"),
        (1, 1024, -1, 1.0, "1 MB asked, -1 free of 1024 x 1"),
        (1025, 1024, 1024, 2.0, "1025 MB asked, the host has 1024 in all"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_numbers(
    memory_mb, total, free, ratio, reason
):
    host = host_with(total, free, ratio)
    assert refusal(memory_mb, host) == reason
    assert host.limits == {}


@pytest.mark.parametrize("told", [None, 0.0])
def test_host_without_a_ratio_has_that_of_the_options(told):
    host = host_with(1024, 0, told)
    assert refusal(512, host, DEFAULT__ram_allocation_ratio=1.5) is None
    assert refusal(512, host) == "512 MB asked, 0 free of 1024 x 1"


def test_host_of_which_nothing_is_known_is_refused():
    assert refusal(512, HostState("cn1", "cn1")) == "512 MB asked, the host has 0 in all"


def test_instances_of_one_request_count_against_each_other():
    host = host_with(1024, 1024, 1.0)
    host.consume_from_request(asking(600))
    assert refusal(600, host) == "600 MB asked, 424 free of 1024 x 1"
    assert RamFilter().run_filter_for_index(1)
