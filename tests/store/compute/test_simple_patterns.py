"""Regular expressions that SQLite is given: quick ones alone."""

import re

import pytest

from placement_sched.errors import Invalid
from placement_sched.store.compute.simple_patterns import refuse_slow


@pytest.mark.parametrize(
    "pattern",
    [
        "web",
        "",
        "^web-[0-9]+$",
        r"^web.*\.example\.[a-z]+$",
        r"s\d$",
        "[]a^-]*b",
        r"[^\]]?x",
        "a.c",
        "é+",
        "}",
    ],
)
def test_ordinary_expressions_pass(pattern):
    re.compile(pattern)
    refuse_slow(pattern)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("(.+)+!", 1),
        ("web(a|a)*", 4),
        ("a|b", 2),
        ("a{1,9}", 2),
        ("a*b*", 4),
        ("^a*b*c?", 7),
        ("a*?", 3),
        ("a*+", 3),
        (r"a\1", 2),
        (r"\b", 1),
        (r"\x61*", 1),
        ("^*", 2),
        ("ab$*", 4),
        ("]*a*", 2),
    ],
)
def test_other_expressions_are_refused_with_the_place(pattern, place):
    with pytest.raises(Invalid, match=rf"at character {place} of the name"):
        refuse_slow(pattern)


@pytest.mark.parametrize(
    "pattern", [".*!", "[a-z]+[0-9]", "^.*[a-z]*!", "^a?.+!", ".?" + "a" * 250]
)
def test_what_passes_can_be_matched_with_the_longest_name(pattern):
    refuse_slow(pattern)
    re.search(pattern, "a" * 255)
