# SPDX-License-Identifier: Apache-2.0
"""Faults of documents by JSON schemas: phrases for programs, plain sentences for people."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.schemas.validation import (
    MAX_COMPARED,
    MAX_FAULTS,
    Schema,
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
def test_first_fault_and_its_message_equal_those_of_the_library_jsonschema(document):
    """OpenStack's placement shows these phrases, and clients match them."""
    theirs = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)
    )
    fault = most_helpful(Schema(SCHEMA).find_faults(document))
    if theirs is None:
        assert fault is None
        return
    assert (fault.keys, fault.keyword) == (tuple(theirs.absolute_path), theirs.validator)
    assert fault.schema_path == tuple(theirs.absolute_schema_path)[:-1]
    if theirs.validator != "enum":  # the choices are shown as JSON
        shown = phrase(fault, repr(fault.value)).partition(";")[0]
        assert shown == theirs.message


def get_fault_of_invalid_value(schema: dict, value: object) -> dict:
    with pytest.raises(Invalid) as failure:
        Schema({"type": "object", "properties": {"a": schema}}).check({"a": value}, "wrong")
    return failure.value.fault


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "array"}, 5, "5 is not a list"),
        ({"type": ["string", "null"]}, True, "true is not a string"),
        (
            {"type": ["string", "number", "boolean"]},
            [],
            "[] is not a string, a number or a boolean",
        ),
        ({"type": "null"}, {"a": None}, '{"a": null} is not null'),
        ({"format": "uuid"}, "x", "'x' is not a uuid"),
        ({"enum": ["a", "b", None]}, "x", "'x' is not one of a, b"),
        ({"required": ["like"]}, {}, "'like' is required"),
        ({"minItems": 1}, [], "[] should be non-empty"),
        ({"minItems": 2}, [1], "[1] is too short; at least 2 items"),
        ({"maxItems": 1}, [1, 2], "[1, 2] is too long; at most 1 item"),
        ({"maxLength": 2}, "xxx", "'xxx' is too long; at most 2 characters"),
        ({"maxProperties": 0}, {"a": 1}, '{"a": 1} is expected to be empty; at most 0 properties'),
        ({"pattern": "^[A-Z0-9_]+$"}, "a b", "'a b' is not a valid name (A-Z, 0-9, _)"),
        ({"pattern": "^b$"}, "a", "'a' does not match '^b$'"),
        ({"minimum": 0}, -1, "-1 is less than the minimum of 0"),
        (
            {"properties": {"cde": {}}, "additionalProperties": False},
            {"x": 1, "y": 2},
            "unknown keys 'x', 'y'; there are: cde",
        ),
        (
            {"patternProperties": {"^a$": {}}, "additionalProperties": False},
            {"b": 1},
            "unknown key 'b'",
        ),
    ],
)
def test_plain_reason_describes_each_type_of_schema_error_in_words(schema, value, reason):
    assert plain_reason(get_fault_of_invalid_value(schema, value)) == reason


def test_fault_has_path_keyword_value_and_expected_value_as_data():
    schema = {"type": "object", "properties": {"count": {}}, "additionalProperties": False}
    assert get_fault_of_invalid_value(schema, {"cuont": 1}) == {
        "problem": "Additional properties are not allowed ('cuont' was unexpected); did you mean "
        "'count'?",
        "path": "$.a",
        "keyword": "additionalProperties",
        "value": '{"cuont": 1}',
        "expected": ["cuont"],
        "suggestion": "; did you mean 'count'?",
    }


def test_first_error_of_a_large_document_is_reported():
    schema = Schema({"type": "object", "additionalProperties": {"type": "string"}})
    large = {f"key{number}": number for number in range(MAX_COMPARED)}
    assert len(list(schema.find_faults(large))) == 1
    with pytest.raises(Invalid, match=r"(at \$\.key\d+\)).*'type' in schema\['additionalProp"):
        schema.check(large, "JSON does not validate")


def test_number_of_compared_errors_of_a_document_is_limited():
    schema = Schema({"type": "array", "items": {"type": "string"}})
    assert len(list(schema.find_faults([1] * (MAX_COMPARED - 1)))) == MAX_FAULTS
