# SPDX-License-Identifier: Apache-2.0
"""Documents are read by their schema, and faults are reported with their path."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.schemas import formats, parts
from placement_sched.schemas.parts import (
    FLAVOR_ID,
    HOST,
    KEY,
    NAME,
    SYMBOL,
    ZONE,
    list_schema,
    map_schema,
    object_schema,
)
from placement_sched.schemas.validation import AS_GIVEN, Reader

INTEGER = {"type": "integer", "minimum": 0, "maximum": 10}
NUMBER = {"type": "number", "minimum": 0.0, "maximum": 10.0}


def read_value(schema, value, path="$", **options):
    return formats.read(Reader(schema, **options), value, path)


def test_numbers_are_converted_to_int_or_float_as_the_schema_says():
    whole, number = read_value(INTEGER, 4.0), read_value(NUMBER, 4)
    assert (whole, type(whole), number, type(number)) == (4, int, 4.0, float)


def test_value_is_not_converted_if_its_schema_has_as_given():
    assert str(
        read_value({"type": "object", "properties": {"a": INTEGER}, AS_GIVEN: True}, {"a": 4.0})
    ) == ("{'a': 4.0}")


def test_values_that_do_not_match_the_schema_are_rejected():
    nan, infinity = float("nan"), float("inf")
    for schema, values, message in (
        (INTEGER, (True, "1", 1.5, None, [], nan, infinity), "is not an integer"),
        (INTEGER, (-1,), "less than the minimum of 0"),
        (INTEGER, (11,), "greater than the maximum of 10"),
        (NUMBER, (nan, infinity), "is not a number"),
        (NUMBER, (-0.1,), "less than the minimum of 0.0"),
        (
            {**NAME, "format": "name"},
            ("", " a", "a ", "a\0b", "a\nb", "\ud800", "x" * 256, 1),
            None,
        ),
    ):
        for value in values:
            with pytest.raises(Invalid, match=message):
                read_value(schema, value)


def test_error_in_a_nested_value_has_its_json_path():
    inner = object_schema({"b c": map_schema(NAME, list_schema(INTEGER))})
    nested = list_schema(object_schema({"a": inner}))
    with pytest.raises(Invalid) as failure:
        read_value(nested, [{}, {"a": {"b c": {"d": [1, "x"]}}}], "$.top")
    assert failure.value.detail == "'x' is not an integer (at $.top[1].a['b c'].d[1])"


def test_error_in_a_value_of_a_recursive_schema_has_its_json_path():
    tree = {"$ref": "#/$defs/tree"}
    schema = {**tree, "$defs": {"tree": object_schema({"n": INTEGER, "below": list_schema(tree)})}}
    assert read_value(schema, {"below": [{"n": 4.0}]}) == {"below": [{"n": 4}]}
    with pytest.raises(
        Invalid, match=r"11 is greater than the maximum of 10 \(at \$\.below\[0\]\.n\)"
    ):
        read_value(schema, {"below": [{"n": 11}]})


def test_long_value_is_shortened_in_an_error():
    with pytest.raises(Invalid) as failure:
        read_value(INTEGER, "x" * 10_000)
    assert len(failure.value.detail) < 200


def test_unknown_and_missing_keys_are_named():
    schema = object_schema({"a": parts.BOOLEAN}, "a")
    for document, message in (
        ({"a": True, "b": 1}, r"unknown key 'b'; there are: a \(at \$\.b\)"),
        ({}, r"'a' is required \(at \$\)"),
    ):
        with pytest.raises(Invalid, match=message):
            read_value(schema, document)


def test_enumerated_names_can_have_aliases_and_either_case():
    mode = {"type": "string", "format": "vm-mode"}
    assert [read_value(mode, text) for text in ("XEN", "Pv", "hv")] == ["xen", "xen", "hvm"]
    with pytest.raises(Invalid, match="'none' is not one of exe, hvm, uml, xen"):
        read_value(mode, "none")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (SYMBOL, "lower", "'lower' is not a valid name (A-Z, 0-9, _)"),
        (HOST, "a b", "'a b' is not a valid host name (letters, digits, _ . -)"),
        (ZONE, "a:b", "'a:b' has a colon, which no availability zone may have"),
        (ZONE, " a", "' a' is not printable, or begins or ends with a blank"),
        (FLAVOR_ID, " ", "' ' is not a valid id (letters, digits, _ . - and, inside, blanks)"),
        (map_schema(KEY, {}), {"/": 1}, "'/' is not a valid key (letters, digits, : _ . - and"),
        ({"exclusiveMinimum": 0}, 0, "0 is less than or equal to the minimum of 0"),
        ({"const": 1}, 2, "1 was expected"),
    ],
)
def test_error_describes_the_expected_value(schema, value, message):
    with pytest.raises(Invalid) as failure:
        read_value(schema, value)
    assert str(failure.value).startswith(message)


def test_digits_as_text_converts_integers_where_the_schema_requires_text():
    schema = object_schema(
        {"a": NAME, "b": list_schema(NAME), "c": INTEGER, "d": {**NAME, AS_GIVEN: True}}
    )
    document = {"a": 1, "b": [2], "c": 3, "d": 4}
    assert read_value(schema, document, digits_as_text=True) == {
        "a": "1",
        "b": ["2"],
        "c": 3,
        "d": "4",
    }
    with pytest.raises(Invalid, match=r"true is not a string; put it in quotes \(at \$\.a\)"):
        read_value(schema, {"a": True}, digits_as_text=True)


def test_json_path_of_an_error_quotes_keys_that_look_like_numbers():
    nested = list_schema(map_schema(NAME, map_schema(NAME, INTEGER)))
    for key in ("1", "0", " 1", "\u0661"):
        with pytest.raises(Invalid) as failure:
            read_value(nested, [{}, {key: {key: "x"}}])
        assert failure.value.detail == f"'x' is not an integer (at $[1][{key!r}][{key!r}])"


def test_error_under_an_empty_or_numeric_key_is_reported():
    nested = map_schema({}, map_schema({}, INTEGER))
    for key in ("", "+1", "01"):
        with pytest.raises(Invalid, match="'x' is not an integer"):
            read_value(nested, {key: {key: "x"}, "1": {}})
    document = {"": {"b": {"c": "x"}}, "b": {"c": 1}}
    with pytest.raises(Invalid, match=r"'x' is not an integer \(at \$\.b\.c\)"):
        read_value(map_schema({}, map_schema({}, {"additionalProperties": INTEGER})), document)
