"""Sets of CPUs in extra specs."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.cpu_set import all_cpus, cpu_set, masked_cpus
from tests.scheduler.hardware.asked import flavor_of


def test_cpu_set_names_where_it_cannot_be_read():
    assert cpu_set("0-2,^1") == {0, 2}
    with pytest.raises(Invalid, match="extra spec 'hw:x' cannot be '0-99999999'"):
        cpu_set("0-99999999", "extra spec 'hw:x'")


@pytest.mark.parametrize(
    ("mask", "cpus"),
    [
        ("1-2", {1, 2}),
        ("^0", {1, 2, 3}),
        (" ^0-1,7", {2, 3, 7}),
        ("7,^0", {7}),
        ("^9", {*range(4)}),
    ],
)
def test_masked_cpus_takes_a_leading_caret_out_of_all(mask, cpus):
    assert masked_cpus(flavor_of({}), mask, "x") == cpus


def test_masked_cpus_of_no_vcpus_are_none():
    assert masked_cpus(flavor_of({}, vcpus=0), "^0", "x") == set()


def test_all_cpus_refuses_more_than_can_be_told_apart():
    with pytest.raises(Invalid, match="flavor has 2000000000 vcpus"):
        all_cpus(flavor_of({}, vcpus=2_000_000_000))
