"""Images in the image API: attributes, answers, and the caller who reads or changes.

Links are glance's, whatever the prefix: clients put the prefix of the endpoint before them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from placement_sched.api.call import Answer, Call
from placement_sched.model.document import Json
from placement_sched.model.image import COMMUNITY, PUBLIC, StoredImage, Viewer
from placement_sched.model.names import UUID
from placement_sched.schemas.fields import IMAGE, IMAGE_IDS
from placement_sched.schemas.formats import in_seconds

T = TypeVar("T")

#: Attributes of image data, which is not stored here.
_OF_DATA = ("checksum", "os_hash_algo", "os_hash_value")
#: Attributes that are shown as they are stored.
_PLAIN = (*IMAGE, "size", "virtual_size")


def _text(description: str, kind: str | None = None, **more: Any) -> Json:
    """Return the schema of a text; of null or another ``kind`` if given."""
    return {"type": ["null", kind] if kind else "string", "description": description, **more}


#: What clients may set (Image API reference, "Images").
_SETTABLE: Json = {
    name: {**IMAGE[name], "description": description}
    for name, description in {
        "name": "The name of the image.",
        "visibility": "Who may see the image.",
        "owner": "The project that owns the image.",
        "protected": "Whether the image cannot be deleted.",
        "os_hidden": "Whether lists leave the image out.",
        "disk_format": "The format of the disk.",
        "container_format": "The format of the container around the disk.",
        "min_ram": "The memory in MB that the image needs to boot.",
        "min_disk": "The disk in GB that the image needs to boot.",
    }.items()
}
#: What the service shows and clients cannot set: it answers 403, not 400, so schemas allow it.
_READ_ONLY: Json = {
    "status": {**IMAGE["status"], "description": "The status of the image's data."},
    "size": _text("The size of the data in bytes.", "integer"),
    "virtual_size": _text("The size of the disk in bytes.", "integer"),
    "checksum": _text("The MD5 sum of the data.", "string", maxLength=32),
    "os_hash_algo": _text("The algorithm of os_hash_value.", "string", maxLength=64),
    "os_hash_value": _text("A secure hash of the data.", "string", maxLength=128),
    "created_at": _text("When the image was created."),
    "updated_at": _text("When the image was changed last."),
    "self": _text("The address of the image."),
    "file": _text("The address of its data."),
    "schema": _text("The address of this schema."),
}
#: Properties with a defined meaning, which not every image has.
_PROPERTIES: Json = {
    "architecture": _text("The CPU architecture that the image is made for."),
    "os_distro": _text("The distribution of the operating system."),
    "os_version": _text("The version of the operating system."),
    "instance_uuid": _text("The instance that the image was created from."),
    "kernel_id": _text("The image of the kernel, if the format has one.") | IMAGE_IDS["kernel_id"],
    "ramdisk_id": _text("The image of the ramdisk, if there is one.") | IMAGE_IDS["ramdisk_id"],
}
#: The schemas of all these by name, but for tags.
ATTRIBUTES: Json = {
    "id": _text("The image's uuid.", pattern=UUID),
    **_SETTABLE,
    **{name: {**schema, "readOnly": True} for name, schema in _READ_ONLY.items()},
    **{name: {**schema, "is_base": False} for name, schema in _PROPERTIES.items()},
}


def image_document(image: StoredImage) -> Json:
    """Return an image: its attributes and, on the same level, its properties."""
    path = f"/v2/images/{image.uuid}"
    return {
        **image.properties,
        "id": image.uuid,
        **{name: getattr(image, name) for name in _PLAIN},
        **dict.fromkeys(_OF_DATA),
        "tags": sorted(image.tags),
        "created_at": in_seconds(image.created_at),
        "updated_at": in_seconds(image.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


_GIVING = {PUBLIC: "publicize_image", COMMUNITY: "communitize_image"}


def viewer_of(call: Call) -> Viewer:
    """Return the caller's project and rights."""
    return Viewer(
        project_id=call.identity.project_id,
        is_admin=call.may("context_is_admin"),
        may_give=frozenset(visibility for visibility, rule in _GIVING.items() if call.may(rule)),
    )


def change(call: Call, operation: Callable[..., T], image_id: str, *given: Any) -> T:
    """Do ``operation`` of :mod:`placement_sched.operations.images` to an image for the caller."""
    return call.write(operation, image_id.lower(), viewer_of(call), *given)


def changed(call: Call, operation: Callable[..., object], image_id: str, *given: Any) -> Answer:
    """Do the same, and answer without a body."""
    change(call, operation, image_id, *given)
    return Answer(status=204)
