"""Images: the schema that clients read, and those of bodies (Image API reference, "Images").

What a client may not set is told by glance with 403, not 400, so it is no matter of schemas.
"""

from typing import Any

from placement_sched.api.schema import Schemas
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.naming import UUID
from placement_sched.model.stored_image import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    STATUSES,
    VISIBILITIES,
)

Json = dict[str, Any]


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _null_or(kind: str, description: str, **more: Any) -> Json:
    return {"type": ["null", kind], "description": description, **more}


def _told(schema: Json) -> Json:
    """Return the schema of what the service tells and nobody sets."""
    return {**schema, "readOnly": True}


def _property(schema: Json) -> Json:
    """Return the schema of what is no attribute of every image, but has a settled meaning."""
    return {**schema, "is_base": False}


def _amount(description: str) -> Json:
    return {"type": "integer", "minimum": 0, "maximum": MAX_INT, "description": description}


_ATTRIBUTES: Json = {
    "id": _text("The image's uuid.", pattern=UUID),
    "name": _null_or("string", "What people call the image.", maxLength=255),
    "status": _told(_text("How far the image's data is.", enum=list(STATUSES))),
    "visibility": _text("Who may see the image.", enum=list(VISIBILITIES)),
    "owner": _null_or("string", "The project that the image is of.", maxLength=255),
    "protected": {"type": "boolean", "description": "Whether the image cannot be deleted."},
    "os_hidden": {"type": "boolean", "description": "Whether lists leave the image out."},
    "disk_format": _null_or("string", "The format of the disk.", enum=[None, *DISK_FORMATS]),
    "container_format": _null_or(
        "string", "The format of what is around the disk.", enum=[None, *CONTAINER_FORMATS]
    ),
    "min_ram": _amount("The memory in MB without which the image does not boot."),
    "min_disk": _amount("The disk in GB without which the image does not boot."),
    "size": _told(_null_or("integer", "The size of the data in bytes.")),
    "virtual_size": _told(_null_or("integer", "The size in bytes of the disk that they make.")),
    "checksum": _told(_null_or("string", "The MD5 sum of the data.", maxLength=32)),
    "os_hash_algo": _told(_null_or("string", "How os_hash_value is found.", maxLength=64)),
    "os_hash_value": _told(_null_or("string", "A secure hash of the data.", maxLength=128)),
    "tags": {
        "type": "array",
        "description": "Words by which the image is found.",
        "items": {"type": "string", "maxLength": 255},
    },
    "created_at": _told(_text("When the image was made.")),
    "updated_at": _told(_text("When the image was changed last.")),
    "self": _told(_text("The address of the image.")),
    "file": _told(_text("The address of its data.")),
    "schema": _told(_text("The address of this schema.")),
    "architecture": _property(_text("The CPU architecture that the image is made for.")),
    "os_distro": _property(_text("The distribution of the operating system.")),
    "os_version": _property(_text("The version of the operating system.")),
    "instance_uuid": _property(_text("The instance that the image was made of.")),
    "kernel_id": _property(
        _null_or("string", "The image of the kernel, for formats that want one.", pattern=UUID)
    ),
    "ramdisk_id": _property(
        _null_or("string", "The image of the ramdisk, for formats that want one.", pattern=UUID)
    ),
}

#: What clients read at ``/v2/schemas/image``, and make their own checks of.
IMAGE: Json = {
    "name": "image",
    "properties": _ATTRIBUTES,
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}

#: What clients read at ``/v2/schemas/images``.
IMAGES: Json = {
    "name": "images",
    "properties": {
        "images": {"type": "array", "items": IMAGE},
        "schema": {"type": "string"},
        "first": {"type": "string"},
        "next": {"type": "string"},
    },
    "links": [
        {"rel": "first", "href": "{first}"},
        {"rel": "next", "href": "{next}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}

#: A name that databases keep apart from all others: MariaDB heeds no blanks at the end.
NAME: Json = {"type": "string", "maxLength": 255, "format": "printable-name"}

#: Some attributes and properties of an image, for each its value.
ATTRIBUTES: Json = {
    "type": "object",
    "properties": {**_ATTRIBUTES, "tags": {"type": "array", "items": NAME}},
    "propertyNames": {**NAME, "minLength": 1},
    "additionalProperties": {"type": "string"},
}

CREATE = Schemas(((2, 0), ATTRIBUTES))
UPDATE = Schemas(((2, 0), {"type": "array", "items": {"type": "object"}}))
