"""An image: as plugins see it (nova's ImageMeta attribute names), and as the image API keeps it.

Source: Image API reference, "Images".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from placement_sched.model.document import NovaObject
from placement_sched.model.flavor import TRAIT_KEY
from placement_sched.model.image_properties import ImageProperties, properties_from


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """What every image has: ``min_ram`` in MB, ``min_disk`` in GB, sizes in bytes."""

    name: str | None = None
    owner: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    disk_format: str | None = None
    container_format: str | None = None
    min_ram: int = 0
    min_disk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(_Described, NovaObject):
    """What an instance boots: ``min_ram`` in MB, ``min_disk`` in GB, sizes in bytes."""

    id: str | None = None
    status: str | None = None
    visibility: str | None = None
    tags: tuple[str, ...] = ()
    properties: ImageProperties = field(default_factory=ImageProperties)
    #: Traits that properties ``trait<suffix>:X=required`` name: of no group here, as in nova, but
    #: said all the same.
    suffixed_traits: frozenset[str] = frozenset()

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self:
        """Return the image that a request's JSON object describes; null is one without properties.

        Raises :class:`~placement_sched.errors.Invalid` naming a property whose value cannot be.
        """
        if document is None:
            return cls()
        given = {name: document[name] for name in _PLAIN if document.get(name) is not None}
        return cls(
            **given,
            tags=tuple(document.get("tags") or ()),
            properties=properties_from(document.get("properties") or {}),
            suffixed_traits=frozenset(
                match["trait"]
                for key, value in (document.get("properties") or {}).items()
                if value == "required" and (match := TRAIT_KEY.fullmatch(key)) and match["suffix"]
            ),
        )

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the traits its ``trait:X=required`` properties name."""
        return frozenset(self.properties.get("traits_required", ()))


_MADE = {"tags", "properties", "suffixed_traits"}
_PLAIN = tuple(one.name for one in fields(Image) if one.name not in _MADE)


#: What an image is while it has no data: here always, unless it came from elsewhere.
QUEUED, ACTIVE, DEACTIVATED = "queued", "active", "deactivated"
_STATUSES = "queued saving active killed deleted uploading importing pending_delete deactivated"
STATUSES = tuple(_STATUSES.split())

#: What the disk's data may be, and what may be around it.
_DISK_FORMATS = "ami ari aki vhd vhdx vmdk raw qcow2 vdi iso ploop luks"
DISK_FORMATS = tuple(_DISK_FORMATS.split())
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
PUBLIC, COMMUNITY, SHARED, PRIVATE = "public", "community", "shared", "private"
VISIBILITIES = (COMMUNITY, PUBLIC, PRIVATE, SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The caller: a project, or an administrator, which sees and changes all images.

    ``may_give`` are the restricted visibilities that it may give to an image.
    """

    project_id: str
    is_admin: bool = False
    may_give: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage(_Described):
    """One image; its sizes are None without data.

    ``properties`` are what is not one of the other fields, as ``trait:CUSTOM_LICENSED``. ``id``
    is the number under which it is kept, None before it is.
    """

    uuid: str
    id: int | None = None
    status: str = QUEUED
    visibility: str = SHARED
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
        """Return whether the viewer may see the image."""
        return self.visibility in {PUBLIC, COMMUNITY} or self.owned_by(viewer)

    def as_request_image(self) -> dict[str, Any]:
        """Return the image as a request spec describes one (contract §4)."""
        return {name: getattr(self, name) for name in _PLAIN} | {
            "id": self.uuid,
            "tags": sorted(self.tags),
            "properties": dict(self.properties),
        }
