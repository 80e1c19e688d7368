"""The operations of the image API on images, with its rules.

Each function works within the caller's transaction. Those that change an image lock its row
first, so that of two patches at one moment the later is made of what the earlier left.

Sources: Image API reference, "Images", "Image tags" and "Update image"; glance's
specification "Image API v2 HTTP PATCH media types".
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Forbidden, Invalid, NotFound, TooMuch
from placement_sched.limits import (
    MAX_IMAGE_PROPERTIES,
    MAX_IMAGE_PROPERTY_CHARACTERS,
    MAX_IMAGE_TAGS,
)
from placement_sched.model import image as image_model
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.schemas import fields
from placement_sched.store import images as store

#: What an owner may set, in addition to properties of any other name.
SETTABLE = frozenset({*fields.IMAGE, "tags"} - {"status"})
#: What only the service sets.
_READ_ONLY = frozenset((
    "id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value",
    "created_at", "updated_at", "direct_url", "self", "file", "schema", "stores",
))  # fmt: skip
#: Names reserved by glance, which no property may have.
_RESERVED = frozenset({"location", "locations", "deleted", "deleted_at"})
_RESERVED_PREFIX = "os_glance"
#: What is settled once an image has data.
_OF_DATA = frozenset({"disk_format", "container_format"})
#: Visibilities that not every owner may give.
_TO_ALL = frozenset({image_model.PUBLIC, image_model.COMMUNITY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChange:
    """One operation of a patch: ``add``, ``replace`` or ``remove`` the attribute ``name``.

    ``must_be_new`` is an ``add`` of a name that must not exist, as in an early draft.
    """

    operation: str
    name: str
    value: Any = None
    must_be_new: bool = False


def check_settable(name: str) -> None:
    """Raise :class:`Forbidden` for a name that no caller may set or remove."""
    if name in _READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name in _RESERVED or name.startswith(_RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved.")


def check_allowed(before: StoredImage | None, after: StoredImage, viewer: Viewer) -> None:
    """Raise unless the viewer may make this of an image, or (None) make this image.

    :class:`Forbidden` is for an owner and a visibility that the viewer may not give,
    :class:`TooMuch` for more properties or tags than an image may have.
    """
    if after.owner != (before.owner if before else viewer.project_id) and not viewer.is_admin:
        raise Forbidden("Only an administrator may give an image to another owner.")
    opened = after.visibility in _TO_ALL - viewer.may_give
    if opened and (before is None or before.visibility != after.visibility):
        raise Forbidden(f"You are not authorized to make an image {after.visibility}.")
    _limit("properties", len(after.properties), MAX_IMAGE_PROPERTIES)
    _limit(
        "property characters",
        sum(len(name) + len(value) for name, value in after.properties.items()),
        MAX_IMAGE_PROPERTY_CHARACTERS,
    )
    _limit("tags", len(after.tags), MAX_IMAGE_TAGS)


def _limit(noun: str, count: int, limit: int) -> None:
    if count > limit:
        raise TooMuch(
            f"The limit has been exceeded: {count} image {noun}, at most {limit} allowed."
        )


def _after(image: StoredImage, change: ImageChange) -> StoredImage:
    name, value = change.name, change.value
    check_settable(name)
    there = name in SETTABLE or name in image.properties
    if change.operation == "add" and there and change.must_be_new:
        raise Conflict(f"Property {name} already present.")
    if change.operation != "add" and not there:
        raise Conflict(f"Property {name} does not exist.")
    if name not in SETTABLE:
        properties = {**image.properties, name: value}
        # Of some properties glance lets null be given, which is as if there were none.
        if value is None:
            del properties[name]
        return replace(image, properties=properties)
    if change.operation == "remove":
        raise Forbidden(f"Property {name} may not be removed.")
    if name in _OF_DATA and image.status != image_model.QUEUED:
        raise Forbidden(f"Attribute {name} can be only replaced for a queued image.")
    attribute: Any = frozenset(value) if name == "tags" else value
    return replace(image, **{name: attribute})


def get(connection: Connection, uuid: str, viewer: Viewer, *, lock: bool = False) -> StoredImage:
    """Return an image; raises :class:`NotFound` also where the viewer may not see it."""
    image = store.by_uuid(connection, uuid, lock=lock)
    if image is None or not image.open_to(viewer):
        raise NotFound(f"No image found with ID {uuid}")
    return image


def own(connection: Connection, uuid: str, viewer: Viewer) -> StoredImage:
    """Return an image, locked; raises :class:`Forbidden` for one that the viewer may only see."""
    image = get(connection, uuid, viewer, lock=True)
    if not image.owned_by(viewer):
        raise Forbidden(f"You are not permitted to modify image {uuid}: it is another project's.")
    return image


def create(connection: Connection, image: StoredImage, viewer: Viewer) -> StoredImage:
    """Create an image and return it; raises :class:`Duplicate`, and as :func:`check_allowed`."""
    check_allowed(None, image, viewer)
    store.add(connection, image)
    return get(connection, image.uuid, viewer)


def update(
    connection: Connection, uuid: str, viewer: Viewer, changes: Iterable[ImageChange], now: datetime
) -> StoredImage:
    """Change an image, wholly or not at all, and return it.

    Raises :class:`NotFound`, :class:`Forbidden` for what the viewer may not set,
    :class:`Conflict` for what is not there (or is there already), and :class:`TooMuch`.
    """
    image = own(connection, uuid, viewer)
    return _change(connection, image, reduce(_after, changes, image), viewer, now)


def _change(
    connection: Connection, image: StoredImage, after: StoredImage, viewer: Viewer, now: datetime
) -> StoredImage:
    check_allowed(image, after, viewer)
    after = replace(after, updated_at=now)
    store.change(connection, image, after)
    return after


def delete(connection: Connection, uuid: str, viewer: Viewer) -> None:
    """Delete an image; raises :class:`NotFound`, and :class:`Forbidden` for a protected one."""
    image = own(connection, uuid, viewer)
    if image.protected:
        raise Forbidden(f"Image {uuid} is protected and cannot be deleted.")
    store.remove(connection, image)


def add_tag(connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime) -> None:
    """Tag an image, which may be tagged so already; raises :class:`NotFound` and ``TooMuch``."""
    image = own(connection, uuid, viewer)
    _change(connection, image, replace(image, tags=image.tags | {tag}), viewer, now)


def remove_tag(connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime) -> None:
    """Take a tag from an image; raises :class:`NotFound` where it has none such."""
    image = own(connection, uuid, viewer)
    if tag not in image.tags:
        raise NotFound(f"Image {uuid} has no tag {tag}.")
    store.change(connection, image, replace(image, tags=image.tags - {tag}, updated_at=now))


def complete(connection: Connection, uuid: str, viewer: Viewer, now: datetime) -> None:
    """Make a queued image active: all of its data, no byte, has been uploaded.

    Raises :class:`Conflict` for an image that is not queued, and :class:`Invalid` where it has no
    disk format or no container format.
    """
    image = own(connection, uuid, viewer)
    if image.status != image_model.QUEUED:
        raise Conflict(
            f"Image {uuid} is {image.status}: data can be uploaded only to a queued image."
        )
    if missing := sorted(name for name in _OF_DATA if getattr(image, name) is None):
        raise Invalid(f"Set {' and '.join(missing)} of image {uuid} before its data are uploaded.")
    store.change(
        connection, image, replace(image, status=image_model.ACTIVE, size=0, updated_at=now)
    )


def set_status(
    connection: Connection, uuid: str, viewer: Viewer, status: str, now: datetime
) -> None:
    """Withhold an image's data or give it out; raises :class:`Forbidden` if it never was active."""
    image = own(connection, uuid, viewer)
    if image.status not in {image_model.ACTIVE, image_model.DEACTIVATED}:
        verb = "deactivate" if status == image_model.DEACTIVATED else "reactivate"
        raise Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    if image.status != status:
        store.change(connection, image, replace(image, status=status, updated_at=now))
