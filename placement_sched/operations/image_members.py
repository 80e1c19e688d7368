"""Who may share an image with whom, and accept it.

Source: Image API reference, "Sharing". Each function works within the caller's transaction.
"""

from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Forbidden, NotFound, TooMuch
from placement_sched.model.stored_image import (
    MOST_MEMBERS,
    SHARED,
    ImageMember,
    StoredImage,
    Viewer,
)
from placement_sched.operations import images
from placement_sched.store import image_members as store


def of_image(connection: Connection, uuid: str, viewer: Viewer) -> tuple[ImageMember, ...]:
    """Return the members of an image: all for its owner, for one of them itself alone.

    Raises :class:`NotFound`, and :class:`Forbidden` where the image is not shared.
    """
    image = _shared(images.get(connection, uuid, viewer))
    members = store.of_image(connection, image)
    if image.owned_by(viewer):
        return members
    return tuple(each for each in members if each.member == viewer.project_id)


def get(connection: Connection, uuid: str, viewer: Viewer, member: str) -> ImageMember:
    """Return one member; raises :class:`NotFound` also where it is not the viewer's to see."""
    image = images.get(connection, uuid, viewer)
    if not image.owned_by(viewer) and member != viewer.project_id:
        raise _missing(uuid, member)
    return _member(connection, image, member)


def add(
    connection: Connection, uuid: str, viewer: Viewer, member: str, now: datetime
) -> ImageMember:
    """Share an image with a project.

    Raises :class:`NotFound`, :class:`Forbidden` where the image is not shared or another's,
    :class:`Duplicate` and :class:`TooMuch`.
    """
    image = _shared(images.own(connection, uuid, viewer))
    store.add(connection, image, member, now)
    has = len(store.of_image(connection, image))
    if has > MOST_MEMBERS:
        raise TooMuch(
            f"The limit has been exceeded: {has} image members, where {MOST_MEMBERS} may be."
        )
    return _member(connection, image, member)


def set_status(
    connection: Connection,
    uuid: str,
    viewer: Viewer,
    member: str,
    status: str,
    now: datetime,
) -> ImageMember:
    """Note whether a member has accepted an image.

    Raises :class:`NotFound`, and :class:`Forbidden` for whoever is not that member.
    """
    image = _shared(images.get(connection, uuid, viewer, lock=True))
    if not viewer.is_admin and member != viewer.project_id:
        raise Forbidden("Only the member may change its member status.")
    _member(connection, image, member)
    store.set_status(connection, image, member, status, now)
    return _member(connection, image, member)


def remove(connection: Connection, uuid: str, viewer: Viewer, member: str) -> None:
    """Share an image with a project no more.

    Raises :class:`NotFound`, and :class:`Forbidden` where the image is not shared or another's.
    """
    image = _shared(images.own(connection, uuid, viewer))
    if not store.remove(connection, image, member):
        raise _missing(uuid, member)


def _shared(image: StoredImage) -> StoredImage:
    """Return the image; raise :class:`Forbidden` where its visibility is not ``shared``."""
    if image.visibility != SHARED:
        raise Forbidden(
            f"Only images of visibility 'shared' have members; image {image.uuid} is "
            f"{image.visibility}."
        )
    return image


def _member(connection: Connection, image: StoredImage, member: str) -> ImageMember:
    found = store.one(connection, image, member)
    if found is None:
        raise _missing(image.uuid, member)
    return found


def _missing(uuid: str, member: str) -> NotFound:
    return NotFound(f"{member} not found in the member list of the image {uuid}.")
