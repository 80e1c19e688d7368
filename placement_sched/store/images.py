"""Images: the rows, their properties and tags, and the lists that a viewer may see."""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import image_properties, image_tags, images
from placement_sched.errors import Duplicate
from placement_sched.limits import MAX_IMAGE_PAGE_CHARACTERS
from placement_sched.model.image import COMMUNITY, PUBLIC, StoredImage, Viewer
from placement_sched.store.change_counters import certify

_IMAGES = images.c
_PROPERTIES = image_properties.c
_TAGS = image_tags.c

_BESIDE = frozenset({"id", "tags", "properties"})
_COLUMNS = tuple(each.name for each in fields(StoredImage) if each.name not in _BESIDE)
_FLAGS = ("protected", "os_hidden")

#: Attributes by which a list may be sorted.
_SORT_KEYS = "name status container_format disk_format size id created_at updated_at"
SORT_KEYS = tuple(_SORT_KEYS.split())
#: A list is in this order by default; ties are broken by id.
NEWEST_FIRST = (("created_at", True), ("id", True))
#: So many images have no more than that, or little: they are read without asking how long they are.
_FEW = 26


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison that an attribute must pass: one of gt, gte, eq, neq, lt and lte."""

    attribute: str
    operator: str
    value: int | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSearch:
    """A question for images, of those that ``viewer`` may see.

    ``visibility`` None means the default list: public images and the viewer's own. An image must
    have one of the values that ``anyof`` names for an attribute, and all ``tags`` and
    ``properties``. ``order`` has attributes and whether each descends. The answer begins after the
    image ``marker``.
    """

    viewer: Viewer
    visibility: str | None = None
    anyof: Mapping[str, tuple[str | int | bool, ...]] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    order: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None


def add(connection: Connection, image: StoredImage) -> None:
    """Create an image; raises :class:`Duplicate` where its uuid is taken."""
    with sql.refused_as(Duplicate(f"Image ID {image.uuid} already exists!")):
        add_many(connection, [image])


def add_many(connection: Connection, new: Sequence[StoredImage]) -> None:
    """Create images, of which the caller knows that their uuids are free."""
    sql.insert_rows(connection, images, [_values(image, int) for image in new])
    ids = sql.ids_by(connection, _IMAGES.uuid, [image.uuid for image in new])
    numbered = [(ids[image.uuid], image) for image in new]
    _add_beside(
        connection,
        [(number, *item) for number, image in numbered for item in image.properties.items()],
        [(number, tag) for number, image in numbered for tag in image.tags],
    )


def _add_beside(
    connection: Connection,
    properties: Iterable[tuple[int, str, str]],
    tags: Iterable[tuple[int, str]],
) -> None:
    """Add properties and tags to images, by their numbers."""
    rows: list[dict[str, Any]] = [
        {"image_id": number, "name": name, "value": value} for number, name, value in properties
    ]
    sql.insert_rows(connection, image_properties, rows)
    rows = [{"image_id": number, "tag": tag} for number, tag in sorted(tags)]
    sql.insert_rows(connection, image_tags, rows)


def by_uuid(connection: Connection, uuid: str, *, lock: bool = False) -> StoredImage | None:
    """Return the image of this uuid, or None.

    ``lock`` keeps others from changing it until the transaction ends.
    """
    query = select(images).where(_IMAGES.uuid == uuid)
    rows = connection.execute(query.with_for_update() if lock else query).all()
    if lock and rows:
        certify(connection, _IMAGES.protected, _IMAGES.uuid == uuid)
    return next(iter(_whole(connection, rows)), None)


def called(connection: Connection, name_or_uuid: str) -> tuple[StoredImage, ...]:
    """Return the image of this uuid; where there is none, those of this name, by uuid."""
    # No uuid in the usual form has a capital letter.
    uuid = name_or_uuid.lower()
    either = sa.or_(_IMAGES.uuid == uuid, _IMAGES.name == name_or_uuid)
    rows = connection.execute(select(images).where(either).order_by(_IMAGES.uuid)).all()
    return _whole(connection, [row for row in rows if row.uuid == uuid] or rows)


def all_images(connection: Connection) -> tuple[StoredImage, ...]:
    """Return every image, by uuid."""
    return _whole(connection, connection.execute(select(images).order_by(_IMAGES.uuid)).all())


def all_names(connection: Connection) -> tuple[str, ...]:
    """Return the names of all images that have one."""
    return tuple(connection.scalars(select(_IMAGES.name).where(_IMAGES.name.is_not(None))))


def _whole(connection: Connection, rows: Sequence[Row[Any]]) -> tuple[StoredImage, ...]:
    """Return the images of these rows of their table, in that order, with what lies beside it."""
    ids = [row.id for row in rows]
    query = select(image_properties).order_by(_PROPERTIES.name)
    properties = sql.nested(sql.rows_among(connection, query, _PROPERTIES.image_id, ids))
    tags = sql.grouped(sql.rows_among(connection, select(image_tags), _TAGS.image_id, ids))
    return tuple(
        StoredImage(
            **_values(row, bool),
            id=row.id,
            tags=frozenset(tags.get(row.id, ())),
            properties=properties.get(row.id, {}),
        )
        for row in rows
    )


def change(connection: Connection, old: StoredImage, new: StoredImage) -> None:
    """Make of ``old``, which the caller has locked, what ``new`` is."""
    number = _number(old)
    connection.execute(update(images).where(_IMAGES.id == number).values(_values(new, int)))
    before, after = old.properties.items(), new.properties.items()
    if gone := {name for name, _ in before - after}:
        mine = delete(image_properties).where(_PROPERTIES.image_id == number)
        connection.execute(mine.where(_PROPERTIES.name.in_(gone)))
    if old.tags - new.tags:
        mine = delete(image_tags).where(_TAGS.image_id == number)
        connection.execute(mine.where(_TAGS.tag.in_(old.tags - new.tags)))
    come = [(number, *item) for item in after if item not in before]
    _add_beside(connection, come, [(number, tag) for tag in new.tags - old.tags])


def remove(connection: Connection, image: StoredImage) -> None:
    """Delete an image, which the caller has locked, with its properties and tags."""
    number = _number(image)
    for table in (image_properties, image_tags):
        connection.execute(delete(table).where(table.c.image_id == number))
    connection.execute(delete(images).where(_IMAGES.id == number))


def _number(image: StoredImage) -> int:
    if image.id is None:
        raise ValueError(f"image {image.uuid} was not read from the database")
    return image.id


def _values(source: Row[Any] | StoredImage, flag: type[int]) -> dict[str, Any]:
    """Return what an image and its row have alike, with its flags as booleans or numbers."""
    values = {name: getattr(source, name) for name in _COLUMNS}
    return values | {name: flag(values[name]) for name in _FLAGS}


_OPERATORS = MappingProxyType(
    {
        "gt": operator.gt,
        "gte": operator.ge,
        "eq": operator.eq,
        "neq": operator.ne,
        "lt": operator.lt,
        "lte": operator.le,
    }
)
#: What stands for null in the order of a list: databases do not agree where it belongs.
_NULLS = MappingProxyType({"name": "", "container_format": "", "disk_format": "", "size": -1})


def search(connection: Connection, question: ImageSearch) -> tuple[tuple[StoredImage, ...], bool]:
    """Return the images that a question asks for, in its order, and whether others come after them.

    A page may end before its limit is reached, at ``MAX_IMAGE_PAGE_CHARACTERS``. Raises
    :class:`Invalid` if its marker is none of the images that the viewer may see.
    """
    order = [(_column(key), descends) for key, descends in question.order]
    everything = ImageSearch(viewer=question.viewer, visibility="all")
    marked = and_(_IMAGES.uuid == question.marker, _shown(everything))
    limit = question.limit
    few = limit is not None and limit <= _FEW
    long = sa.literal(0) if few else _length(connection)
    query = sql.page(
        connection,
        select(images, long.label("length")).where(*_wanted(question)),
        [
            (sa.func.coalesce(key, _NULLS[key.name]) if key.name in _NULLS else key, descends)
            for key, descends in order
        ],
        # One more, to know whether there is one.
        limit=None if limit is None else limit + 1,
        marked=None if question.marker is None else marked,
        missing=f"Invalid marker: image {question.marker} could not be found",
    )
    rows = connection.execute(query).all()
    lengths = accumulate(int(row.length) for row in rows)
    fitting = 1 + sum(length < MAX_IMAGE_PAGE_CHARACTERS for length in lengths)
    page = rows[: fitting if limit is None else min(fitting, limit)]
    return _whole(connection, page), len(page) < len(rows)


def _length(connection: Connection) -> ColumnElement[int]:
    """Return how long the properties and tags of an image are, in characters or bytes."""
    # PostgreSQL counts the characters of a long text only after it has read it.
    length = sa.func.octet_length if sql.is_postgresql(connection) else sa.func.length
    properties = select(sa.func.sum(length(_PROPERTIES.name) + length(_PROPERTIES.value)))
    tags = select(sa.func.sum(length(_TAGS.tag)))
    parts = (
        properties.where(_PROPERTIES.image_id == _IMAGES.id),
        tags.where(_TAGS.image_id == _IMAGES.id),
    )
    one, other = (sa.func.coalesce(part.correlate(images).scalar_subquery(), 0) for part in parts)
    return one + other


def _wanted(question: ImageSearch) -> list[ColumnElement[bool]]:
    return [
        _shown(question),
        # What is true or false is kept as a number.
        *(
            _column(name).in_([int(one) if isinstance(one, bool) else one for one in values])
            for name, values in question.anyof.items()
        ),
        *(
            _OPERATORS[bound.operator](_column(bound.attribute), bound.value)
            for bound in question.bounds
        ),
        *_with_all(_TAGS.image_id, _TAGS.tag, question.tags),
        *_with_all(
            _PROPERTIES.image_id,
            sa.tuple_(_PROPERTIES.name, _PROPERTIES.value),
            question.properties.items(),
        ),
    ]


def _with_all(
    image_id: ColumnElement[int], key: ColumnElement[Any], asked: Collection[Any]
) -> list[ColumnElement[bool]]:
    """Return the condition that an image has all that is asked for, if anything is.

    An image has each but once. By a condition for each, PostgreSQL takes half a minute to plan how
    to join two hundred.
    """
    if not asked:
        return []
    found = select(image_id).where(key.in_(sorted(asked))).group_by(image_id)
    return [_IMAGES.id.in_(found.having(sa.func.count() == len(asked)))]


def _shown(question: ImageSearch) -> ColumnElement[bool]:
    viewer, visibility = question.viewer, question.visibility
    named = sa.true() if visibility in {None, "all"} else _IMAGES.visibility == visibility
    if viewer.is_admin:
        return named
    open_to_all = [PUBLIC] if visibility is None else [PUBLIC, COMMUNITY]
    mine = sa.or_(_IMAGES.owner == viewer.project_id, _IMAGES.visibility.in_(open_to_all))
    return and_(mine, named)


def _column(attribute: str) -> ColumnElement[Any]:
    return _IMAGES["uuid" if attribute == "id" else attribute]
