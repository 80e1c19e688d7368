# SPDX-License-Identifier: Apache-2.0
"""Routes of image data and members, which are not stored here, and of import methods."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.image.image_document import apply_change, viewer_of
from placement_sched.errors import Forbidden, LimitExceeded, NotFound
from placement_sched.model.image import DEACTIVATED
from placement_sched.operations import images

blueprint = Blueprint("image_data", __name__)

_FILE = "/v2/images/<image_id>/file"
_BYTES = ("application/octet-stream",)


@blueprint.get(_FILE, policy="download_image", success=(204,))
def download(call: ApiCall, image_id: str) -> ApiResponse:
    """Answer 204, as for any image without data."""
    viewer = viewer_of(call)
    image = call.read(images.get, image_id.lower(), viewer)
    if image.status == DEACTIVATED and not viewer.is_admin:
        raise Forbidden(f"The requested image {image.uuid} has been deactivated.")
    return ApiResponse(status=204)


@blueprint.put(
    _FILE, policy="upload_image", data=True, content_types=_BYTES, success=(204,), errors=(409,)
)
def upload(call: ApiCall, image_id: str) -> ApiResponse:
    """Activate an image by an empty upload, as glance does, and reject other data."""
    if call.body:
        apply_change(call, images.lock_own, image_id)
        raise LimitExceeded(
            "No image data is stored here: this service stores only image metadata for the "
            "scheduler. Create the image without data, or upload it to glance."
        )
    return apply_change(call, images.activate_empty, image_id, call.now())


@blueprint.route(
    "/v2/images/<image_id>/members", methods=("GET", "POST"), policy="get_image", success=()
)
@blueprint.route(
    "/v2/images/<image_id>/members/<member_id>",
    methods=("GET", "PUT", "DELETE"),
    policy="get_image",
    success=(),
)
def reject_members(_call: ApiCall, **_names: str) -> ApiResponse:
    """Answer 404 with the alternatives to sharing an image."""
    raise NotFound(
        "Images have no members here. Set the visibility of the image to community or public, or "
        "create a copy of the image that the other project owns."
    )


@blueprint.get("/v2/info/import", policy="get_image")
def import_methods(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - every handler's
    """Return the empty list of import methods (Image API reference, "Image Service Info")."""
    methods = {"description": "Import methods available.", "type": "array", "value": []}
    return ApiResponse(body={"import-methods": methods})
