# SPDX-License-Identifier: Apache-2.0
"""Version documents of the image API, and errors in glance's formats."""

from webtest import TestApp


def test_image_versions_are_shown_without_a_token(sqlite_app):
    for path, status in [
        ("/image", 300),
        ("/image/", 300),
        ("/image/versions", 200),
        ("/image/versions/", 200),
        ("/image/v2", 200),
        ("/image/v2/", 200),
    ]:
        versions = TestApp(sqlite_app.app).get(path, status=status).json["versions"]
        assert [version["status"] for version in versions[:2]] == ["CURRENT", "SUPPORTED"], path
        assert versions[-1]["id"] == "v2.0", path
        assert versions[0]["links"] == [{"rel": "self", "href": "http://localhost/image/v2/"}], path


def test_image_paths_other_than_versions_require_a_token(sqlite_app):
    response = TestApp(sqlite_app.app).get("/image/v2/nothing", status=401)
    assert response.json["code"] == "401 Unauthorized"


ESCAPED_NOT_FOUND_MESSAGE = "No image found with ID a&lt;b&gt;'c"


def test_image_errors_are_json_if_the_client_accepts_it(sqlite_app):
    for accept in ["application/json", "application/json, */*", "application/*", "image/png", None]:
        headers = {} if accept is None else {"Accept": accept}
        response = sqlite_app.get("/image/v2/images/a<b>'c", headers=headers, status=404)
        assert response.content_type == "application/json", accept
        assert response.json == {
            "message": "No image found with ID a<b>'c",
            "code": "404 Not Found",
            "title": "Not Found",
        }, accept


def test_image_errors_are_html_if_the_client_accepts_anything(sqlite_app):
    for accept in ["*/*", "text/html", "text/html,application/xml;q=0.9,*/*;q=0.8"]:
        headers = {"Accept": accept}
        response = sqlite_app.get("/image/v2/images/a<b>'c", headers=headers, status=404)
        assert response.content_type == "text/html", accept
        assert "<title>404 Not Found</title>" in response.text, accept
        assert ESCAPED_NOT_FOUND_MESSAGE in response.text, accept


def test_image_errors_are_plain_text_if_neither_html_nor_json_is_accepted(sqlite_app):
    response = sqlite_app.get("/image/v2/images/x", headers={"Accept": "text/plain"}, status=404)
    assert response.content_type == "text/plain"
    assert response.text == "404 Not Found\n\nNo image found with ID x\n"


def test_successful_image_responses_are_always_json(sqlite_app):
    for accept in ("text/html", "image/png", "*/*"):
        response = sqlite_app.get("/image/v2/images", headers={"Accept": accept})
        assert response.content_type == "application/json"


def test_unsupported_methods_of_image_paths_are_405(sqlite_app):
    response = sqlite_app.post_json("/image/v2/images/x", {}, status=405)
    assert response.json["code"] == "405 Method Not Allowed"
    assert response.headers["Allow"] == "DELETE, GET, PATCH"
