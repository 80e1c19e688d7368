"""What may be done with images, and by whom: the rules of the image API.

Each function works within the caller's transaction. Those that change an image lock its row
first, so that of two patches at one moment the later is made of what the earlier left.

Source: Image API reference, "Images" and "Image tags".
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Forbidden, NotFound
from placement_sched.model.image_change import Change, changed, check_allowed
from placement_sched.model.stored_image import (
    ACTIVE,
    DEACTIVATED,
    SHARED,
    StoredImage,
    Viewer,
)
from placement_sched.store import image_members
from placement_sched.store import images as store


def get(connection: Connection, uuid: str, viewer: Viewer, *, lock: bool = False) -> StoredImage:
    """Return an image; raises :class:`NotFound` also where the viewer may not see it."""
    image = store.by_uuid(connection, uuid, lock=lock)
    if image is None or not _visible(connection, image, viewer):
        raise NotFound(f"No image found with ID {uuid}")
    return image


def own(connection: Connection, uuid: str, viewer: Viewer) -> StoredImage:
    """Return an image, locked, that the viewer may change.

    Raises :class:`NotFound`, and :class:`Forbidden` for one that the viewer may only see.
    """
    image = get(connection, uuid, viewer, lock=True)
    if not image.owned_by(viewer):
        raise Forbidden(f"You are not permitted to modify image {uuid}: it is another project's.")
    return image


def create(connection: Connection, image: StoredImage, viewer: Viewer) -> StoredImage:
    """Create an image and return it.

    Raises :class:`Duplicate`, and :class:`Forbidden` for an owner or a visibility that the viewer
    may not give.
    """
    check_allowed(None, image, viewer)
    store.add(connection, image)
    return get(connection, image.uuid, viewer)


def update(
    connection: Connection, uuid: str, viewer: Viewer, changes: Iterable[Change], now: datetime
) -> StoredImage:
    """Change an image, wholly or not at all, and return it.

    Raises :class:`NotFound`, and what :func:`placement_sched.model.image_change.changed` does.
    """
    image = own(connection, uuid, viewer)
    after = replace(changed(image, changes, viewer), updated_at=now)
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
    after = replace(image, tags=image.tags | {tag}, updated_at=now)
    check_allowed(image, after, viewer)
    store.change(connection, image, after)


def remove_tag(connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime) -> None:
    """Take a tag from an image; raises :class:`NotFound` where it has none such."""
    image = own(connection, uuid, viewer)
    if tag not in image.tags:
        raise NotFound(f"Image {uuid} has no tag {tag}.")
    store.change(connection, image, replace(image, tags=image.tags - {tag}, updated_at=now))


def deactivate(connection: Connection, uuid: str, viewer: Viewer, now: datetime) -> None:
    """Withhold an image's data; raises :class:`Forbidden` for an image that never was active."""
    _set_status(connection, uuid, viewer, DEACTIVATED, now)


def reactivate(connection: Connection, uuid: str, viewer: Viewer, now: datetime) -> None:
    """Give an image's data out again; raises :class:`Forbidden` as :func:`deactivate` does."""
    _set_status(connection, uuid, viewer, ACTIVE, now)


def _set_status(
    connection: Connection, uuid: str, viewer: Viewer, status: str, now: datetime
) -> None:
    image = own(connection, uuid, viewer)
    if image.status not in {ACTIVE, DEACTIVATED}:
        verb = "deactivate" if status == DEACTIVATED else "reactivate"
        raise Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    if image.status != status:
        store.change(connection, image, replace(image, status=status, updated_at=now))


def _visible(connection: Connection, image: StoredImage, viewer: Viewer) -> bool:
    if image.open_to(viewer):
        return True
    return (
        image.visibility == SHARED
        and image_members.one(connection, image, viewer.project_id) is not None
    )
