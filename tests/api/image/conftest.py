# SPDX-License-Identifier: Apache-2.0
"""A client of the image API for its tests."""

import pytest

IMAGES_URL = "/image/v2/images"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
#: Two projects that are not administrators.
SHOP_MEMBER = {"X-Auth-Token": "bob:shop", "X-Roles": "member,reader"}
BANK_MEMBER = {"X-Auth-Token": "eve:bank", "X-Roles": "member,reader"}


class ImageApi:
    """Short calls of the image API that return the response."""

    def __init__(self, app):
        self.app = app

    def create_image(self, attributes=None, status=201, **headers):
        return self.app.post_json(IMAGES_URL, attributes or {}, headers=headers, status=status)

    def create_and_get_uuid(self, name=None, attributes=None, **headers):
        """Create an image and return its uuid."""
        fields = {} if name is None else {"name": name}
        return self.create_image({**fields, **(attributes or {})}, **headers).json["id"]

    def show_image(self, uuid, status=200, **headers):
        return self.app.get(f"{IMAGES_URL}/{uuid}", headers=headers, status=status)

    def list_image_names(self, query="", **headers):
        """Return the names of the listed images, in order."""
        response = self.list_images(query, **headers)
        return [image["name"] for image in response.json["images"]]

    def list_images(self, query="", status=200, **headers):
        return self.app.get(f"{IMAGES_URL}?{query}", headers=headers, status=status)

    def patch_image(self, uuid, *operations, status=200, media_type=PATCH_TYPE, **headers):
        return self.app.patch_json(
            f"{IMAGES_URL}/{uuid}",
            list(operations),
            headers=headers,
            content_type=media_type,
            status=status,
        )

    def delete_image(self, uuid, status=204, **headers):
        return self.app.delete(f"{IMAGES_URL}/{uuid}", headers=headers, status=status)

    def send_request(self, method, path, body=None, status=200, **headers):
        """Send a request for a path below the images."""
        if body is None:
            return self.app.request(
                f"{IMAGES_URL}/{path}", method=method, headers=headers, status=status
            )
        ask = getattr(self.app, f"{method.lower()}_json")
        return ask(f"{IMAGES_URL}/{path}", body, headers=headers, status=status)


@pytest.fixture
def image_api(app):
    return ImageApi(app)


@pytest.fixture
def sqlite_image_api(sqlite_app):
    return ImageApi(sqlite_app)
