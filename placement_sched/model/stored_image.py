"""An image as the image API keeps it: what describes it, not its data.

Source: Image API reference, "Images" and "Sharing".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

#: What an image is while it has no data: here always, unless it came from elsewhere.
QUEUED = "queued"
ACTIVE = "active"
DEACTIVATED = "deactivated"
STATUSES = (
    QUEUED,
    "saving",
    ACTIVE,
    "killed",
    "deleted",
    "uploading",
    "importing",
    "pending_delete",
    DEACTIVATED,
)

#: What the disk's data may be, and what may be around it.
DISK_FORMATS = (
    "ami",
    "ari",
    "aki",
    "vhd",
    "vhdx",
    "vmdk",
    "raw",
    "qcow2",
    "vdi",
    "iso",
    "ploop",
    "luks",
)
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")

PUBLIC = "public"
COMMUNITY = "community"
SHARED = "shared"
PRIVATE = "private"
VISIBILITIES = (COMMUNITY, PUBLIC, PRIVATE, SHARED)

#: Whether a project with whom an image is shared wants to see it in its lists.
PENDING = "pending"
ACCEPTED = "accepted"
REJECTED = "rejected"
MEMBER_STATUSES = (PENDING, ACCEPTED, REJECTED)

#: The most that one image may have of each (glance's defaults).
MOST_PROPERTIES = 128
MOST_TAGS = 128
MOST_MEMBERS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who asks for images: a project, or an administrator, who sees and changes all of them.

    ``may_give`` are those visibilities that not everybody may give to an image.
    """

    project_id: str
    is_admin: bool = False
    may_give: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """One image: ``min_ram`` in MB, ``min_disk`` in GB, sizes in bytes (None without data).

    ``properties`` are what is not one of the other fields, as ``trait:CUSTOM_LICENSED``. ``id``
    is the number under which it is kept, None before it is.
    """

    uuid: str
    id: int | None = None
    name: str | None = None
    status: str = QUEUED
    visibility: str = SHARED
    owner: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    disk_format: str | None = None
    container_format: str | None = None
    min_ram: int = 0
    min_disk: int = 0
    protected: bool = False
    os_hidden: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)

    def owned_by(self, viewer: Viewer) -> bool:
        """Return whether the viewer may change the image."""
        return viewer.is_admin or (self.owner is not None and self.owner == viewer.project_id)

    def open_to(self, viewer: Viewer) -> bool:
        """Return whether the viewer may see the image without having been made a member of it."""
        return self.visibility in {PUBLIC, COMMUNITY} or self.owned_by(viewer)

    def as_request_image(self) -> dict[str, Any]:
        """Return the image as a request spec describes one (contract §4)."""
        return {
            "id": self.uuid,
            "name": self.name,
            "status": self.status,
            "visibility": self.visibility,
            "owner": self.owner,
            "size": self.size,
            "virtual_size": self.virtual_size,
            "disk_format": self.disk_format,
            "container_format": self.container_format,
            "min_ram": self.min_ram,
            "min_disk": self.min_disk,
            "tags": sorted(self.tags),
            "properties": dict(self.properties),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMember:
    """A project with whom an image is shared, and whether it has accepted that."""

    image: str
    member: str
    status: str = PENDING
    created_at: datetime
    updated_at: datetime
