# SPDX-License-Identifier: Apache-2.0
"""The YAML parser of fleet files, and the lines of errors."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.yaml_file import YamlFile, to_yaml


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1", {"a": 1}),
        ("a: -0.5", {"a": -0.5}),
        ("a: 010", {"a": "010"}),
        ("a: 1_000", {"a": "1_000"}),
        (f"a: {10**19 - 1}", {"a": 10**19 - 1}),
        (f"a: {10**19}", {"a": str(10**19)}),
        (f"a: {1 - 10**18}", {"a": 1 - 10**18}),
        (f"a: {-(10**18)}", {"a": str(-(10**18))}),
        ("a: +1", {"a": "+1"}),
        ("a: 1.5e-07", {"a": 1.5e-07}),
        (f"a: {'1' * 5000}", {"a": "1" * 5000}),
        ("a: !!bool ON", {"a": True}),
        ("a: =", {"a": "="}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 0x1F", {"a": "0x1F"}),
        ("a: '1'", {"a": "1"}),
        ("a: yes", {"a": True}),
        ("a: Off", {"a": False}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: 2026-01-01T12:00:00", {"a": "2026-01-01T12:00:00"}),
        ("1: x", {"1": "x"}),
        ("a: &b {c: 1, d: 2}\ne: {<<: *b, d: 3}", {"a": {"c": 1, "d": 2}, "e": {"c": 1, "d": 3}}),
        ("e: {<<: [{a: 1}, {a: 2, b: 3}]}", {"e": {"a": 1, "b": 3}}),
        ("a: {b: &c {<<: &d {x: 1}, x: 2}, <<: *c}", {"a": {"x": 2, "b": {"x": 2}}}),
        ("a: [1.0e+999, -1.0e+999]", {"a": ["1.0e+999", "-1.0e+999"]}),
        ("", None),
    ],
)
def test_yaml_of_a_fleet_file_is_parsed(text, data):
    assert YamlFile(text, "f").data == data


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a: [1", "f:2:1"),
        ("a: 1\na: 2", "f:2:1"),
        ("a: !!python/object x", "f:1:4"),
        ("a: !mine x", "f:1:4"),
        ("a: !mine {b: 1}", "f:1:4"),
        ("a: !!binary aaaa", "f:1:4"),
        ("? [1]\n: 2", "f:1:3"),
        ("a: &b [*b]", "f:1:4"),
        ("a: {<<: 1}", "f:1:9"),
        ("a: *b", "f:1:4"),
        ("a: 1\n---\nb: 2", "f:2:1"),
        ("a: \x01", "f:1:4"),
        ("é𝄞: 1\r\nbé: \x7f", "f:2:5"),
    ],
)
def test_invalid_yaml_of_a_fleet_file_is_rejected_with_its_line(text, position):
    with pytest.raises(Invalid) as message:
        YamlFile(text, "f")
    assert str(message.value).startswith(f"{position}: ")


@pytest.mark.parametrize("text", ["a: !!bool maybe", "a: !!int x", "a: !!float x"])
def test_value_that_does_not_have_the_type_of_its_yaml_tag_is_rejected(text):
    with pytest.raises(Invalid, match=r"^f: a value does not have the type of its tag$"):
        YamlFile(text, "f")


def test_too_deeply_nested_yaml_is_rejected():
    with pytest.raises(Invalid, match=r"^f: the values are nested too deeply$"):
        YamlFile("[" * 900 + "]" * 900, "f")


def test_yaml_nested_100_deep_is_parsed():
    assert YamlFile("[" * 100 + "]" * 100, "f").data


@pytest.mark.parametrize(
    ("keys", "position"),
    [
        (("a",), "f:1:4"),
        (("b", 1), "f:3:3"),
        (("b", 1, "c"), "f:3:7"),
        (("b", 1, "lacking"), "f:3:3"),
        (("d", "x"), "f:4:13"),
        (("e", "x"), "f:4:13"),
        ((), "f:1:1"),
        (("no", "such"), "f:1:1"),
    ],
)
def test_document_error_names_the_line_of_the_value(keys, position):
    file = YamlFile("a: 1\nb: [1,\n  {c: 2}]\nd: &one {x: 3}\ne: {<<: *one}\n", "f")

    def raise_document_error(_):
        raise DocumentError("wrong", *keys)

    with pytest.raises(Invalid) as message:
        file.read(raise_document_error)
    assert str(message.value).startswith(f"{position}: wrong")


_RANDOM_TEXTS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12
)
_RANDOM_YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | _RANDOM_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_RANDOM_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_RANDOM_TEXTS, _RANDOM_YAML_VALUES, max_size=4))
def test_yaml_of_a_document_is_parsed_back(document):
    assert YamlFile(to_yaml(document), "f").data == (document or {})


def test_yaml_of_a_document_is_parsed_by_pyyaml():
    assert yaml.safe_load(to_yaml({"hosts": [{"host": "cn1", "vcpus": 1}]})) == {
        "hosts": [{"host": "cn1", "vcpus": 1}]
    }


def test_yaml_aliases_for_each_of_many_hosts_are_parsed():
    lines = ["like: &like {a: 1, b: [1, 2, 3]}", "hosts:", *["- *like"] * 10_000]
    assert len(YamlFile("\n".join(lines), "f").data["hosts"]) == 10_000
