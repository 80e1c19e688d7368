"""Shapes: what they read, and the JSON path they tell of what they cannot."""

from datetime import datetime

import pytest

from placement_sched.errors import Invalid
from placement_sched.model import shape


def test_number_without_fraction_is_an_integer():
    assert shape.read(shape.integer(), 4.0) == 4
    assert type(shape.read(shape.integer(), 4.0)) is int


@pytest.mark.parametrize("value", [True, "1", 1.5, None, [], float("nan"), float("inf")])
def test_other_values_are_no_integers(value):
    with pytest.raises(Invalid, match="is not an integer"):
        shape.read(shape.integer(), value)


@pytest.mark.parametrize("value", [-1, 11])
def test_integer_out_of_range_names_the_range(value):
    with pytest.raises(Invalid, match="is not within 0 and 10"):
        shape.read(shape.integer(0, 10), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_number_is_finite_and_in_range(value):
    with pytest.raises(Invalid, match="is not within"):
        shape.read(shape.number(0.0, 10.0), value)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-01T12:00:00", datetime(2026, 1, 1, 12)),
        ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12)),
        ("2026-01-01T12:00:00+02:00", datetime(2026, 1, 1, 10)),
        ("2026-01-01 12:00:00.75", datetime(2026, 1, 1, 12)),
        ("20260101T120000Z", datetime(2026, 1, 1, 12)),
    ],
)
def test_moment_is_naive_utc_without_a_fraction(text, utc):
    assert shape.read(shape.moment, text) == utc


@pytest.mark.parametrize(
    "value", ["yesterday", 1, None, "", "0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00"]
)
def test_what_is_no_moment_is_refused(value):
    with pytest.raises(Invalid):
        shape.read(shape.moment, value)


@pytest.mark.parametrize(
    "value",
    ["12345678123456781234567812345678", "12345678-1234-5678-1234-567812345678".upper()],
)
def test_uuid_takes_its_usual_form(value):
    assert shape.read(shape.uuid, value) == "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    "value", ["", "x", None, 7, "12345678-1234-5678-1234-56781234567", "0x" + "1" * 30]
)
def test_what_is_no_uuid_is_refused(value):
    with pytest.raises(Invalid, match="is not a uuid"):
        shape.read(shape.uuid, value)


@pytest.mark.parametrize("value", ["", " a", "a ", "a\x00b", "a\nb", "\ud800", "x" * 256, 1])
def test_what_is_no_name_is_refused(value):
    with pytest.raises(Invalid):
        shape.read(shape.name(), value)


def test_fault_tells_its_path():
    inner = shape.record({"b c": shape.mapping_of(shape.name(), shape.list_of(shape.integer()))})
    nested = shape.list_of(shape.record({"a": inner}))
    with pytest.raises(Invalid) as fault:
        shape.read(nested, [{}, {"a": {"b c": {"d": [1, "x"]}}}], "$.top")
    assert fault.value.detail == "'x' is not an integer (at $.top[1].a['b c'].d[1])"


def test_long_value_is_shown_shortened():
    with pytest.raises(Invalid) as fault:
        shape.read(shape.integer(), "x" * 10_000)
    assert len(fault.value.detail) < 200


def test_unknown_key_is_named_by_path():
    with pytest.raises(Invalid, match=r"the key is unknown \(at \$\.b\)"):
        shape.read(shape.record({"a": shape.boolean}), {"a": True, "b": 1})


def test_missing_key_is_named():
    with pytest.raises(Invalid, match=r"'a' is required \(at \$\)"):
        shape.read(shape.record({"a": shape.boolean}, required=("a",)), {})


def test_enumeration_knows_aliases_and_either_case():
    colour = shape.one_of({"red", "grey"}, {"gray": "grey"})
    assert [shape.read(colour, text) for text in ("RED", "Gray", "grey")] == ["red", "grey", "grey"]
    with pytest.raises(Invalid, match="is not one of grey, red"):
        shape.read(colour, "blue")


def test_key_that_is_no_string_is_refused():
    with pytest.raises(Invalid, match="the key 1 is not a string"):
        shape.read(shape.mapping_of(shape.name(), shape.boolean), {1: True})
