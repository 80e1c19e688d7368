"""Image members: the projects with whom images are shared."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.db.batches import batches
from placement_sched.db.tables import image_members, images
from placement_sched.errors import Duplicate
from placement_sched.model.stored_image import PENDING, ImageMember, StoredImage

_MEMBERS = image_members.c


def of_image(connection: Connection, image: StoredImage) -> tuple[ImageMember, ...]:
    """Return the members of an image, by name."""
    return _read(connection, image, None)


def one(connection: Connection, image: StoredImage, member: str) -> ImageMember | None:
    """Return one member of an image, or None."""
    return next(iter(_read(connection, image, member)), None)


def add(connection: Connection, image: StoredImage, member: str, now: datetime) -> None:
    """Share an image with a project; raises :class:`Duplicate` where it is already."""
    row = {"image_id": image.id, "member": member, "status": PENDING}
    try:
        connection.execute(insert(image_members), {**row, "created_at": now, "updated_at": now})
    except IntegrityError:
        raise Duplicate(
            f"The member {member} is already associated with image {image.uuid}."
        ) from None


def set_status(
    connection: Connection, image: StoredImage, member: str, status: str, now: datetime
) -> None:
    """Note whether a member has accepted an image."""
    connection.execute(
        update(image_members)
        .where(_MEMBERS.image_id == image.id, _MEMBERS.member == member)
        .values(status=status, updated_at=now)
    )


def replace_many(
    connection: Connection, statuses: Mapping[int, Mapping[str, str]], now: datetime
) -> None:
    """Make these the only members of images, by the images' numbers: statuses by project."""
    for batch in batches(sorted(statuses)):
        connection.execute(delete(image_members).where(_MEMBERS.image_id.in_(batch)))
    rows = [
        {
            "image_id": number,
            "member": member,
            "status": status,
            "created_at": now,
            "updated_at": now,
        }
        for number, some in statuses.items()
        for member, status in some.items()
    ]
    if rows:
        connection.execute(insert(image_members), rows)


def remove(connection: Connection, image: StoredImage, member: str) -> bool:
    """Share an image with a project no more; return whether it was."""
    gone = connection.execute(
        delete(image_members).where(_MEMBERS.image_id == image.id, _MEMBERS.member == member)
    )
    return bool(gone.rowcount)


def _read(
    connection: Connection, image: StoredImage, member: str | None
) -> tuple[ImageMember, ...]:
    query = (
        select(images.c.uuid, image_members)
        .join(images, images.c.id == _MEMBERS.image_id)
        .where(_MEMBERS.image_id == image.id)
        .order_by(_MEMBERS.member)
    )
    if member is not None:
        query = query.where(_MEMBERS.member == member)
    return tuple(_member(row) for row in connection.execute(query))


def _member(row: Row[Any]) -> ImageMember:
    return ImageMember(
        image=row.uuid,
        member=row.member,
        status=row.status,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
