"""Images: the rows, their properties and tags. Which of them a list shows: ``image_search``."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.db.batches import batches
from placement_sched.db.tables import image_members, image_properties, image_tags, images
from placement_sched.errors import Duplicate
from placement_sched.model.stored_image import StoredImage

_IMAGES = images.c
_PROPERTIES = image_properties.c
_TAGS = image_tags.c

_BESIDE = frozenset({"id", "tags", "properties"})
_COLUMNS = tuple(each.name for each in fields(StoredImage) if each.name not in _BESIDE)
_FLAGS = ("protected", "os_hidden")


def add(connection: Connection, image: StoredImage) -> None:
    """Create an image; raises :class:`Duplicate` where its uuid is taken."""
    try:
        connection.execute(insert(images), _row(image))
    except IntegrityError:
        raise Duplicate(f"Image ID {image.uuid} already exists!") from None
    number = connection.scalars(select(_IMAGES.id).where(_IMAGES.uuid == image.uuid)).one()
    _add_properties(connection, number, image.properties.items())
    _add_tags(connection, number, image.tags)


def add_many(connection: Connection, new: Sequence[StoredImage]) -> None:
    """Create images, of which the caller knows that their uuids are free."""
    if not new:
        return
    connection.execute(insert(images), [_row(image) for image in new])
    ids = ids_by_uuid(connection, [image.uuid for image in new])
    properties = [
        {"image_id": ids[image.uuid], "name": name, "value": value}
        for image in new
        for name, value in image.properties.items()
    ]
    tags = [
        {"image_id": ids[image.uuid], "tag": tag} for image in new for tag in sorted(image.tags)
    ]
    if properties:
        connection.execute(insert(image_properties), properties)
    if tags:
        connection.execute(insert(image_tags), tags)


def ids_by_uuid(connection: Connection, uuids: Iterable[str]) -> dict[str, int]:
    """Return the numbers under which images are kept, for those that are there."""
    return {
        uuid: number
        for batch in batches(uuids)
        for uuid, number in connection.execute(
            select(_IMAGES.uuid, _IMAGES.id).where(_IMAGES.uuid.in_(batch))
        )
    }


def by_uuid(connection: Connection, uuid: str, *, lock: bool = False) -> StoredImage | None:
    """Return the image of this uuid, or None.

    ``lock`` keeps others from changing it until the transaction ends.
    """
    query = select(images).where(_IMAGES.uuid == uuid)
    rows = connection.execute(query.with_for_update() if lock else query).all()
    return next(iter(whole(connection, rows)), None)


def called(connection: Connection, name_or_uuid: str) -> tuple[StoredImage, ...]:
    """Return the image of this uuid; where there is none, those of this name, by uuid."""
    # No uuid in the usual form has a capital letter.
    uuid = name_or_uuid.lower()
    rows = connection.execute(
        select(images)
        .where(or_(_IMAGES.uuid == uuid, _IMAGES.name == name_or_uuid))
        .order_by(_IMAGES.uuid)
    ).all()
    return whole(connection, [row for row in rows if row.uuid == uuid] or rows)


def all_images(connection: Connection) -> tuple[StoredImage, ...]:
    """Return every image, by uuid."""
    return whole(connection, connection.execute(select(images).order_by(_IMAGES.uuid)).all())


def whole(connection: Connection, rows: Sequence[Row[Any]]) -> tuple[StoredImage, ...]:
    """Return the images of these rows of their table, in that order, with what lies beside it."""
    properties: dict[int, dict[str, str]] = defaultdict(dict)
    tags: dict[int, set[str]] = defaultdict(set)
    for batch in batches(row.id for row in rows):
        for number, name, value in connection.execute(
            select(_PROPERTIES.image_id, _PROPERTIES.name, _PROPERTIES.value)
            .where(_PROPERTIES.image_id.in_(batch))
            .order_by(_PROPERTIES.name)
        ):
            properties[number][name] = value
        query = select(_TAGS.image_id, _TAGS.tag).where(_TAGS.image_id.in_(batch))
        for number, tag in connection.execute(query):
            tags[number].add(tag)
    return tuple(
        StoredImage(
            **_attributes(row),
            id=row.id,
            tags=frozenset(tags[row.id]),
            properties=properties[row.id],
        )
        for row in rows
    )


def change(connection: Connection, old: StoredImage, new: StoredImage) -> None:
    """Make of ``old``, which the caller has locked, what ``new`` is."""
    number = _number(old)
    connection.execute(update(images).where(_IMAGES.id == number).values(_row(new)))
    gone = [name for name, value in old.properties.items() if new.properties.get(name) != value]
    if gone:
        connection.execute(
            delete(image_properties).where(
                _PROPERTIES.image_id == number, _PROPERTIES.name.in_(gone)
            )
        )
    come = [item for item in new.properties.items() if old.properties.get(item[0]) != item[1]]
    _add_properties(connection, number, come)
    if old.tags - new.tags:
        connection.execute(
            delete(image_tags).where(_TAGS.image_id == number, _TAGS.tag.in_(old.tags - new.tags))
        )
    _add_tags(connection, number, new.tags - old.tags)


def remove(connection: Connection, image: StoredImage) -> None:
    """Delete an image, which the caller has locked, with its properties, tags and members."""
    number = _number(image)
    for table in (image_properties, image_tags, image_members):
        connection.execute(delete(table).where(table.c.image_id == number))
    connection.execute(delete(images).where(_IMAGES.id == number))


def _number(image: StoredImage) -> int:
    """Return the number under which an image that was read is kept."""
    if image.id is None:
        raise ValueError(f"image {image.uuid} was not read from the database")
    return image.id


def _attributes(row: Row[Any]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _COLUMNS}
    return values | {name: bool(values[name]) for name in _FLAGS}


def _row(image: StoredImage) -> dict[str, Any]:
    values = {name: getattr(image, name) for name in _COLUMNS}
    return values | {name: int(values[name]) for name in _FLAGS}


def _add_properties(connection: Connection, number: int, items: Iterable[tuple[str, str]]) -> None:
    rows = [{"image_id": number, "name": name, "value": value} for name, value in items]
    if rows:
        connection.execute(insert(image_properties), rows)


def _add_tags(connection: Connection, number: int, tags: Iterable[str]) -> None:
    rows = [{"image_id": number, "tag": tag} for tag in sorted(tags)]
    if rows:
        connection.execute(insert(image_tags), rows)
