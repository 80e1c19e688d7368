# SPDX-License-Identifier: Apache-2.0
"""Changes of images by the rules of the image API.

Each function works within the caller's transaction. A change locks the row of the image first, so
that concurrent patches are applied one after the other.

Sources: Image API reference, "Images", "Image tags" and "Update image", and glance's
specification "Image API v2 HTTP PATCH media types".
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound
from placement_sched.limits import (
    MAX_IMAGE_PROPERTIES,
    MAX_IMAGE_PROPERTY_CHARACTERS,
    MAX_IMAGE_TAGS,
)
from placement_sched.model import image as image_model
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.schemas import fields
from placement_sched.store import images as store

#: Attributes that an owner may set, in addition to properties.
SETTABLE = frozenset({*fields.IMAGE, "tags"} - {"status"})
#: Attributes that only the service sets.
_READ_ONLY = frozenset((
    "id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value",
    "created_at", "updated_at", "direct_url", "self", "file", "schema", "stores",
))  # fmt: skip
#: Names reserved by glance, which properties may not have.
_RESERVED = frozenset({"location", "locations", "deleted", "deleted_at"})
_RESERVED_PREFIX = "os_glance"
#: Attributes that cannot change once an image has data.
_DATA_FORMATS = frozenset({"disk_format", "container_format"})
#: Visibilities that need a permission.
_SHARED_VISIBILITIES = frozenset({image_model.PUBLIC, image_model.COMMUNITY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChange:
    """A change of an attribute by a patch: add, replace or remove.

    With ``must_be_new``, an ``add`` fails if the name exists, as in an early draft of JSON patch.
    """

    operation: str
    name: str
    value: Any = None
    must_be_new: bool = False


def check_settable(name: str) -> None:
    """Reject a name that is read-only or reserved.

    Raises :class:`Forbidden`.
    """
    if name in _READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name in _RESERVED or name.startswith(_RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved.")


def check_allowed(before: StoredImage | None, after: StoredImage, viewer: Viewer) -> None:
    """Check that the viewer may change an image to ``after``, or create it.

    Raises :class:`Forbidden` for an owner or a visibility that the viewer may not set, and
    :class:`LimitExceeded` for too many properties or tags.
    """
    if after.owner != (before.owner if before else viewer.project_id) and not viewer.is_admin:
        raise Forbidden("Only an administrator may give an image to another owner.")
    is_shared = after.visibility in _SHARED_VISIBILITIES - viewer.may_give
    if is_shared and (before is None or before.visibility != after.visibility):
        raise Forbidden(f"You are not authorized to make an image {after.visibility}.")
    _check_limit("properties", len(after.properties), MAX_IMAGE_PROPERTIES)
    _check_limit(
        "property characters",
        sum(len(name) + len(value) for name, value in after.properties.items()),
        MAX_IMAGE_PROPERTY_CHARACTERS,
    )
    _check_limit("tags", len(after.tags), MAX_IMAGE_TAGS)


def _check_limit(noun: str, count: int, limit: int) -> None:
    if count > limit:
        raise LimitExceeded(
            f"The limit has been exceeded: {count} image {noun}, at most {limit} allowed."
        )


def _apply(image: StoredImage, change: ImageChange) -> StoredImage:
    name, value = change.name, change.value
    check_settable(name)
    exists = name in SETTABLE or name in image.properties
    if change.operation == "add" and exists and change.must_be_new:
        raise Conflict(f"Property {name} already present.")
    if change.operation != "add" and not exists:
        raise Conflict(f"Property {name} does not exist.")
    if name not in SETTABLE:
        properties = {**image.properties, name: value}
        # For some properties glance accepts null, which is the same as no property.
        if value is None:
            del properties[name]
        return replace(image, properties=properties)
    if change.operation == "remove":
        raise Forbidden(f"Property {name} may not be removed.")
    if name in _DATA_FORMATS and image.status != image_model.QUEUED:
        raise Forbidden(f"Attribute {name} can be only replaced for a queued image.")
    attribute: Any = frozenset(value) if name == "tags" else value
    return replace(image, **{name: attribute})


def get(connection: Connection, uuid: str, viewer: Viewer, *, lock: bool = False) -> StoredImage:
    """Return an image.

    Raises :class:`NotFound` if the viewer may not see it.
    """
    image = store.by_uuid(connection, uuid, lock=lock)
    if image is None or not image.open_to(viewer):
        raise NotFound(f"No image found with ID {uuid}")
    return image


def lock_own(connection: Connection, uuid: str, viewer: Viewer) -> StoredImage:
    """Lock and return an image.

    Raises :class:`Forbidden` if another project owns it.
    """
    image = get(connection, uuid, viewer, lock=True)
    if not image.owned_by(viewer):
        raise Forbidden(f"You are not permitted to modify image {uuid}: it is another project's.")
    return image


def create(connection: Connection, image: StoredImage, viewer: Viewer) -> StoredImage:
    """Create an image.

    Raises :class:`Duplicate`, and the errors of :func:`check_allowed`.
    """
    check_allowed(None, image, viewer)
    store.add(connection, image)
    return get(connection, image.uuid, viewer)


def update(
    connection: Connection, uuid: str, viewer: Viewer, changes: Iterable[ImageChange], now: datetime
) -> StoredImage:
    """Apply all operations of a patch to an image, and return the image.

    Raises :class:`NotFound`, :class:`Forbidden` for an attribute that the viewer may not set,
    :class:`Conflict` for a missing or already existing property, and :class:`LimitExceeded`.
    """
    image = lock_own(connection, uuid, viewer)
    return _change(connection, image, reduce(_apply, changes, image), viewer, now)


def _change(
    connection: Connection, image: StoredImage, after: StoredImage, viewer: Viewer, now: datetime
) -> StoredImage:
    check_allowed(image, after, viewer)
    after = replace(after, updated_at=now)
    store.change(connection, image, after)
    return after


def delete(connection: Connection, uuid: str, viewer: Viewer) -> None:
    """Delete an image.

    Raises :class:`Forbidden` if it is protected.
    """
    image = lock_own(connection, uuid, viewer)
    if image.protected:
        raise Forbidden(f"Image {uuid} is protected and cannot be deleted.")
    store.remove(connection, image)


def add_tag(connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime) -> None:
    """Add a tag to an image.

    Raises :class:`LimitExceeded`.
    """
    image = lock_own(connection, uuid, viewer)
    _change(connection, image, replace(image, tags=image.tags | {tag}), viewer, now)


def remove_tag(connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime) -> None:
    """Remove a tag from an image.

    Raises :class:`NotFound`.
    """
    image = lock_own(connection, uuid, viewer)
    if tag not in image.tags:
        raise NotFound(f"Image {uuid} has no tag {tag}.")
    store.change(connection, image, replace(image, tags=image.tags - {tag}, updated_at=now))


def activate_empty(connection: Connection, uuid: str, viewer: Viewer, now: datetime) -> None:
    """Activate a queued image after an upload of zero bytes.

    Raises :class:`Conflict` for an image that is not queued, and :class:`Invalid` if it has no disk
    format or no container format.
    """
    image = lock_own(connection, uuid, viewer)
    if image.status != image_model.QUEUED:
        raise Conflict(
            f"Image {uuid} is {image.status}: data can be uploaded only to a queued image."
        )
    if missing := sorted(name for name in _DATA_FORMATS if getattr(image, name) is None):
        raise Invalid(f"Set {' and '.join(missing)} of image {uuid} before uploading its data.")
    store.change(
        connection, image, replace(image, status=image_model.ACTIVE, size=0, updated_at=now)
    )


def set_status(
    connection: Connection, uuid: str, viewer: Viewer, status: str, now: datetime
) -> None:
    """Activate or deactivate an image.

    Raises :class:`Forbidden` if it is queued.
    """
    image = lock_own(connection, uuid, viewer)
    if image.status not in {image_model.ACTIVE, image_model.DEACTIVATED}:
        verb = "deactivate" if status == image_model.DEACTIVATED else "reactivate"
        raise Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    if image.status != status:
        store.change(connection, image, replace(image, status=status, updated_at=now))
