# SPDX-License-Identifier: Apache-2.0
"""Microversions of the compute API, and its errors in the formats of nova."""

from webtest import TestApp

from tests.support.versions import LATEST, LATEST_HEADERS


def test_microversion_is_returned_in_both_headers(sqlite_app):
    for headers, answered in [
        ({}, "2.1"),
        ({"OpenStack-API-Version": "compute 2.96"}, "2.96"),
        ({"OpenStack-API-Version": "compute latest"}, "2.96"),
        ({"OpenStack-API-Version": f"placement {LATEST}, compute 2.41"}, "2.41"),
        (LATEST_HEADERS, "2.1"),
        ({"X-OpenStack-Nova-API-Version": "2.41"}, "2.41"),
        ({"X-OpenStack-Nova-API-Version": "2.72"}, "2.72"),
        ({"OpenStack-API-Version": "compute 2.79"}, "2.79"),
        ({"X-OpenStack-Nova-API-Version": "latest"}, "2.96"),
        ({"OpenStack-API-Version": "compute 2.30", "X-OpenStack-Nova-API-Version": "2.41"}, "2.30"),
    ]:
        answer = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers)
        assert answer.headers["OpenStack-API-Version"] == f"compute {answered}", headers
        assert answer.headers["X-OpenStack-Nova-API-Version"] == answered, headers
        assert answer.headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version", (
            headers
        )


def test_version_out_of_range_is_406_in_novas_shape(sqlite_app):
    for header, text in [
        ("OpenStack-API-Version", "compute {}"),
        ("X-OpenStack-Nova-API-Version", "{}"),
    ]:
        for version in ("2.97", "2.0", "1.1", "3.0"):
            headers = {header: text.format(version)}
            for path in ("os-aggregates", "os-services", "os-hypervisors", "flavors"):
                answer = sqlite_app.get(f"/compute/v2.1/{path}", headers=headers, status=406)
                fault = answer.json["computeFault"]
                assert fault["code"] == 406, header
                assert f"Version {version} is not supported" in fault["message"], header
                assert "Minimum is 2.1 and maximum is 2.96" in fault["message"], header


def test_malformed_version_is_400(sqlite_app):
    for text in ["abc", "2", "2.x", "2.1.1", "2.01", "02.1", "+2.1", "2.+1", "2.1_0", "2.", "2.00"]:
        headers = {"OpenStack-API-Version": f"compute {text}"}
        answer = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers, status=400)
        assert (
            f"API Version String {text} is of invalid format"
            in answer.json["badRequest"]["message"]
        ), text
        headers = {"X-OpenStack-Nova-API-Version": text}
        answer = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers, status=400)
        assert (
            f"API Version String {text} is of invalid format"
            in answer.json["badRequest"]["message"]
        ), text


def test_no_token_is_401_in_novas_shape(sqlite_app):
    answer = TestApp(sqlite_app.app).get("/compute/v2.1/os-aggregates", status=401)
    assert answer.json["unauthorized"]["code"] == 401


def test_unknown_path_is_404_in_novas_shape(sqlite_app):
    for path in ["/compute/v2.1/os-aggregates/1/nothing", "/compute/v3"]:
        assert sqlite_app.get(path, status=404).json["itemNotFound"]["code"] == 404, path


def test_wrong_method_is_405_with_allowed_methods(sqlite_app):
    answer = sqlite_app.patch_json("/compute/v2.1/os-aggregates", {}, status=405)
    assert answer.json["badMethod"]["code"] == 405
    assert answer.headers["Allow"] == "GET, POST"


def test_wrong_content_type_is_415_in_novas_shape(sqlite_app):
    answer = sqlite_app.post(
        "/compute/v2.1/os-aggregates", "<a/>", content_type="application/xml", status=415
    )
    assert answer.json["badMediaType"]["code"] == 415


def test_body_over_the_configured_size_is_413_in_novas_shape(make_app, sqlite_settings):
    app = make_app(sqlite_settings.with_overrides({"api.max_request_body_size": 2048}))
    body = {"aggregate": {"name": "a" * 4096}}
    answer = app.post_json("/compute/v2.1/os-aggregates", body, status=413)
    assert answer.json["overLimit"]["code"] == 413
    assert app.get("/compute/v2.1/os-aggregates").json == {"aggregates": []}


def test_root_lists_the_major_version_without_a_token(sqlite_app):
    for path in ["/compute", "/compute/"]:
        (version,) = TestApp(sqlite_app.app).get(path).json["versions"]
        assert version["id"] == "v2.1", path
        assert version["links"] == [{"rel": "self", "href": "http://localhost/compute/v2.1/"}], path


def test_version_document_shows_the_microversion_range_without_a_token(sqlite_app):
    for path in ["/compute/v2.1", "/compute/v2.1/"]:
        version = TestApp(sqlite_app.app).get(path).json["version"]
        assert (version["min_version"], version["version"]) == ("2.1", "2.96"), path
        assert version["status"] == "CURRENT", path
