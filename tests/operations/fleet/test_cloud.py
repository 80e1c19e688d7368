# SPDX-License-Identifier: Apache-2.0
"""Patterns that stand for many names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.operations.fleet.cloud import escape, expand, fill_in, fold
from placement_sched.schemas.formats import DocumentError


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("cn1", ["cn1"]),
        ("cn[1-3]", ["cn1", "cn2", "cn3"]),
        ("cn[098-101]", ["cn098", "cn099", "cn100", "cn101"]),
        ("cn[8-11]x", ["cn8x", "cn9x", "cn10x", "cn11x"]),
        ("cn[1,3-4, 9]", ["cn1", "cn3", "cn4", "cn9"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        (r"a\[1-2\]\\\{", ["a[1-2]\\{"]),
        ("[5-5]", ["5"]),
        ("x]y", ["x]y"]),
    ],
)
def test_name_pattern_expands_to_names(pattern, names):
    assert expand(pattern) == names


@pytest.mark.parametrize(
    "pattern",
    ["cn[", "cn[]", "cn[a-b]", "cn[3-1]", "cn[1-]", "cn[1-9999999]", "[1-2000][1-2000]", "cn\\"],
)
def test_invalid_name_pattern_is_rejected(pattern):
    with pytest.raises(DocumentError):
        expand(pattern)


@given(st.lists(st.text(alphabet="a1029[]{}\\-é", min_size=1, max_size=6), max_size=12))
def test_names_folded_into_patterns_expand_to_the_same_names(names):
    assert [name for pattern in fold(names) for name in expand(pattern)] == names


@given(st.integers(0, 10**17), st.integers(1, 50), st.integers(1, 18))
def test_consecutively_numbered_names_fold_into_one_pattern(first, count, width):
    names = [f"cn{number:0{width}}-x" for number in range(first, first + count)]
    folded = fold(names)
    assert [name for pattern in folded for name in expand(pattern)] == names
    if len({len(name) for name in names}) == 1:
        assert len(folded) == 1


def test_root_placeholder_is_replaced_by_the_unescaped_name():
    assert expand(fill_in(r"{root}_gpu[0-1]\{", {"root": "cn[1]"})) == [
        "cn[1]_gpu0{",
        "cn[1]_gpu1{",
    ]


def test_unknown_placeholder_of_a_name_pattern_is_rejected():
    with pytest.raises(DocumentError):
        fill_in("{host}", {"root": "cn1"})


@given(st.text(min_size=1, max_size=20))
def test_pattern_of_an_escaped_name_expands_to_the_name(name):
    assert expand(fill_in(escape(name), {"root": "r"})) == [name]
