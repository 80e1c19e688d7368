"""Images and members as the image API shows them.

Links are glance's, whatever the prefix: clients put the prefix of the endpoint before them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from placement_sched.model.stored_image import ImageMember, StoredImage

Json = dict[str, Any]

#: What tells of an image's data, of which there is none.
_OF_DATA: Mapping[str, None] = {"checksum": None, "os_hash_algo": None, "os_hash_value": None}


def image_document(image: StoredImage) -> Json:
    """Return an image: its attributes, and its properties beside them."""
    path = f"/v2/images/{image.uuid}"
    return {
        **image.properties,
        "id": image.uuid,
        "name": image.name,
        "status": image.status,
        "visibility": image.visibility,
        "owner": image.owner,
        "protected": image.protected,
        "os_hidden": image.os_hidden,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "size": image.size,
        "virtual_size": image.virtual_size,
        **_OF_DATA,
        "tags": sorted(image.tags),
        "created_at": _time(image.created_at),
        "updated_at": _time(image.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


def member_document(member: ImageMember) -> Json:
    """Return a member of an image."""
    return {
        "image_id": member.image,
        "member_id": member.member,
        "status": member.status,
        "created_at": _time(member.created_at),
        "updated_at": _time(member.updated_at),
        "schema": "/v2/schemas/member",
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
