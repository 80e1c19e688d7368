# SPDX-License-Identifier: Apache-2.0
"""Image data and members are not stored, and an empty upload makes an image active."""

from io import BytesIO

from tests.api.image.conftest import BANK, SHOP

BYTES = "application/octet-stream"
FORMATS = {"disk_format": "raw", "container_format": "bare"}


def upload(api, uuid, data, status, kind=BYTES, **headers):
    path = f"/image/v2/images/{uuid}/file"
    return api.app.put(path, data, content_type=kind, headers=headers, status=status)


def test_empty_upload_activates_the_image(api):
    uuid = api.make("empty", FORMATS)
    before = api.show(uuid).json
    assert (before["status"], before["size"]) == ("queued", None)
    assert api.app.get(f"/image/v2/images/{uuid}/file", status=204).body == b""
    assert upload(api, uuid, b"", 204).body == b""
    after = api.show(uuid).json
    assert (after["status"], after["size"]) == ("active", 0)
    assert api.names("status=active") == ["empty"]
    assert api.call("GET", f"{uuid}/file", status=204).body == b""
    upload(api, "nothing", b"", 404)
    api.call("GET", f"{uuid}x/file", status=404)


def test_image_is_uploaded_once_and_keeps_its_formats(api):
    uuid = api.make("once", FORMATS)
    upload(api, uuid, b"", 204)
    answer = upload(api, uuid, b"", 409).json
    assert answer["message"] == (
        f"Image {uuid} is active: data can be uploaded only to a queued image."
    )
    change = {"op": "replace", "path": "/disk_format", "value": "qcow2"}
    assert "queued image" in api.patch(uuid, change, status=403).json["message"]


def test_image_without_formats_stays_queued(sqlite_api):
    for names in [(), ("disk_format",), ("container_format",)]:
        uuid = sqlite_api.make("vague", {name: FORMATS[name] for name in names})
        missing = " and ".join(sorted(FORMATS.keys() - set(names)))
        answer = upload(sqlite_api, uuid, b"", 400).json
        assert answer["message"] == f"Set {missing} of image {uuid} before uploading its data.", (
            names
        )
        assert sqlite_api.show(uuid).json["status"] == "queued", names


def test_data_upload_is_rejected_with_a_message(api):
    for size in [1, 100_000]:
        uuid = api.make("full")
        answer = upload(api, uuid, b"\0" * size, 413).json
        assert answer["code"] == "413 Request Entity Too Large", size
        assert "No image data is stored here" in answer["message"], size
        assert api.show(uuid).json["status"] == "queued", size


def test_chunked_data_upload_is_rejected(sqlite_api):
    uuid = sqlite_api.make("chunked", FORMATS)
    environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    for data, status in ((b"x" * 70_000, 413), (b"", 204)):
        request = sqlite_api.app.RequestClass.blank(
            f"/image/v2/images/{uuid}/file", method="PUT", environ=environ
        )
        request.body_file = BytesIO(data)
        request.headers["Content-Type"] = BYTES
        request.headers["X-Auth-Token"] = "admin"
        request.environ.pop("CONTENT_LENGTH", None)
        sqlite_api.app.do_request(request, status=status)


def test_too_large_data_upload_is_rejected_with_the_same_message(make_app, sqlite_settings):
    settings = sqlite_settings.with_overrides({"api.max_request_body_size": 1024})
    app = make_app(settings)
    uuid = app.post_json("/image/v2/images", {}).json["id"]
    path = f"/image/v2/images/{uuid}/file"
    answer = app.put(path, b"x" * 5000, content_type=BYTES, status=413).json
    assert "No image data is stored here" in answer["message"]


def test_other_content_types_are_415(sqlite_api):
    for kind in ["application/json", "text/plain"]:
        upload(sqlite_api, sqlite_api.make(), b"x", 415, kind)


def test_owner_uploads_and_viewer_downloads(api):
    public = api.make("public", {"visibility": "public", "owner": "shop", **FORMATS})
    private = api.make("private", {"visibility": "private", "owner": "shop"})
    upload(api, public, b"", 204, **SHOP)
    upload(api, public, b"", 403, **BANK)
    upload(api, private, b"", 404, **BANK)
    api.call("GET", f"{public}/file", status=204, **BANK)
    api.call("GET", f"{private}/file", status=404, **BANK)


def test_import_is_not_served(sqlite_app):
    assert sqlite_app.get("/image/v2/info/import").json["import-methods"]["value"] == []
    sqlite_app.get("/image/v2/info/stores", status=404)


def test_members_are_rejected_with_the_alternatives(sqlite_api):
    uuid, app = sqlite_api.make("shared"), sqlite_api.app
    for answer in (
        app.get(f"/image/v2/images/{uuid}/members", status=404),
        app.post(f"/image/v2/images/{uuid}/members", status=404),
        app.get(f"/image/v2/images/{uuid}/members/bank", status=404),
        app.put(f"/image/v2/images/{uuid}/members/bank", status=404),
        app.delete(f"/image/v2/images/{uuid}/members/bank", status=404),
    ):
        assert "visibility of the image to community or public" in answer.text
