"""DiskFilter: disk times ratio. Sources: nova's "Filter Scheduler" of Icehouse and Stein."""

import pytest

from placement_sched.scheduler.filters.disk_filter import DiskFilter
from placement_sched.scheduler.host_state import HostState
from tests.scheduler.states import a_host, a_spec, settings_with


def asking(root_gb=0, ephemeral_gb=0, swap=0):
    flavor = {"name": "f", "root_gb": root_gb, "ephemeral_gb": ephemeral_gb, "swap": swap}
    return a_spec(flavor=flavor)


def refusal(spec, host, **options):
    plugin = DiskFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


def host_with(total_gb, free_mb, ratio):
    return a_host(total_usable_disk_gb=total_gb, free_disk_mb=free_mb, disk_allocation_ratio=ratio)


@pytest.mark.parametrize(
    ("disks", "total_gb", "free_mb", "ratio"),
    [
        ((10,), 20, 10240, 1.0),
        ((5, 4, 1024), 20, 10240, 1.0),
        ((20,), 20, 10240, 1.5),
        ((1,), 20, -9216, 1.5),
        ((), 20, 0, 1.0),
    ],
)
def test_host_with_enough_left_passes_and_is_given_its_limit(disks, total_gb, free_mb, ratio):
    host = host_with(total_gb, free_mb, ratio)
    assert refusal(asking(*disks), host) is None
    assert host.limits == {"disk_gb": total_gb * ratio}


@pytest.mark.parametrize(
    ("disks", "total_gb", "free_mb", "ratio", "reason"),
    [
        ((11,), 20, 10240, 1.0, "11264 MB of disk asked, 10240 free of 20480 x 1"),
        ((10, 0, 1), 20, 10240, 1.0, "10241 MB of disk asked, 10240 free of 20480 x 1"),
        ((9, 2), 20, 10240, 1.0, "11264 MB of disk asked, 10240 free of 20480 x 1"),
        ((2,), 20, -9216, 1.5, "2048 MB of disk asked, 1024 free of 20480 x 1.5"),
        ((21,), 20, 20480, 2.0, "21504 MB of disk asked, the host has 20480 in all"),
    ],
)
def test_host_without_enough_left_is_refused_with_the_numbers(
    disks, total_gb, free_mb, ratio, reason
):
    host = host_with(total_gb, free_mb, ratio)
    assert refusal(asking(*disks), host) == reason
    assert host.limits == {}


@pytest.mark.parametrize("told", [None, 0.0])
def test_host_without_a_ratio_has_that_of_the_options(told):
    host = host_with(20, 0, told)
    assert refusal(asking(1), host, DEFAULT__disk_allocation_ratio=1.5) is None
    assert refusal(asking(1), host) == "1024 MB of disk asked, 0 free of 20480 x 1"


def test_host_of_which_nothing_is_known_is_refused():
    told = refusal(asking(1), HostState("cn1", "cn1"))
    assert told == "1024 MB of disk asked, the host has 0 in all"


def test_instances_of_one_request_count_against_each_other():
    host = host_with(20, 20480, 1.0)
    host.consume_from_request(asking(11))
    assert refusal(asking(11), host) == "11264 MB of disk asked, 9216 free of 20480 x 1"
    assert DiskFilter().run_filter_for_index(1)
