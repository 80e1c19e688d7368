# SPDX-License-Identifier: Apache-2.0
"""Extra specs of flavors: set, shown, deleted, and from 2.86 looked at."""

import pytest

from placement_sched.limits import MAX_EXTRA_SPECS
from tests.api.compute.flavors import message


@pytest.fixture
def one(flavors):
    flavors.create("f")
    return flavors


@pytest.fixture
def sqlite_one(sqlite_flavors):
    sqlite_flavors.create("f")
    return sqlite_flavors


def specs(flavors, **options):
    return flavors.ask("GET", "/f/os-extra_specs", **options).json["extra_specs"]


@pytest.mark.parametrize("version", ["2.1", "2.96"])
def test_extra_specs_are_set_shown_changed_and_deleted(one, version):
    options = {"version": version}
    assert specs(one, **options) == {}
    given = {"hw:cpu_policy": "shared", "acme:x": "1"}
    assert one.tag("f", given, **options).json == {"extra_specs": given}
    assert one.tag("f", {"b": "2"}, **options).json == {"extra_specs": {"b": "2"}}
    assert specs(one, **options) == {**given, "b": "2"}
    assert one.ask("GET", "/f/os-extra_specs/b", **options).json == {"b": "2"}
    assert one.ask("PUT", "/f/os-extra_specs/b", {"b": "3"}, **options).json == {"b": "3"}
    assert one.ask("PUT", "/f/os-extra_specs/new", {"new": "4"}, **options).json == {"new": "4"}
    assert one.ask("DELETE", "/f/os-extra_specs/acme:x", **options).body == b""
    assert specs(one, **options) == {"hw:cpu_policy": "shared", "b": "3", "new": "4"}
    assert one.show("f")["extra_specs"] == specs(one)


def test_setting_none_changes_nothing(sqlite_one):
    assert sqlite_one.tag("f", {}).json == {"extra_specs": {}}


def test_a_flavor_has_five_hundred_extra_specs_at_most(one):
    most = {f"k{number}": "v" for number in range(MAX_EXTRA_SPECS)}
    refused = one.tag("f", {**most, "more": "v"}, status=400)
    assert "Failed validating 'maxProperties'" in message(refused)
    one.tag("f", most)
    words = "Flavor f would have 501 extra specs, at most 500 allowed."
    assert message(one.tag("f", {"more": "v"}, status=400)) == words
    refused = one.ask("PUT", "/f/os-extra_specs/more", {"more": "v"}, status=400)
    assert message(refused) == words
    one.tag("f", {"k0": "w"})
    assert specs(one) == {**most, "k0": "w"}


def test_keys_and_values_are_kept_exactly(one):
    given = {"A": "1", "a": "2", "a b.c-d_e:F": " é\n", "e": "", "k" * 255: "v" * 255}
    one.tag("f", given)
    assert specs(one) == given


@pytest.mark.parametrize(("number", "text"), [(5, "5"), (-1, "-1"), (1.5, "1.5")])
def test_numbers_are_kept_as_text(sqlite_one, number, text):
    assert sqlite_one.tag("f", {"a": number}).json == {"extra_specs": {"a": number}}
    assert specs(sqlite_one) == {"a": text}


@pytest.mark.parametrize("key", ["nope", "A", "a%20"])
def test_extra_spec_that_is_not_there_is_404(one, key):
    one.tag("f", {"a": "1"})
    for method in ("GET", "DELETE"):
        answer = one.ask(method, f"/f/os-extra_specs/{key}", status=404)
        shown = key.replace("%20", " ")
        assert message(answer) == f"Flavor f has no extra specs with key {shown}."
    assert specs(one) == {"a": "1"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"x": {}},
        {"extra_specs": None},
        {"extra_specs": []},
        {"extra_specs": {"a": "b"}, "x": 1},
        {"extra_specs": {"a": True}},
        {"extra_specs": {"a": None}},
        {"extra_specs": {"a": {}}},
        {"extra_specs": {"a": "v" * 256}},
        {"extra_specs": {"a": "x\x00"}},
        {"extra_specs": {"": "b"}},
        {"extra_specs": {"a/b": "b"}},
        {"extra_specs": {"é": "b"}},
        {"extra_specs": {"a\n": "b"}},
        {"extra_specs": {"a ": "b"}},
        {"extra_specs": {" a": "b"}},
        {"extra_specs": {"k" * 256: "b"}},
        {"extra_specs": {"ok": "b", "a": None}},
    ],
)
def test_malformed_extra_specs_are_400_and_none_is_set(sqlite_one, body):
    sqlite_one.ask("POST", "/f/os-extra_specs", body, status=400)
    assert specs(sqlite_one) == {}


@pytest.mark.parametrize(
    "body", [{}, {"b": "1"}, {"a": "1", "b": "2"}, {"a": None}, {"a": "v" * 256}, {"a/": "1"}]
)
def test_malformed_change_is_400(sqlite_one, body):
    sqlite_one.ask("PUT", "/f/os-extra_specs/a", body, status=400)
    assert specs(sqlite_one) == {}


def test_change_of_another_key_than_addressed_is_400(sqlite_one):
    answer = sqlite_one.ask("PUT", "/f/os-extra_specs/a", {"b": "1"}, status=400)
    assert message(answer) == "Request body and URI mismatch"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hw:cpu_policy", "nope", "'nope' is not one of: dedicated, shared, mixed."),
        ("hw:cpu_policy", 5, "'5' is not one of: dedicated, shared, mixed."),
        ("hw:bogus", "1", "extra spec 'hw:bogus' does not appear to be a valid extra spec."),
        ("trait:NO_SUCH", "required", "extra spec 'trait:NO_SUCH' does not appear to be"),
        ("resources1:VCPU", "x", "'x' is not a valid integer value."),
    ],
)
def test_values_are_looked_at_from_2_86(sqlite_one, key, value, words):
    before = sqlite_one.tag("f", {"ok": "1", key: value}, version="2.86", status=400)
    assert message(before).startswith(f"Validation failed; {words}")
    path = f"/f/os-extra_specs/{key}"
    refused = sqlite_one.ask("PUT", path, {key: value}, version="2.86", status=400)
    assert words in message(refused)
    assert specs(sqlite_one) == {}
    sqlite_one.ask("PUT", path, {key: value}, version="2.85")
    sqlite_one.tag("f", {"ok": "1", key: value}, version="2.85")
    assert specs(sqlite_one) == {"ok": "1", key: str(value)}
