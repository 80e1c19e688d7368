# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the image API: attributes, documents and access.

Links are glance's, without the prefix of the API, since clients prepend the endpoint.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.model.document import Json
from placement_sched.model.image import COMMUNITY, PUBLIC, StoredImage, Viewer
from placement_sched.model.names import UUID
from placement_sched.schemas.fields import IMAGE, IMAGE_IDS
from placement_sched.schemas.formats import in_seconds

T = TypeVar("T")

#: Attributes of image data, which is not stored here.
_OF_DATA = ("checksum", "os_hash_algo", "os_hash_value")
#: Attributes that are copied from the stored image.
_STORED = (*IMAGE, "size", "virtual_size")


def _schema(description: str, kind: str | None = None, **keywords: Any) -> Json:
    """Return the schema of a text, or of null or a value of type ``kind``."""
    return {"type": ["null", kind] if kind else "string", "description": description, **keywords}


#: Attributes that clients may set (Image API reference, "Images").
_SETTABLE: Json = {
    name: {**IMAGE[name], "description": description}
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
    "status": {**IMAGE["status"], "description": "The status of the image's data."},
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
    | IMAGE_IDS["kernel_id"],
    "ramdisk_id": _schema("The image of the ramdisk, if any.") | IMAGE_IDS["ramdisk_id"],
}
#: The schemas of all attributes except tags, by name.
ATTRIBUTES: Json = {
    "id": _schema("The image's uuid.", pattern=UUID),
    **_SETTABLE,
    **{name: {**schema, "readOnly": True} for name, schema in _READ_ONLY.items()},
    **{name: {**schema, "is_base": False} for name, schema in _PROPERTIES.items()},
}


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
