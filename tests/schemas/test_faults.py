# SPDX-License-Identifier: Apache-2.0
"""Faults against JSON schemas: the phrases for programs, and the plain words for people."""

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.api.validation import Schema
from placement_sched.errors import Invalid
from placement_sched.schemas.faults import (
    expectation,
    faults_in,
    most_helpful,
    phrase,
    plain_reason,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
        "text": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[A-Z]+$"},
        "list": {
            "type": "array",
            "items": {"enum": ["x", 1, None]},
            "minItems": 1,
            "maxItems": 2,
            "uniqueItems": True,
        },
        "either": {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]},
        "within": {
            "type": "object",
            "patternProperties": {"^[a-z]+$": {"type": "number", "exclusiveMinimum": 0}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 2,
        },
    },
    "required": ["number"],
    "additionalProperties": False,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 12) | st.sampled_from(["", "a", "x", "ABCD", "AB"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "A1"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["number", "text", "list", "either", "within", "other"])


@given(VALUES | st.dictionaries(NAMES, VALUES))
def test_a_fault_is_that_of_the_library_jsonschema_in_its_words(document):
    """OpenStack's placement shows these phrases, and clients match them."""
    theirs = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)
    )
    fault = most_helpful(faults_in(jsonschema_rs.validator_for(SCHEMA), document, SCHEMA))
    if theirs is None:
        assert fault is None
        return
    assert (fault.keys, fault.keyword) == (tuple(theirs.absolute_path), theirs.validator)
    assert fault.schema_path == tuple(theirs.absolute_schema_path)[:-1]
    if theirs.validator != "enum":  # whose choices are shown as JSON
        told = phrase(fault, repr).partition(";")[0]
        assert told == theirs.message


def fault_of(schema: dict, value: object) -> dict:
    with pytest.raises(Invalid) as refused:
        Schema({"type": "object", "properties": {"a": schema}}).check({"a": value}, "wrong")
    return refused.value.fault


@pytest.mark.parametrize(
    ("schema", "value", "shown", "expected"),
    [
        ({"type": ["string", "null"]}, 5, "5", "a text or null"),
        ({"format": "uuid"}, "x", "'x'", "a UUID"),
        ({"minimum": 0}, -1, "-1", "0 or more"),
        ({"exclusiveMinimum": 0}, 0, "0", "more than 0"),
        ({"enum": ["a", "b", None]}, "x", "'x'", "a or b"),
        ({"pattern": "^[A-Z0-9_]+$"}, "a b", "'a b'", "capital letters, digits and _"),
        ({"maxLength": 2}, "xxx", "'xxx'", "at most 2 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_given_with_what_does(schema, value, shown, expected):
    assert expectation(fault_of(schema, value)) == (shown, expected)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "array"}, 5, "expected a list, not 5"),
        ({"required": ["like"]}, {}, "the key 'like' is missing"),
        ({"minItems": 1}, [], "expected at least one entry, not []"),
        ({"minLength": 1}, "", "expected a text that is not empty"),
        (
            {"maxProperties": 1},
            {"a": 1, "b": 2},
            'expected one key, not the keys of {"a": 1, "b": 2}',
        ),
        ({"pattern": "^b$"}, "a", "'a' is not of the form '^b$'"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, "1 has none of the accepted forms"),
        (
            {"properties": {"cde": {}}, "additionalProperties": False},
            {"x": 1, "y": 2},
            "unknown keys 'x', 'y'; there are: cde",
        ),
        ({"minimum": 0}, -1, "-1 is less than the minimum of 0"),
    ],
)
def test_a_reason_is_put_in_plain_words(schema, value, reason):
    assert plain_reason(fault_of(schema, value)).startswith(reason)
