# SPDX-License-Identifier: Apache-2.0
"""Documents of images, and operations on images for the caller.

Links are glance's, without the prefix of the API, since clients prepend the endpoint.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.model.document import Json
from placement_sched.model.image import COMMUNITY, PUBLIC, StoredImage, Viewer
from placement_sched.schemas.fields import IMAGE
from placement_sched.schemas.formats import in_seconds

T = TypeVar("T")

#: Attributes of image data, which is not stored here.
_OF_DATA = ("checksum", "os_hash_algo", "os_hash_value")
#: Attributes that are copied from the stored image.
_STORED = (*IMAGE, "size", "virtual_size")


def image_document(image: StoredImage) -> Json:
    """Return the document of an image, with its properties on the level of its attributes."""
    path = f"/v2/images/{image.uuid}"
    return {
        **image.properties,
        "id": image.uuid,
        **{name: getattr(image, name) for name in _STORED},
        **dict.fromkeys(_OF_DATA),
        "tags": sorted(image.tags),
        "created_at": in_seconds(image.created_at),
        "updated_at": in_seconds(image.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


#: The policy rules for setting a visibility.
_VISIBILITY_RULES = {PUBLIC: "publicize_image", COMMUNITY: "communitize_image"}


def viewer_of(call: ApiCall) -> Viewer:
    """Return the caller's project and rights."""
    return Viewer(
        project_id=call.identity.project_id,
        is_admin=call.may("context_is_admin"),
        may_give=frozenset(
            visibility for visibility, rule in _VISIBILITY_RULES.items() if call.may(rule)
        ),
    )


def change(call: ApiCall, operation: Callable[..., T], image_id: str, *arguments: Any) -> T:
    """Run an operation of :mod:`placement_sched.operations.images` for the caller."""
    return call.write(operation, image_id.lower(), viewer_of(call), *arguments)


def apply_change(
    call: ApiCall, operation: Callable[..., object], image_id: str, *arguments: Any
) -> ApiResponse:
    """Run an operation as :func:`change` does, and answer without a body."""
    change(call, operation, image_id, *arguments)
    return ApiResponse(status=204)
