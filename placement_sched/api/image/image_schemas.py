# SPDX-License-Identifier: Apache-2.0
"""Schemas of the attributes of images, and routes of the JSON schemas."""

from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.model.document import Json
from placement_sched.model.names import UUID
from placement_sched.schemas import fields

blueprint = Blueprint("image_schemas", __name__)


def _schema(description: str, kind: str | None = None, **keywords: Any) -> Json:
    """Build the schema of a text, or of null and values of type ``kind``."""
    return {"type": ["null", kind] if kind else "string", "description": description, **keywords}


#: Attributes that clients may set (Image API reference, "Images").
_SETTABLE: Json = {
    name: {**fields.IMAGE[name], "description": description}
    for name, description in {
        "name": "The name of the image.",
        "visibility": "The visibility of the image to other projects.",
        "owner": "The project that owns the image.",
        "protected": "Whether the image cannot be deleted.",
        "os_hidden": "Whether lists omit the image.",
        "disk_format": "The format of the disk.",
        "container_format": "The format of the container around the disk.",
        "min_ram": "The memory in MB that the image needs to boot.",
        "min_disk": "The disk in GB that the image needs to boot.",
    }.items()
}
#: Read-only attributes. Setting them is 403, not 400, so that schemas allow them.
_READ_ONLY: Json = {
    "status": {**fields.IMAGE["status"], "description": "The status of the image's data."},
    "size": _schema("The size of the data in bytes.", "integer"),
    "virtual_size": _schema("The size of the disk in bytes.", "integer"),
    "checksum": _schema("The MD5 sum of the data.", "string", maxLength=32),
    "os_hash_algo": _schema("The algorithm of os_hash_value.", "string", maxLength=64),
    "os_hash_value": _schema("A secure hash of the data.", "string", maxLength=128),
    "created_at": _schema("The time of creation."),
    "updated_at": _schema("The time of the last change."),
    "self": _schema("The address of the image."),
    "file": _schema("The address of the image's data."),
    "schema": _schema("The address of this schema."),
}
#: Optional properties with a defined meaning.
_PROPERTIES: Json = {
    "architecture": _schema("The CPU architecture of the image."),
    "os_distro": _schema("The distribution of the operating system."),
    "os_version": _schema("The version of the operating system."),
    "instance_uuid": _schema("The instance that the image was created from."),
    "kernel_id": _schema("The image of the kernel, if the format needs it.")
    | fields.IMAGE_IDS["kernel_id"],
    "ramdisk_id": _schema("The image of the ramdisk, if any.") | fields.IMAGE_IDS["ramdisk_id"],
}
#: The schemas of all attributes except tags, by name.
ATTRIBUTES: Json = {
    "id": _schema("The image's uuid.", pattern=UUID),
    **_SETTABLE,
    **{name: {**schema, "readOnly": True} for name, schema in _READ_ONLY.items()},
    **{name: {**schema, "is_base": False} for name, schema in _PROPERTIES.items()},
}

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
