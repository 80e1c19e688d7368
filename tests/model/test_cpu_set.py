"""Sets of CPUs as operators write them."""

import pytest

from placement_sched.model.cpu_set import MOST_CPUS, cpus_from

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
    (f"{MOST_CPUS - 1}", {MOST_CPUS - 1}),
]


@pytest.mark.parametrize(("text", "cpus"), TEXTS)
def test_cpus_from_reads_numbers_ranges_and_what_is_left_out(text, cpus):
    assert cpus_from(text) == cpus


@pytest.mark.parametrize(
    "text",
    ["a", "1-", "-1", "3-1", "1-2-3", "^", "^^1", "1;2", "0x1", f"0-{MOST_CPUS}", "0-999999999999"],
)
def test_cpus_from_refuses_what_cannot_be(text):
    with pytest.raises(ValueError, match=r"number|ends before|goes beyond"):
        cpus_from(text)


def test_cpus_from_refuses_a_number_longer_than_can_be_read():
    with pytest.raises(ValueError, match="neither a number"):
        cpus_from("9" * 5000)
