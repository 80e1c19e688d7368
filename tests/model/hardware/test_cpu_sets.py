# SPDX-License-Identifier: Apache-2.0
"""Sets of virtual CPUs, as operators write them."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPU_SET_CHARACTERS, MAX_CPUS
from placement_sched.model.hardware.cpu_sets import all_cpus, cpu_set, masked_cpus, parse_cpus
from tests.model.hardware.asked import flavor_of

TEXTS = [
    ("0", {0}),
    ("0-3", {0, 1, 2, 3}),
    (" 1 , 3 ", {1, 3}),
    ("1,,2,", {1, 2}),
    ("0-5,^3", {0, 1, 2, 4, 5}),
    ("^3,0-5", {0, 1, 2, 4, 5}),
    ("0-9,^2-7,4", {0, 1, 8, 9}),
    ("^1", set()),
    ("", set()),
    ("2 - 4", {2, 3, 4}),
    ("^ 2,1-2", {1}),
    (f"{MAX_CPUS - 1}", {MAX_CPUS - 1}),
]


@pytest.mark.parametrize(("text", "cpus"), TEXTS)
def test_cpus_from_reads_numbers_ranges_and_what_is_left_out(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize(
    "text",
    ["a", "1-", "-1", "3-1", "1-2-3", "^", "^^1", "1;2", "0x1", f"0-{MAX_CPUS}", "0-999999999999"],
)
def test_cpus_from_refuses_an_invalid_part(text):
    with pytest.raises(ValueError, match=r"number|ends before|exceeds"):
        parse_cpus(text)


def test_cpus_from_refuses_a_number_longer_than_can_be_read():
    with pytest.raises(ValueError, match="neither a number"):
        parse_cpus("9" * 5000)


def test_cpus_from_reads_a_thousand_cpus_one_by_one():
    text = ",".join(map(str, range(1024)))
    assert len(text) <= MAX_CPU_SET_CHARACTERS
    assert parse_cpus(text) == {*range(1024)}


def test_cpus_from_refuses_a_text_longer_than_any_host_needs():
    with pytest.raises(
        ValueError, match=f"has 24000 characters, and at most {MAX_CPU_SET_CHARACTERS} are"
    ):
        parse_cpus("0-65535," * 3000)


def test_cpus_that_are_named_many_times_are_read():
    assert len(parse_cpus(("0-65535," * 3000)[:MAX_CPU_SET_CHARACTERS])) == MAX_CPUS


def test_cpu_set_names_where_it_cannot_be_read():
    assert cpu_set("0-2,^1") == {0, 2}
    with pytest.raises(Invalid, match="extra spec 'hw:x': '0-99999999' is not a set of CPUs"):
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


def test_all_cpus_refuses_more_than_are_supported():
    with pytest.raises(Invalid, match="flavor has 2000000000 vcpus"):
        all_cpus(flavor_of({}, vcpus=2_000_000_000))
