# SPDX-License-Identifier: Apache-2.0
"""Routes of the JSON schemas of images."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.image.conventions import ATTRIBUTES
from placement_sched.model.document import Json

blueprint = Blueprint("image_schemas", __name__)

_TEXT: Json = {"type": "string"}
_SCHEMA_LINK: Json = {"rel": "describedby", "href": "{schema}"}
_TAGS: Json = {
    "type": "array",
    "description": "The tags of the image.",
    "items": {"type": "string", "maxLength": 255},
}
IMAGE: Json = {
    "name": "image",
    "properties": {**ATTRIBUTES, "tags": _TAGS},
    "additionalProperties": _TEXT,
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        _SCHEMA_LINK,
    ],
}
IMAGES: Json = {
    "name": "images",
    "properties": {
        "images": {"type": "array", "items": IMAGE},
        **dict.fromkeys(("schema", "first", "next"), _TEXT),
    },
    "links": [{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}, _SCHEMA_LINK],
}


@blueprint.get("/v2/schemas/image", policy="get_image")
def image(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - every handler's
    """Return the schema of an image."""
    return ApiResponse(body=IMAGE)


@blueprint.get("/v2/schemas/images", policy="get_image")
def image_list(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - every handler's
    """Return the schema of a list of images."""
    return ApiResponse(body=IMAGES)
