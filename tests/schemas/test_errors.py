"""What checkers of schemas say, in plain words."""

import pytest

from placement_sched.schemas.errors import expectation, plain_reason, taken_apart


@pytest.mark.parametrize(
    ("problem", "value", "expected"),
    [
        ("5 is not of type 'string', 'null'", "5", "a text or null"),
        ("'x' is not a 'uuid'", "'x'", "a UUID"),
        ("'x' is not a 'date-time'", "'x'", "a time"),
        ("-1 is less than the minimum of 0", "-1", "0 or more"),
        ("0 is less than or equal to the minimum of 0", "0", "more than 0"),
        ("'x' is not one of ['a', 'b', null]", "'x'", "a or b"),
        ("'a b' does not match '^[A-Z0-9_]+$'", "'a b'", "capital letters, digits and _"),
        ("'xx' is too long; at most 1 character", "'xx'", "at most 1 character"),
    ],
)
def test_a_value_that_does_not_fit_is_given_with_what_does(problem, value, expected):
    assert expectation(problem) == (value, expected)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("5 is not of type 'array'", "expected a list, not 5"),
        ("'like' is a required property", "the key 'like' is missing"),
        ("[] should be non-empty", "expected at least one entry, not []"),
        ("'a' does not match '^b$'", "'a' is not of the form '^b$'"),
        (
            "Additional properties are not allowed ('a', 'b' were unexpected); there are: c",
            "unknown keys 'a', 'b'; there are: c",
        ),
    ],
)
def test_a_reason_is_put_in_plain_words(problem, reason):
    assert plain_reason(problem) == reason


@pytest.mark.parametrize("problem", ["-1 is less than the minimum of 0", "there is no host 'x'"])
def test_what_is_plain_already_stays(problem):
    assert plain_reason(problem) == problem


def test_an_error_without_a_place_is_not_taken_apart():
    assert taken_apart("No host fits (2 are down)") is None
    assert taken_apart("wrong (at $.a['b c'][0]) (400)") == ("wrong", "$.a['b c'][0]", " (400)")
