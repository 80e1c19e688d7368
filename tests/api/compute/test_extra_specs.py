# SPDX-License-Identifier: Apache-2.0
"""Extra specs of flavors, and their validation from 2.86."""

import pytest

from placement_sched.limits import MAX_EXTRA_SPECS
from tests.api.compute.client import get_error_message


@pytest.fixture
def api_with_one_flavor(flavor_api):
    flavor_api.create_flavor("f")
    return flavor_api


@pytest.fixture
def sqlite_api_with_one_flavor(sqlite_flavor_api):
    sqlite_flavor_api.create_flavor("f")
    return sqlite_flavor_api


def read_extra_specs(flavor_api, **options):
    return flavor_api.request("GET", "/f/os-extra_specs", **options).json["extra_specs"]


@pytest.mark.all_databases
@pytest.mark.parametrize("version", ["2.1", "2.96"])
def test_extra_specs_can_be_set_shown_changed_and_deleted(api_with_one_flavor, version):
    options = {"version": version}
    assert read_extra_specs(api_with_one_flavor, **options) == {}
    assert api_with_one_flavor.add_extra_specs("f", {}).json == {"extra_specs": {}}
    fields = {"hw:cpu_policy": "shared", "acme:x": "1"}
    assert api_with_one_flavor.add_extra_specs("f", fields, **options).json == {
        "extra_specs": fields
    }
    assert api_with_one_flavor.add_extra_specs("f", {"b": "2"}, **options).json == {
        "extra_specs": {"b": "2"}
    }
    assert read_extra_specs(api_with_one_flavor, **options) == {**fields, "b": "2"}
    assert api_with_one_flavor.request("GET", "/f/os-extra_specs/b", **options).json == {"b": "2"}
    assert api_with_one_flavor.request(
        "PUT", "/f/os-extra_specs/b", {"b": "3"}, **options
    ).json == {"b": "3"}
    assert api_with_one_flavor.request(
        "PUT", "/f/os-extra_specs/new", {"new": "4"}, **options
    ).json == {"new": "4"}
    assert api_with_one_flavor.request("DELETE", "/f/os-extra_specs/acme:x", **options).body == b""
    assert read_extra_specs(api_with_one_flavor, **options) == {
        "hw:cpu_policy": "shared",
        "b": "3",
        "new": "4",
    }
    assert api_with_one_flavor.show_flavor("f")["extra_specs"] == read_extra_specs(
        api_with_one_flavor
    )


def test_request_has_at_most_five_hundred_extra_specs(api_with_one_flavor):
    most = {f"k{number}": "v" for number in range(MAX_EXTRA_SPECS)}
    response = api_with_one_flavor.add_extra_specs("f", {**most, "more": "v"}, status=400)
    assert "Failed validating 'maxProperties'" in get_error_message(response)
    api_with_one_flavor.add_extra_specs("f", most)


def test_extra_specs_are_stored_unchanged(api_with_one_flavor):
    fields = {"A": "1", "a": "2", "a b.c-d_e:F": " é\n", "e": "", "k" * 255: "v" * 255}
    api_with_one_flavor.add_extra_specs("f", fields)
    assert read_extra_specs(api_with_one_flavor) == fields


def test_numbers_in_extra_specs_are_stored_as_text(sqlite_api_with_one_flavor):
    for number, text in [(5, "5"), (-1, "-1"), (1.5, "1.5")]:
        assert sqlite_api_with_one_flavor.add_extra_specs("f", {"a": number}).json == {
            "extra_specs": {"a": number}
        }, number
        assert read_extra_specs(sqlite_api_with_one_flavor) == {"a": text}, number


def test_unknown_extra_spec_is_404(api_with_one_flavor):
    api_with_one_flavor.add_extra_specs("f", {"a": "1"})
    for key in ["nope", "A", "a%20"]:
        for method in ("GET", "DELETE"):
            response = api_with_one_flavor.request(method, f"/f/os-extra_specs/{key}", status=404)
            shown = key.replace("%20", " ")
            assert (
                get_error_message(response) == f"Flavor f has no extra specs with key {shown}."
            ), key
        assert read_extra_specs(api_with_one_flavor) == {"a": "1"}, key


def test_malformed_extra_specs_are_400_and_set_nothing(sqlite_api_with_one_flavor):
    for body in [
        {},
        {"x": {}},
        {"extra_specs": None},
        {"extra_specs": {"a": "b"}, "x": 1},
        {"extra_specs": {"a": None}},
        {"extra_specs": {"a": "v" * 256}},
        {"extra_specs": {"a": "x\x00"}},
        {"extra_specs": {"": "b"}},
        {"extra_specs": {"a/b": "b"}},
        {"extra_specs": {"a ": "b"}},
        {"extra_specs": {"k" * 256: "b"}},
        {"extra_specs": {"ok": "b", "a": None}},
    ]:
        sqlite_api_with_one_flavor.request("POST", "/f/os-extra_specs", body, status=400)
        assert read_extra_specs(sqlite_api_with_one_flavor) == {}, body


def test_malformed_change_of_an_extra_spec_is_400(sqlite_api_with_one_flavor):
    response = sqlite_api_with_one_flavor.request(
        "PUT", "/f/os-extra_specs/a", {"b": "1"}, status=400
    )
    assert get_error_message(response) == "Request body and URI mismatch"
    for body in [{}, {"a": "1", "b": "2"}, {"a": None}, {"a": "v" * 256}, {"a/": "1"}]:
        sqlite_api_with_one_flavor.request("PUT", "/f/os-extra_specs/a", body, status=400)
        assert read_extra_specs(sqlite_api_with_one_flavor) == {}, body


def test_values_of_extra_specs_are_validated_from_2_86(sqlite_api_with_one_flavor):
    for key, value, words in (
        ("hw:cpu_policy", "nope", "'nope' is not one of: dedicated, shared, mixed."),
        ("hw:cpu_policy", 5, "'5' is not one of: dedicated, shared, mixed."),
        ("hw:bogus", "1", "extra spec 'hw:bogus' does not appear to be a valid extra spec."),
        ("trait:NO_SUCH", "required", "extra spec 'trait:NO_SUCH' does not appear to be"),
        ("resources1:VCPU", "x", "'x' is not a valid integer value."),
    ):
        before = read_extra_specs(sqlite_api_with_one_flavor)
        path, both = f"/f/os-extra_specs/{key}", {"ok": "1", key: value}
        response = sqlite_api_with_one_flavor.add_extra_specs("f", both, version="2.86", status=400)
        assert get_error_message(response).startswith(f"Validation failed; {words}")
        response = sqlite_api_with_one_flavor.request(
            "PUT", path, {key: value}, version="2.86", status=400
        )
        assert words in get_error_message(response)
        assert read_extra_specs(sqlite_api_with_one_flavor) == before
        sqlite_api_with_one_flavor.request("PUT", path, {key: value}, version="2.85")
        sqlite_api_with_one_flavor.add_extra_specs("f", both, version="2.85")
        assert read_extra_specs(sqlite_api_with_one_flavor)[key] == str(value)
