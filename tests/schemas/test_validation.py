# SPDX-License-Identifier: Apache-2.0
"""Documents are read by their schema, and faults are reported with their path.

Faults of documents by JSON schemas: phrases for programs, plain sentences for people.
"""

import re

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.schemas import formats, parts
from placement_sched.schemas.parts import (
    FLAVOR_ID,
    HOST,
    KEY,
    NAME,
    SYMBOL,
    ZONE,
    build_list_schema,
    build_map_schema,
    build_object_schema,
)
from placement_sched.schemas.validation import (
    MAX_COMPARED,
    MAX_FAULTS,
    UNCONVERTED,
    Reader,
    Schema,
    describe_fault,
    find_most_helpful,
    format_phrase,
)

INTEGER_SCHEMA = {"type": "integer", "minimum": 0, "maximum": 10}
NUMBER_SCHEMA = {"type": "number", "minimum": 0.0, "maximum": 10.0}


def convert_value(schema, value, path="$", **options):
    return formats.read(Reader(schema, **options), value, path)


def test_numbers_are_converted_to_int_or_float_according_to_the_schema():
    whole, number = convert_value(INTEGER_SCHEMA, 4.0), convert_value(NUMBER_SCHEMA, 4)
    assert (whole, type(whole), number, type(number)) == (4, int, 4.0, float)


def test_value_is_not_converted_if_its_schema_has_keyword_as_given():
    assert str(
        convert_value(
            {"type": "object", "properties": {"a": INTEGER_SCHEMA}, UNCONVERTED: True}, {"a": 4.0}
        )
    ) == ("{'a': 4.0}")


def test_values_that_do_not_match_the_schema_are_rejected():
    nan, infinity = float("nan"), float("inf")
    for schema, values, message in (
        (INTEGER_SCHEMA, (True, "1", 1.5, None, [], nan, infinity), "is not an integer"),
        (INTEGER_SCHEMA, (-1,), "less than the minimum of 0"),
        (INTEGER_SCHEMA, (11,), "greater than the maximum of 10"),
        (NUMBER_SCHEMA, (nan, infinity), "is not a number"),
        (NUMBER_SCHEMA, (-0.1,), "less than the minimum of 0.0"),
        (
            {**NAME, "format": "name"},
            ("", " a", "a ", "a\0b", "a\nb", "\ud800", "x" * 256, 1),
            None,
        ),
    ):
        for value in values:
            with pytest.raises(Invalid, match=message):
                convert_value(schema, value)


def test_error_in_a_nested_value_has_its_json_path():
    inner = build_object_schema({"b c": build_map_schema(NAME, build_list_schema(INTEGER_SCHEMA))})
    nested = build_list_schema(build_object_schema({"a": inner}))
    with pytest.raises(Invalid) as failure:
        convert_value(nested, [{}, {"a": {"b c": {"d": [1, "x"]}}}], "$.top")
    assert failure.value.detail == "'x' is not an integer (at $.top[1].a['b c'].d[1])"


def test_error_in_a_value_of_a_recursive_schema_has_its_json_path():
    tree = {"$ref": "#/$defs/tree"}
    schema = {
        **tree,
        "$defs": {
            "tree": build_object_schema({"n": INTEGER_SCHEMA, "below": build_list_schema(tree)})
        },
    }
    assert convert_value(schema, {"below": [{"n": 4.0}]}) == {"below": [{"n": 4}]}
    with pytest.raises(
        Invalid, match=r"11 is greater than the maximum of 10 \(at \$\.below\[0\]\.n\)"
    ):
        convert_value(schema, {"below": [{"n": 11}]})


def test_long_value_is_shortened_in_an_error():
    with pytest.raises(Invalid) as failure:
        convert_value(INTEGER_SCHEMA, "x" * 10_000)
    assert len(failure.value.detail) < 200


def test_error_names_unknown_and_missing_keys():
    schema = build_object_schema({"a": parts.BOOLEAN}, "a")
    for document, message in (
        ({"a": True, "b": 1}, r"unknown key 'b'. There are: a \(at \$\.b\)"),
        ({}, r"'a' is required \(at \$\)"),
    ):
        with pytest.raises(Invalid, match=message):
            convert_value(schema, document)


def test_vm_mode_can_be_an_alias_in_upper_or_lower_case():
    mode = {"type": "string", "format": "vm-mode"}
    assert [convert_value(mode, text) for text in ("XEN", "Pv", "hv")] == ["xen", "xen", "hvm"]
    with pytest.raises(Invalid, match="'none' is not one of exe, hvm, uml, xen"):
        convert_value(mode, "none")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (SYMBOL, "lower", "'lower' is not a valid name (A-Z, 0-9, _)"),
        (HOST, "a b", "'a b' is not a valid host name (letters, digits, _ . -)"),
        (ZONE, "a:b", "'a:b' has a colon, which no availability zone may have"),
        (ZONE, " a", "' a' is not printable, or begins or ends with a blank"),
        (FLAVOR_ID, " ", "' ' is not a valid id (letters, digits, _ . - and, inside, blanks)"),
        (
            build_map_schema(KEY, {}),
            {"/": 1},
            "'/' is not a valid key (letters, digits, : _ . - and",
        ),
        ({"exclusiveMinimum": 0}, 0, "0 is less than or equal to the minimum of 0"),
        ({"const": 1}, 2, "1 was expected"),
    ],
)
def test_schema_error_describes_the_expected_value(schema, value, message):
    with pytest.raises(Invalid) as failure:
        convert_value(schema, value)
    assert str(failure.value).startswith(message)


def test_option_digits_as_text_converts_integers_to_required_strings():
    schema = build_object_schema(
        {
            "a": NAME,
            "b": build_list_schema(NAME),
            "c": INTEGER_SCHEMA,
            "d": {**NAME, UNCONVERTED: True},
        }
    )
    document = {"a": 1, "b": [2], "c": 3, "d": 4}
    assert convert_value(schema, document, digits_as_text=True) == {
        "a": "1",
        "b": ["2"],
        "c": 3,
        "d": "4",
    }
    with pytest.raises(Invalid, match=r"true is not a string. Put it in quotes \(at \$\.a\)"):
        convert_value(schema, {"a": True}, digits_as_text=True)


def test_json_path_of_an_error_quotes_keys_that_look_like_numbers():
    nested = build_list_schema(build_map_schema(NAME, build_map_schema(NAME, INTEGER_SCHEMA)))
    for key in ("1", "0", " 1", "\u0661"):
        with pytest.raises(Invalid) as failure:
            convert_value(nested, [{}, {key: {key: "x"}}])
        assert failure.value.detail == f"'x' is not an integer (at $[1][{key!r}][{key!r}])"


def test_error_under_an_empty_or_numeric_key_is_reported():
    nested = build_map_schema({}, build_map_schema({}, INTEGER_SCHEMA))
    for key in ("", "+1", "01"):
        with pytest.raises(Invalid, match="'x' is not an integer"):
            convert_value(nested, {key: {key: "x"}, "1": {}})
    document = {"": {"b": {"c": "x"}}, "b": {"c": 1}}
    with pytest.raises(Invalid, match=r"'x' is not an integer \(at \$\.b\.c\)"):
        convert_value(
            build_map_schema({}, build_map_schema({}, {"additionalProperties": INTEGER_SCHEMA})),
            document,
        )


NESTED_SCHEMA = {
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
RANDOM_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 12) | st.sampled_from(["", "a", "x", "ABCD", "AB"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "A1"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SCHEMA_PROPERTY_NAMES = st.sampled_from(["number", "text", "list", "either", "within", "other"])


@given(RANDOM_JSON_VALUES | st.dictionaries(SCHEMA_PROPERTY_NAMES, RANDOM_JSON_VALUES))
def test_first_error_and_its_message_equal_the_first_error_of_library_jsonschema(document):
    """OpenStack's placement shows these phrases, and clients match them."""
    theirs = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(NESTED_SCHEMA).iter_errors(document)
    )
    fault = find_most_helpful(Schema(NESTED_SCHEMA).find_faults(document))
    if theirs is None:
        assert fault is None
        return
    assert (fault.keys, fault.keyword) == (tuple(theirs.absolute_path), theirs.validator)
    assert fault.schema_path == tuple(theirs.absolute_schema_path)[:-1]
    if theirs.validator != "enum":  # the choices are shown as JSON
        phrase = format_phrase(fault, repr(fault.value))
        assert re.sub(r": at (least|most) \d+ \w+$", "", phrase) == theirs.message


def read_error_of_invalid_value(schema: dict, value: object) -> dict:
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
        (
            {"enum": ["fit", "pack", None]},
            "fti",
            "'fti' is not one of fit, pack. Did you mean 'fit'?",
        ),
        ({"required": ["like"]}, {}, "'like' is required"),
        ({"minItems": 1}, [], "[] should be non-empty"),
        ({"minItems": 2}, [1], "[1] is too short: at least 2 items"),
        ({"maxItems": 1}, [1, 2], "[1, 2] is too long: at most 1 item"),
        ({"maxLength": 2}, "xxx", "'xxx' is too long: at most 2 characters"),
        ({"maxProperties": 0}, {"a": 1}, '{"a": 1} is expected to be empty: at most 0 properties'),
        ({"pattern": "^[A-Z0-9_]+$"}, "a b", "'a b' is not a valid name (A-Z, 0-9, _)"),
        ({"pattern": "^b$"}, "a", "'a' does not match '^b$'"),
        ({"minimum": 0}, -1, "-1 is less than the minimum of 0"),
        (
            {"properties": {"cde": {}}, "additionalProperties": False},
            {"x": 1, "y": 2},
            "unknown keys 'x', 'y'. There are: cde",
        ),
        (
            {"patternProperties": {"^a$": {}}, "additionalProperties": False},
            {"b": 1},
            "unknown key 'b'",
        ),
    ],
)
def test_plain_reason_of_each_type_of_schema_error_is_in_words(schema, value, reason):
    assert describe_fault(read_error_of_invalid_value(schema, value)) == reason


def test_schema_error_has_path_keyword_value_and_expected_value_as_data():
    schema = {"type": "object", "properties": {"count": {}}, "additionalProperties": False}
    assert read_error_of_invalid_value(schema, {"cuont": 1}) == {
        "problem": "Additional properties are not allowed ('cuont' was unexpected). Did you mean "
        "'count'?",
        "path": "$.a",
        "keyword": "additionalProperties",
        "value": '{"cuont": 1}',
        "expected": ["cuont"],
        "suggestion": ". Did you mean 'count'?",
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
