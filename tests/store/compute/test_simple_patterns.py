"""Regular expressions that databases are given: quick ones alone, which find the same."""

import re
from dataclasses import replace

import pytest

from placement_sched.errors import Invalid
from placement_sched.store.compute import instances
from placement_sched.store.compute.server_list import ServersWanted, search
from placement_sched.store.compute.simple_patterns import LONGEST, quick_expression
from tests.exploring import Dice
from tests.store.compute.test_server_list import NOW, an_instance

pytestmark = pytest.mark.all_databases

NAMES = ["", "web-01", "web-2.example.org", "db-prod-7", "aabbc", "ac", "bc", "a]^-b", "x", "é"]


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
        "]*a*",
        ".*prod.*",
        "^(web|db)-[a-z0-9.-]+$",
        "(?:web|db)(-prod)?-[0-9]{1,3}$",
        "a+b*c",
        "a+b{2}",
        "a|^b+",
        "web.*01",
        "^web.*example.*org$",
        "web.*(org|com)",
        "db-.*-7",
        "[a-z]+[0-9]",
        ".*.*.*.*",
        "^a*b*c?",
    ],
)
def test_ordinary_expressions_find_the_same_names(pattern):
    quick = quick_expression(pattern)
    for name in NAMES:
        assert bool(re.search(quick, name)) == bool(re.search(pattern, name)), name


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("(.+)+!", 5),
        ("^(a+)+$", 6),
        ("web(a|a)*", 9),
        ("(a|aa)+", 7),
        ("(a{1,9}){1,9}", 9),
        (r"^(a*)(a*)(a*)(a*)\4\3\2\1b$", 18),
        ("a*?", 3),
        ("a*+", 3),
        (r"a\1", 2),
        (r"\b", 1),
        (r"\x61*", 1),
        ("^*", 2),
        ("ab$*", 4),
        ("a{256}", 2),
        ("a{3,2}", 2),
        ("a{200}b{200}", 8),
        ("(?=a)", 2),
        ("(?i)a", 2),
        ("(" * 11 + "a" + ")" * 11, 11),
        ("(a", 2),
        ("a)", 2),
    ],
)
def test_what_is_not_simple_is_refused_with_the_place(pattern, place):
    with pytest.raises(Invalid, match=rf"at character {place} of the name"):
        quick_expression(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "x.*.*y",
        "x.*a*!",
        "^a*a*a*!",
        "web.*prod.*01",
        "^.*(a*)(a*)(a*)b",
        "(a|a)" * 20,
        "^" + "(a?)" * 30 + "!",
        "x.*" + "a" * 127 + "b",
        "xa{1,99}a{1,99}a{1,50}b",
    ],
)
def test_what_may_take_long_is_refused(pattern):
    with pytest.raises(Invalid, match="may take long"):
        quick_expression(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["a.*[!?]", "^a*[ab]*[!?]", "(a|a)(a|a)(a|a)(a|a)(a|a)[!?]", "a{254}!", "a[ab]*[a][!?]"],
)
def test_what_passes_can_be_matched_with_the_longest_names(database, pattern):
    def fill(connection):
        every = [an_instance(number, "active", None) for number in range(1, 101)]
        long = [replace(one, display_name="a" * LONGEST) for one in every]
        instances.record(connection, long, NOW)

    database.write(fill)
    with database.read() as connection:
        assert search(connection, ServersWanted(name=pattern)) == ()


@pytest.mark.property
def test_expressions_made_at_random_find_the_same_names():
    rng = Dice.of(5)
    passed = 0
    for _ in range(500):
        parts = ["a", "b", ".", "[ab]", "^", "$", "(a|b)", "(a)?", "|", "(|b)", "[^a]"]
        signs = ["", "", "*", "+", "?", "{2}", "{0,1}"]
        pattern = ""
        for _ in range(rng.randint(1, 4)):
            part = rng.choice(parts)
            pattern += part + ("" if part[0] in "(^$|" else rng.choice(signs))
        try:
            quick = quick_expression(pattern)
        except Invalid:
            continue
        passed += 1
        for name in ("", "a", "b", "ab", "ba", "aab", "bab", "abba", "c", "cab"):
            assert bool(re.search(quick, name)) == bool(re.search(pattern, name)), (pattern, name)
    assert passed > 300
