# SPDX-License-Identifier: Apache-2.0
"""Flavors: creation, fields, descriptions, deletion and microversions."""

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.flavors import FLAVORS_URL, FlavorApi

FLAVOR_FIELDS = {
    *("id", "name", "ram", "vcpus", "disk", "swap", "links", "rxtx_factor"),
    *("OS-FLV-DISABLED:disabled", "OS-FLV-EXT-DATA:ephemeral", "os-flavor-access:is_public"),
}


@pytest.mark.slow
@pytest.mark.all_databases
def test_flavor_is_shown_as_created(flavor_api):
    sizes = {"ram": 2048, "vcpus": 2, "disk": 20, "swap": 512, "rxtx_factor": 1.5}
    shown = flavor_api.create_flavor("f1", name="m1.x", **sizes, ephemeral=7, description="For é")
    assert sizes.items() <= shown.items()
    assert (shown["id"], shown["name"], shown["description"]) == ("f1", "m1.x", "For é")
    assert (shown["OS-FLV-EXT-DATA:ephemeral"], shown["extra_specs"]) == (7, {})
    assert (shown["os-flavor-access:is_public"], shown["OS-FLV-DISABLED:disabled"]) == (True, False)
    assert flavor_api.show_flavor("f1") == shown


def test_omitted_flavor_fields_have_novas_defaults(sqlite_flavor_api):
    shown = sqlite_flavor_api.create_flavor("f", name="f")
    assert (shown["swap"], shown["OS-FLV-EXT-DATA:ephemeral"], shown["rxtx_factor"]) == (0, 0, 1.0)
    assert (shown["description"], shown["os-flavor-access:is_public"]) == (None, True)


def test_flavor_fields_depend_on_the_version(sqlite_flavor_api):
    specs = {"description", "extra_specs"}
    for version, more, no_swap in (
        *(("2.1", set(), ""), ("2.55", {"description"}, ""), ("2.61", specs, "")),
        *(("2.74", specs, ""), ("2.75", specs, 0), ("2.96", specs, 0)),
    ):
        flavor = sqlite_flavor_api.create_flavor("f", version=version)
        sqlite_flavor_api.create_flavor("swapping", version=version, swap=5)
        shown = sqlite_flavor_api.show_flavor("f", version=version)
        listed = sqlite_flavor_api.request("GET", "/detail", version=version).json["flavors"]
        for each in (flavor, shown, listed[0]):
            assert set(each) == FLAVOR_FIELDS | more, version
            assert each["swap"] == no_swap, version
            assert type(each["swap"]) is type(no_swap), version
        assert listed[1]["swap"] == 5, version
        brief, _ = sqlite_flavor_api.request("GET", version=version).json["flavors"]
        assert set(brief) == {"id", "name", "links"} | (more & {"description"}), version
        for flavorid in ("f", "swapping"):
            sqlite_flavor_api.request("DELETE", f"/{flavorid}", status=202)


def test_links_of_a_flavor_contain_its_escaped_id(sqlite_flavor_api):
    flavor = sqlite_flavor_api.create_flavor("a b")
    assert flavor["links"] == [
        {"rel": "self", "href": "http://localhost/compute/v2.1/flavors/a%20b"},
        {"rel": "bookmark", "href": "http://localhost/compute/flavors/a%20b"},
    ]
    assert sqlite_flavor_api.show_flavor("a%20b")["id"] == "a b"


def test_valid_flavor_ids_are_accepted(sqlite_flavor_api):
    for flavorid, kept in (
        *(("A.b-c_d", "A.b-c_d"), (5, "5"), (6.0, "6"), ("auto", "auto"), ("x" * 255, "x" * 255)),
    ):
        assert sqlite_flavor_api.create_flavor(flavorid, name=f"n{kept}"[:9])["id"] == kept


def test_flavor_without_an_id_gets_a_uuid(sqlite_app):
    for number, fields in enumerate(({}, {"id": None})):
        flavor = {"name": f"n{number}", "ram": 1, "vcpus": 1, "disk": 0, **fields}
        assert len(sqlite_app.post_json(FLAVORS_URL, {"flavor": flavor}).json["flavor"]["id"]) == 36


def test_valid_flavor_values_are_accepted(flavor_api):
    for fields, key, kept in [
        ({"ram": "512"}, "ram", 512),
        ({"ram": "007"}, "ram", 7),
        ({"ram": 2**31 - 1}, "ram", 2**31 - 1),
        ({"disk": "0"}, "disk", 0),
        ({"rxtx_factor": "2.5"}, "rxtx_factor", 2.5),
        ({"rxtx_factor": 3.40282e38}, "rxtx_factor", 3.40282e38),
        ({"is_public": "No"}, "os-flavor-access:is_public", False),
        ({"is_public": "1"}, "os-flavor-access:is_public", True),
        ({"name": "m 1 é"}, "name", "m 1 é"),
        ({"description": ""}, "description", ""),
        ({"description": "x" * 65535}, "description", "x" * 65535),
    ]:
        flavor_api.create_flavor("f", **fields)
        assert flavor_api.show_flavor("f")[key] == kept, fields
        flavor_api.request("DELETE", "/f", status=202)


def test_malformed_flavor_is_400_with_the_path_of_the_error(sqlite_flavor_api):
    for fields, place in [
        ({"id": ""}, ".id"),
        ({"id": "a/b"}, ".id"),
        ({"id": "x" * 256}, ".id"),
        ({"id": True}, ".id"),
        ({"name": ""}, ".name"),
        ({"name": None}, ".name"),
        ({"ram": 0}, ".ram"),
        ({"ram": "0"}, ".ram"),
        ({"ram": 1.5}, ".ram"),
        ({"ram": "+5"}, ".ram"),
        ({"ram": 2**31}, ".ram"),
        ({"ram": "9" * 5000}, ".ram"),
        ({"vcpus": 0}, ".vcpus"),
        ({"disk": -1}, ".disk"),
        ({"swap": ""}, ".swap"),
        ({"swap": -1}, ".swap"),
        ({"ephemeral": -1}, "['OS-FLV-EXT-DATA:ephemeral']"),
        ({"rxtx_factor": "0"}, ".rxtx_factor"),
        ({"rxtx_factor": "x"}, ".rxtx_factor"),
        ({"rxtx_factor": 1e39}, ".rxtx_factor"),
        ({"rxtx_factor": "9" * 255}, ".rxtx_factor"),
        ({"is_public": 1}, "['os-flavor-access:is_public']"),
        ({"is_public": "x"}, "['os-flavor-access:is_public']"),
        ({"description": "a\nb"}, ".description"),
        ({"description": "x" * 65536}, ".description"),
        ({"extra_specs": {}}, ""),
        ({"OS-FLV-DISABLED:disabled": True}, ""),
    ]:
        fault = sqlite_flavor_api.create_flavor("f", status=400, **fields)["badRequest"]
        assert f"(at $.flavor{place})" in fault["message"], fields
        assert sqlite_flavor_api.list_flavor_ids() == [], fields


def test_missing_required_flavor_field_is_400_with_its_name(sqlite_app):
    for key in ["name", "ram", "vcpus", "disk"]:
        flavor = {"name": "n", "ram": 1, "vcpus": 1, "disk": 0}
        del flavor[key]
        response = sqlite_app.post_json(FLAVORS_URL, {"flavor": flavor}, status=400)
        assert f"'{key}' is a required property (at $.flavor)" in get_error_message(response), key


def test_body_without_flavor_is_400(sqlite_app):
    for body in [b"", b"{", b"[]", b"null", b'{"flavor": null}', b'{"x": 1}']:
        sqlite_app.post(FLAVORS_URL, body, content_type="application/json", status=400)


def test_duplicate_flavor_id_or_name_is_409(flavor_api):
    flavor_api.create_flavor("a")
    taken = flavor_api.create_flavor("a", name="other", status=409)["conflictingRequest"]
    assert taken["message"] == "Flavor with ID a already exists."
    taken = flavor_api.create_flavor("b", name="a", status=409)["conflictingRequest"]
    assert taken["message"] == "Flavor with name a already exists."
    flavor_api.create_flavor("A")
    assert flavor_api.list_flavor_ids() == ["A", "a"]


@pytest.mark.all_databases
def test_only_the_description_of_a_flavor_can_be_changed(flavor_api):
    flavor = flavor_api.create_flavor("f", description="old")
    for text in ("new", "", None):
        response = flavor_api.request("PUT", "/f", {"flavor": {"description": text}})
        assert response.json["flavor"] == {**flavor, "description": text}
        assert flavor_api.show_flavor("f") == {**flavor, "description": text}


def test_malformed_change_of_a_flavor_is_400(sqlite_flavor_api):
    flavor = sqlite_flavor_api.create_flavor("f")
    for fields in ({}, {"name": "x"}, {"description": "d", "ram": 1}, {"description": "x" * 65536}):
        sqlite_flavor_api.request("PUT", "/f", {"flavor": fields}, status=400)
    assert sqlite_flavor_api.show_flavor("f") == flavor


def test_flavor_description_is_accepted_from_2_55(sqlite_flavor_api):
    sqlite_flavor_api.create_flavor("g", version="2.54", description="d", status=400)
    sqlite_flavor_api.create_flavor("f", version="2.55", description="d")
    body = {"flavor": {"description": "e"}}
    sqlite_flavor_api.request("PUT", "/f", body, version="2.54", status=404)
    sqlite_flavor_api.request("PUT", "/f", body, version="2.55")


def test_id_and_name_of_a_deleted_flavor_can_be_reused(flavor_api):
    flavor_api.create_flavor("f")
    flavor_api.add_extra_specs("f", {"a": "1"})
    assert flavor_api.request("DELETE", "/f", status=202).body == b""
    flavor_api.show_flavor("f", status=404)
    assert flavor_api.create_flavor("f")["extra_specs"] == {}


def test_unknown_flavor_is_404(flavor_api):
    flavor_api.create_flavor("f")
    for flavorid in ("nope", "F", "f%20", "x" * 300, "%C3%A9", "f%00"):
        for method, path, body in (
            ("GET", "", None),
            ("PUT", "", {"flavor": {"description": "d"}}),
            ("DELETE", "", None),
            ("GET", "/os-flavor-access", None),
            ("POST", "/action", {"addTenantAccess": {"tenant": "p"}}),
            ("POST", "/action", {"removeTenantAccess": {"tenant": "p"}}),
            ("GET", "/os-extra_specs", None),
            ("POST", "/os-extra_specs", {"extra_specs": {"a": "1"}}),
            ("GET", "/os-extra_specs/a", None),
            ("PUT", "/os-extra_specs/a", {"a": "1"}),
            ("DELETE", "/os-extra_specs/a", None),
        ):
            flavor_api.request(method, f"/{flavorid}{path}", body, status=404)
    response = flavor_api.request("GET", "/nope", status=404)
    assert response.json == {
        "itemNotFound": {"code": 404, "message": "Flavor nope could not be found."}
    }


def test_flavor_omits_extra_specs_if_the_policy_denies_reading_them(make_app_with_policy_rules):
    rules = {"os_compute_api:os-flavor-extra-specs:index": "role:operator"}
    api = FlavorApi(make_app_with_policy_rules(rules))
    assert "extra_specs" not in api.create_flavor("f")
    assert "extra_specs" not in api.show_flavor("f")
    assert api.show_flavor("f", token="bob", roles="operator,reader")["extra_specs"] == {}


def test_role_in_rule_context_is_admin_creates_and_sees_private_flavors(make_app_with_policy_rules):
    api = FlavorApi(make_app_with_policy_rules({"context_is_admin": "role:operator"}))
    operator = {"token": "olga:ops", "roles": "operator"}
    flavor = {"name": "x", "ram": 1, "vcpus": 1, "disk": 0, "id": "p"}
    body = {"flavor": {**flavor, "os-flavor-access:is_public": False}}
    api.request("POST", "", body, status=403)
    api.request("POST", "", body, **operator)
    assert api.list_flavor_ids("?is_public=none", **operator) == ["p"]
    api.request("GET", "/p", token="bob:shop", roles="reader,admin", status=404)
