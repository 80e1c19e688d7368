# SPDX-License-Identifier: Apache-2.0
"""Operators of extra specs, as in nova 34."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.extra_specs_ops import check, match

#: The value of the extra spec, matching values of a host, and other values of a host.
EXTRA_SPEC_OPERATOR_CASES = [
    ("5", ["5"], ["5.0", "50", "", " 5 "]),
    ("abc def", ["abc def"], ["abc"]),
    ("s==abc", ["s==abc"], ["abc"]),
    ("<or>fpu", ["<or>fpu"], ["fpu"]),
    ("> 5", ["> 5"], ["6", "9"]),
    ("< 5", ["< 5"], ["4"]),
    (" 5", [" 5"], ["5"]),
    ("= 5", ["5", "5.0", "10", "1e3", " 5 "], ["-1", "nan", "4"]),
    ("= 5 x", ["9"], ["4"]),
    ("== 5", ["5", "5.0", " 5 "], ["10", "-1", "nan"]),
    ("== 5.0", ["5"], ["5.1"]),
    ("== nan", [], ["nan", "5"]),
    ("!= 5", ["10", "nan", "-1"], ["5", "5.0"]),
    (">= 5", ["5", "10", "9", "1e3"], ["-1", "nan"]),
    ("  >= 5", ["5"], ["4"]),
    (">= 1e3", ["1e3", "1000"], ["999"]),
    ("<= 5", ["5", "-1"], ["9", "10", "nan"]),
    ("s== 5", ["5"], ["5.0", " 5 "]),
    ("s== a b", ["a"], ["a b", "b"]),
    ("s!= abc", ["5", ""], ["abc"]),
    ("s>= abc", ["abc", "gcc", "fpu"], ["5", "ABC"]),
    ("s> 9", ["abc", "a b"], ["9", "10"]),
    ("s<= gcc", ["gcc", "abc", "10"], ["x86"]),
    ("s< gcc", ["fpu", "10"], ["gcc", "x86"]),
    ("<in> c", ["abc", "gcc"], ["5", ""]),
    ("<in> a b", ["abc", "x86 a"], ["b"]),
    ("<in> <in>", ["<in>"], ["in"]),
    ("<all-in> aes mmx", ['["aes", "mmx"]', "aes mmx"], ["aes", "mmx", ""]),
    ("<all-in> aes", ['["aes", "mmx"]'], ["gcc"]),
    ("<or> fpu <or> gcc", ["fpu", "gcc"], ["fpu gcc", "gc"]),
    ("<or> fpu", ["fpu"], ["gcc"]),
    ("<or> 5 10", ["5"], ["10"]),
    ("<or> 5 <or>", ["5"], ["<or>"]),
    ("<OR> 5", ["<OR> 5"], ["5"]),
]


@pytest.mark.parametrize(
    ("expected", "value"), [(w, v) for w, values, _ in EXTRA_SPEC_OPERATOR_CASES for v in values]
)
def test_host_value_that_satisfies_the_operator_matches(expected, value):
    assert match(value, expected)


@pytest.mark.parametrize(
    ("expected", "value"), [(w, v) for w, _, values in EXTRA_SPEC_OPERATOR_CASES for v in values]
)
def test_host_value_that_violates_the_operator_does_not_match(expected, value):
    assert not match(value, expected)


@pytest.mark.parametrize(
    "operator",
    ["=", "==", "!=", ">=", "<=", "s==", "s!=", "s>=", "s>", "s<=", "s<", "<in>", "<all-in>"],
)
@pytest.mark.parametrize("value", ["5", "abc", ""])
def test_operator_without_an_operand_never_matches(operator, value):
    assert not match(value, operator)
    check("key", operator)


def test_empty_extra_spec_matches_only_an_empty_host_value():
    assert match("", "")
    assert not match("5", "")


@pytest.mark.parametrize("expected", ["= 5", "== 5", "!= 5", ">= 5", "<= 5"])
@pytest.mark.parametrize("value", ["abc", "", "1.2.0"])
def test_text_of_a_host_compared_with_a_number_is_an_error(expected, value):
    check("key", expected)
    with pytest.raises(ValueError, match="could not convert"):
        match(value, expected)


@pytest.mark.parametrize("expected", ["= abc", "== 5x", "!= x", ">= one 5", "<= x", "<or>"])
def test_error_for_an_invalid_operand_names_the_extra_spec(expected):
    with pytest.raises(Invalid, match="'hw_key'"):
        check("hw_key", expected)
    with pytest.raises(Invalid):
        match("5", expected)


@pytest.mark.parametrize(
    ("value", "expected"), [(5, ">= 3"), (5.5, "== 5.5"), (["aes"], "<in> aes")]
)
def test_host_values_other_than_strings_are_compared(value, expected):
    assert match(value, expected)
