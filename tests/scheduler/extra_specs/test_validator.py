"""One validator: what it takes, what it refuses, and in what words."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.extra_specs import ExtraSpecValidator


def validator(name="acme:x", parameters=None, **value):
    return ExtraSpecValidator(name, "What it is.", value, parameters)


@pytest.mark.parametrize("value", ["true", "False", "YES", " on ", "t", "0", "n"])
def test_booleans(value):
    validator(type=bool).check(value)


@pytest.mark.parametrize(
    ("one", "value", "words"),
    [
        (validator(type=bool), "", "'' is not a valid boolean-like value."),
        (validator(type=bool), "maybe", "'maybe' is not a valid boolean-like value."),
        (validator(type=int), "x", "'x' is not a valid integer value."),
        (validator(type=int), "1.0", "'1.0' is not a valid integer value."),
        (validator(type=int, min=1), "0", "'0' is less than the min value of '1'."),
        (validator(type=int, max=1), "2", "'2' is greater than the max value of '1'."),
        (validator(type=str, enum=["a", "b"]), "A", "'A' is not one of: a, b."),
        (validator(type=str, pattern="[0-9]+"), "1,", "'1,' is not of the format '[0-9]+'."),
    ],
)
def test_refusals(one, value, words):
    with pytest.raises(Invalid) as refused:
        one.check(value)
    assert refused.value.detail == f"Validation failed; {words}"


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (validator(type=int), "-5"),
        (validator(type=int, min=0, max=0), "0"),
        (validator(type=str), "anything\nat all"),
        (validator(type=str, enum=("a",)), "a"),
        (validator(type=str, pattern="[0-9]+"), "12"),
    ],
)
def test_what_is_taken(one, value):
    one.check(value)


def test_name_and_namespace_match_whole_keys_with_their_parameters():
    one = validator(
        "acme{group}:x.{num}",
        [
            {"name": "group", "pattern": "[a-z]*", "description": "A group."},
            {"name": "num", "pattern": r"\d+|any", "description": "A number."},
        ],
        type=str,
    )
    matching = ("acme:x.1", "acmeb:x.any")
    assert all(one.name_pattern.fullmatch(key) for key in matching)
    assert not any(map(one.name_pattern.fullmatch, ("acme:x.", "acme:xx1", "acmeB:x.1")))
    assert one.namespace_pattern.fullmatch("acmeb")
    assert validator("plain", type=str).namespace_pattern is None


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"value": {}}, "the type of the value"),
        ({"value": {"type": list}}, "the type of the value"),
        ({"value": {"type": "str"}}, "the type of the value"),
        ({"value": {"type": str, "min": 1}}, "str has no min"),
        ({"value": {"type": int, "pattern": "x"}}, "int has no pattern"),
        ({"value": {"type": str, "pattern": "("}}, "acme:x"),
        ({"name": "acme:{y}"}, "acme:{y}: 'y'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y"}]}, "'pattern'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y", "pattern": "("}]}, "acme:{y}"),
    ],
)
def test_what_could_never_be_checked_is_refused_when_it_is_made(told, words):
    given = {"name": "acme:x", "description": "What.", "value": {"type": str}, **told}
    with pytest.raises(ValueError, match=words.replace("{", r"\{")):
        ExtraSpecValidator(**given)
