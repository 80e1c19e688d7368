# SPDX-License-Identifier: Apache-2.0
"""Image data and members are not stored, and an empty upload makes an image active."""

from io import BytesIO

from tests.api.image.conftest import BANK_MEMBER, SHOP_MEMBER

OCTET_STREAM_TYPE = "application/octet-stream"
RAW_IMAGE_FORMATS = {"disk_format": "raw", "container_format": "bare"}


def upload_image_data(image_api, uuid, data, status, kind=OCTET_STREAM_TYPE, **headers):
    path = f"/image/v2/images/{uuid}/file"
    return image_api.app.put(path, data, content_type=kind, headers=headers, status=status)


def test_upload_of_empty_data_activates_the_image(image_api):
    uuid = image_api.create_and_get_uuid("empty", RAW_IMAGE_FORMATS)
    before = image_api.show_image(uuid).json
    assert (before["status"], before["size"]) == ("queued", None)
    assert image_api.app.get(f"/image/v2/images/{uuid}/file", status=204).body == b""
    assert upload_image_data(image_api, uuid, b"", 204).body == b""
    after = image_api.show_image(uuid).json
    assert (after["status"], after["size"]) == ("active", 0)
    assert image_api.list_image_names("status=active") == ["empty"]
    assert image_api.send_request("GET", f"{uuid}/file", status=204).body == b""
    upload_image_data(image_api, "nothing", b"", 404)
    image_api.send_request("GET", f"{uuid}x/file", status=404)


def test_image_accepts_only_one_upload_and_then_no_change_of_its_formats(image_api):
    uuid = image_api.create_and_get_uuid("once", RAW_IMAGE_FORMATS)
    upload_image_data(image_api, uuid, b"", 204)
    response = upload_image_data(image_api, uuid, b"", 409).json
    assert response["message"] == (
        f"Image {uuid} is active: data can be uploaded only to a queued image."
    )
    change = {"op": "replace", "path": "/disk_format", "value": "qcow2"}
    assert "queued image" in image_api.patch_image(uuid, change, status=403).json["message"]


def test_upload_for_an_image_without_formats_is_400_and_it_stays_queued(sqlite_image_api):
    for names in [(), ("disk_format",), ("container_format",)]:
        uuid = sqlite_image_api.create_and_get_uuid(
            "vague", {name: RAW_IMAGE_FORMATS[name] for name in names}
        )
        missing = " and ".join(sorted(RAW_IMAGE_FORMATS.keys() - set(names)))
        response = upload_image_data(sqlite_image_api, uuid, b"", 400).json
        assert response["message"] == f"Set {missing} of image {uuid} before uploading its data.", (
            names
        )
        assert sqlite_image_api.show_image(uuid).json["status"] == "queued", names


def test_upload_of_image_data_is_rejected_with_a_message(image_api):
    for size in [1, 100_000]:
        uuid = image_api.create_and_get_uuid("full")
        response = upload_image_data(image_api, uuid, b"\0" * size, 413).json
        assert response["code"] == "413 Request Entity Too Large", size
        assert "No image data is stored here" in response["message"], size
        assert image_api.show_image(uuid).json["status"] == "queued", size


def test_chunked_upload_of_image_data_is_rejected(sqlite_image_api):
    uuid = sqlite_image_api.create_and_get_uuid("chunked", RAW_IMAGE_FORMATS)
    environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    for data, status in ((b"x" * 70_000, 413), (b"", 204)):
        request = sqlite_image_api.app.RequestClass.blank(
            f"/image/v2/images/{uuid}/file", method="PUT", environ=environ
        )
        request.body_file = BytesIO(data)
        request.headers["Content-Type"] = OCTET_STREAM_TYPE
        request.headers["X-Auth-Token"] = "admin"
        request.environ.pop("CONTENT_LENGTH", None)
        sqlite_image_api.app.do_request(request, status=status)


def test_too_large_image_upload_is_rejected_because_no_data_is_stored(make_app, sqlite_settings):
    settings = sqlite_settings.with_overrides({"api.max_request_body_size": 1024})
    app = make_app(settings)
    uuid = app.post_json("/image/v2/images", {}).json["id"]
    path = f"/image/v2/images/{uuid}/file"
    response = app.put(path, b"x" * 5000, content_type=OCTET_STREAM_TYPE, status=413).json
    assert "No image data is stored here" in response["message"]


def test_image_upload_with_another_content_type_is_415(sqlite_image_api):
    for kind in ["application/json", "text/plain"]:
        upload_image_data(sqlite_image_api, sqlite_image_api.create_and_get_uuid(), b"x", 415, kind)


def test_only_the_owner_may_upload_and_any_viewer_may_download_image_data(image_api):
    public = image_api.create_and_get_uuid(
        "public", {"visibility": "public", "owner": "shop", **RAW_IMAGE_FORMATS}
    )
    private = image_api.create_and_get_uuid("private", {"visibility": "private", "owner": "shop"})
    upload_image_data(image_api, public, b"", 204, **SHOP_MEMBER)
    upload_image_data(image_api, public, b"", 403, **BANK_MEMBER)
    upload_image_data(image_api, private, b"", 404, **BANK_MEMBER)
    image_api.send_request("GET", f"{public}/file", status=204, **BANK_MEMBER)
    image_api.send_request("GET", f"{private}/file", status=404, **BANK_MEMBER)


def test_image_import_and_stores_are_404(sqlite_app):
    rejection = sqlite_app.get("/image/v2/info/import", status=404)
    assert "no image data is stored" in rejection.json["message"]
    sqlite_app.get("/image/v2/info/stores", status=404)


def test_image_members_are_rejected_with_a_hint_at_community_visibility(sqlite_image_api):
    uuid, app = sqlite_image_api.create_and_get_uuid("shared"), sqlite_image_api.app
    for response in (
        app.get(f"/image/v2/images/{uuid}/members", status=404),
        app.post(f"/image/v2/images/{uuid}/members", status=404),
        app.get(f"/image/v2/images/{uuid}/members/bank", status=404),
        app.put(f"/image/v2/images/{uuid}/members/bank", status=404),
        app.delete(f"/image/v2/images/{uuid}/members/bank", status=404),
        app.get("/image/v2/schemas/member", status=404),
        app.get("/image/v2/schemas/members", status=404),
    ):
        assert "visibility of the image to community or public" in response.text
