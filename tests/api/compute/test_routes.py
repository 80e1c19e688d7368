# SPDX-License-Identifier: Apache-2.0
"""Version documents of the compute API, and its errors in the formats of nova."""

from webtest import TestApp


def test_request_without_a_token_is_401_with_novas_error_body(sqlite_app):
    response = TestApp(sqlite_app.app).get("/compute/v2.1/os-aggregates", status=401)
    assert response.json["unauthorized"]["code"] == 401


def test_unknown_path_is_404_with_novas_error_body(sqlite_app):
    for path in ["/compute/v2.1/os-aggregates/1/nothing", "/compute/v3"]:
        assert sqlite_app.get(path, status=404).json["itemNotFound"]["code"] == 404, path


def test_wrong_method_is_405_with_allowed_methods(sqlite_app):
    response = sqlite_app.patch_json("/compute/v2.1/os-aggregates", {}, status=405)
    assert response.json["badMethod"]["code"] == 405
    assert response.headers["Allow"] == "GET, POST"


def test_wrong_content_type_is_415_with_novas_error_body(sqlite_app):
    response = sqlite_app.post(
        "/compute/v2.1/os-aggregates", "<a/>", content_type="application/xml", status=415
    )
    assert response.json["badMediaType"]["code"] == 415


def test_body_above_the_configured_size_is_413_with_novas_error_body(make_app, sqlite_settings):
    app = make_app(sqlite_settings.with_overrides({"api.max_request_body_size": 2048}))
    body = {"aggregate": {"name": "a" * 4096}}
    response = app.post_json("/compute/v2.1/os-aggregates", body, status=413)
    assert response.json["overLimit"]["code"] == 413
    assert app.get("/compute/v2.1/os-aggregates").json == {"aggregates": []}


def test_compute_root_lists_the_major_version_without_a_token(sqlite_app):
    for path in ["/compute", "/compute/"]:
        (version,) = TestApp(sqlite_app.app).get(path).json["versions"]
        assert version["id"] == "v2.1", path
        assert version["links"] == [{"rel": "self", "href": "http://localhost/compute/v2.1/"}], path


def test_compute_version_document_shows_the_microversion_range_without_a_token(sqlite_app):
    for path in ["/compute/v2.1", "/compute/v2.1/"]:
        version = TestApp(sqlite_app.app).get(path).json["version"]
        assert (version["min_version"], version["version"]) == ("2.1", "2.100"), path
        assert version["status"] == "CURRENT", path
