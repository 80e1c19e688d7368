"""CPUWeigher, RAMWeigher and DiskWeigher: what is free counts."""

import pytest

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.cpu import CPUWeigher
from placement_sched.scheduler.weights.disk import DiskWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.states import a_host
from tests.scheduler.weights.weighing import weighed

EMPTY = HostState("cn0", "cn0")


def vcpus(total, used, ratio):
    return {"vcpus_total": total, "vcpus_used": used, "cpu_allocation_ratio": ratio}


#: A weigher; half as much as the most; the most; less than nothing; and its multiplier's option.
CASES = pytest.mark.parametrize(
    ("kind", "half", "most", "too_much", "option"),
    [
        # 7, 14 and -5 CPUs are free.
        (CPUWeigher, vcpus(8, 1, 1.0), vcpus(4, 2, 4.0), vcpus(4, 9, 1.0), "cpu"),
        (RAMWeigher, *({"free_ram_mb": free} for free in (1024, 2048, -512)), "ram"),
        (DiskWeigher, *({"free_disk_mb": free} for free in (1024, 2048, -512)), "disk"),
    ],
)


@CASES
def test_the_host_with_the_most_free_wins_and_less_than_nothing_is_nothing(
    kind, half, most, too_much, option
):
    hosts = [a_host("cn1", **half), a_host("cn2", **most), a_host("cn3", **too_much)]
    assert weighed(kind, hosts) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]
    turned = weighed(kind, hosts, **{f"filter_scheduler__{option}_weight_multiplier": -1.0})
    assert [name for name, _ in turned] == ["cn3", "cn1", "cn2"]


@CASES
def test_an_empty_host_state_has_nothing_free(kind, half, most, too_much, option):
    assert weighed(kind, [EMPTY, a_host("cn1", **half)]) == [("cn1", 1.0), ("cn0", 0.0)]
