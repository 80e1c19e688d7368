# SPDX-License-Identifier: Apache-2.0
"""Images with their properties and tags, and image lists."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import image_properties, image_tags, images
from placement_sched.errors import Duplicate
from placement_sched.limits import MAX_IMAGE_PAGE_CHARACTERS
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.image import COMMUNITY, PUBLIC, StoredImage, Viewer
from placement_sched.store.change_counters import make_lock_visible

_IMAGES = images.c
_PROPERTIES = image_properties.c
_TAGS = image_tags.c

_NOT_COLUMNS = frozenset({"id", "tags", "properties"})
_COLUMNS = tuple(entry.name for entry in fields(StoredImage) if entry.name not in _NOT_COLUMNS)
_FLAGS = ("protected", "os_hidden")

#: Attributes that a list can be sorted by.
_SORT_KEYS = "name status container_format disk_format size id created_at updated_at"
SORT_KEYS = tuple(_SORT_KEYS.split())
#: The default order of a list. Ties are broken by id.
NEWEST_FIRST = (("created_at", True), ("id", True))
#: Maximum number of images in a page that is read without measuring its size.
_MAX_UNMEASURED = 26
#: Values that NULL is sorted as: databases differ in the position of NULL.
_NULLS = MappingProxyType({"name": "", "container_format": "", "disk_format": "", "size": -1})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSearch:
    """The filters and the order of a list of images that ``viewer`` may see.

    If ``visibility`` is None, only public images and the viewer's own images are listed, but all
    images for an administrator. For each attribute in ``anyof``, an image must have any of the
    values. It must have all ``tags`` and ``properties``. ``order`` contains pairs of attribute and
    descending flag. The list begins after the image ``marker``.
    """

    viewer: Viewer
    visibility: str | None = None
    anyof: Mapping[str, tuple[str | bool, ...]] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    order: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None


def add(connection: Connection, image: StoredImage) -> None:
    """Create an image, or raise :class:`Duplicate` if the uuid is used."""
    with sql.translate_rejection(Duplicate(f"Image ID {image.uuid} already exists!")):
        add_many(connection, [image])


def add_many(connection: Connection, new: Sequence[StoredImage]) -> None:
    """Create images, whose uuids must be unused."""
    sql.insert_rows(connection, images, [_build_values(image, int) for image in new])
    ids = sql.map_ids(connection, _IMAGES.uuid, [image.uuid for image in new])
    numbered = [(ids[image.uuid], image) for image in new]
    _add_details(
        connection,
        [(number, *item) for number, image in numbered for item in image.properties.items()],
        [(number, tag) for number, image in numbered for tag in image.tags],
    )


def _add_details(
    connection: Connection,
    properties: Iterable[tuple[int, str, str]],
    tags: Iterable[tuple[int, str]],
) -> None:
    rows: list[dict[str, Any]] = [
        {"image_id": number, "name": name, "value": value} for number, name, value in properties
    ]
    sql.insert_rows(connection, image_properties, rows)
    rows = [{"image_id": number, "tag": tag} for number, tag in sorted(tags)]
    sql.insert_rows(connection, image_tags, rows)


def find_by_uuid(connection: Connection, uuid: str, *, lock: bool = False) -> StoredImage | None:
    """Return the image with this uuid, optionally locked, or None."""
    query = select(images).where(_IMAGES.uuid == uuid)
    rows = connection.execute(query.with_for_update() if lock else query).all()
    if lock and rows:
        make_lock_visible(connection, _IMAGES.protected, _IMAGES.uuid == uuid)
    return next(iter(_load(connection, rows)), None)


def list_by_name_or_uuid(connection: Connection, name_or_uuid: str) -> tuple[StoredImage, ...]:
    """Return the image with this uuid, else all with this name, by uuid."""
    # Stored uuids are in lower case.
    uuid = name_or_uuid.lower()
    either = sa.or_(_IMAGES.uuid == uuid, _IMAGES.name == name_or_uuid)
    rows = connection.execute(select(images).where(either).order_by(_IMAGES.uuid)).all()
    return _load(connection, [row for row in rows if row.uuid == uuid] or rows)


def list_images(connection: Connection) -> tuple[StoredImage, ...]:
    """Return all images, sorted by uuid."""
    return _load(connection, connection.execute(select(images).order_by(_IMAGES.uuid)).all())


def list_names(connection: Connection) -> tuple[str, ...]:
    """Return the names of all images that have a name."""
    return tuple(connection.scalars(select(_IMAGES.name).where(_IMAGES.name.is_not(None))))


def _load(connection: Connection, rows: Sequence[Row[Any]]) -> tuple[StoredImage, ...]:
    ids = [row.id for row in rows]
    query = select(image_properties).order_by(_PROPERTIES.name)
    properties = nest_rows(sql.select_in_batches(connection, query, _PROPERTIES.image_id, ids))
    tags = group_rows(sql.select_in_batches(connection, select(image_tags), _TAGS.image_id, ids))
    return tuple(
        StoredImage(
            **_build_values(row, bool),
            id=row.id,
            tags=frozenset(tags.get(row.id, ())),
            properties=properties.get(row.id, {}),
        )
        for row in rows
    )


def change(connection: Connection, old: StoredImage, new: StoredImage) -> None:
    """Update an image from ``old``, which the caller has locked, to ``new``."""
    image_id = _get_id(old)
    connection.execute(update(images).where(_IMAGES.id == image_id).values(_build_values(new, int)))
    old_properties, new_properties = old.properties.items(), new.properties.items()
    if removed := {name for name, _ in old_properties - new_properties}:
        rows = delete(image_properties).where(_PROPERTIES.image_id == image_id)
        connection.execute(rows.where(_PROPERTIES.name.in_(removed)))
    if old.tags - new.tags:
        rows = delete(image_tags).where(_TAGS.image_id == image_id)
        connection.execute(rows.where(_TAGS.tag.in_(old.tags - new.tags)))
    added = [(image_id, *item) for item in new_properties if item not in old_properties]
    _add_details(connection, added, [(image_id, tag) for tag in new.tags - old.tags])


def remove(connection: Connection, image: StoredImage) -> None:
    """Delete an image that the caller has locked, with properties and tags."""
    image_id = _get_id(image)
    for table in (image_properties, image_tags):
        connection.execute(delete(table).where(table.c.image_id == image_id))
    connection.execute(delete(images).where(_IMAGES.id == image_id))


def _get_id(image: StoredImage) -> int:
    if image.id is None:
        raise ValueError(f"Image {image.uuid} was not read from the database")
    return image.id


def _build_values(source: Row[Any] | StoredImage, flag: type[int]) -> dict[str, Any]:
    values = {name: getattr(source, name) for name in _COLUMNS}
    return values | {name: flag(values[name]) for name in _FLAGS}


def search(connection: Connection, filters: ImageSearch) -> tuple[tuple[StoredImage, ...], bool]:
    """Return the matching images in order, and whether further images follow.

    A page may end before its limit, at ``MAX_IMAGE_PAGE_CHARACTERS``. Raises :class:`Invalid` if
    the marker is not an image that the viewer may see.
    """
    order = [(_get_column(key), descends) for key, descends in filters.order]
    all_visible = ImageSearch(viewer=filters.viewer, visibility="all")
    is_marker = and_(_IMAGES.uuid == filters.marker, _is_visible(all_visible))
    limit = filters.limit
    is_small = limit is not None and limit <= _MAX_UNMEASURED
    length = sa.literal(0) if is_small else _build_size(connection)
    query = sql.select_page(
        connection,
        select(images, length.label("length")).where(*_build_conditions(filters)),
        [
            (sa.func.coalesce(key, _NULLS[key.name]) if key.name in _NULLS else key, descends)
            for key, descends in order
        ],
        # One row more than the page shows whether the list continues.
        limit=None if limit is None else limit + 1,
        marked=None if filters.marker is None else is_marker,
        missing=f"Invalid marker: image {filters.marker} could not be found",
    )
    rows = connection.execute(query).all()
    lengths = accumulate(int(row.length) for row in rows)
    fitting = 1 + sum(length < MAX_IMAGE_PAGE_CHARACTERS for length in lengths)
    page = rows[: fitting if limit is None else min(fitting, limit)]
    return _load(connection, page), len(page) < len(rows)


def _build_size(connection: Connection) -> ColumnElement[int]:
    """Build the size of properties and tags: bytes on PostgreSQL, or LENGTH."""
    # PostgreSQL reads a long text to count its characters, but not to count its bytes.
    length = sa.func.octet_length if sql.is_postgresql(connection) else sa.func.length
    properties = select(sa.func.sum(length(_PROPERTIES.name) + length(_PROPERTIES.value)))
    tags = select(sa.func.sum(length(_TAGS.tag)))
    sums = (
        properties.where(_PROPERTIES.image_id == _IMAGES.id),
        tags.where(_TAGS.image_id == _IMAGES.id),
    )
    properties_size, tags_size = (
        sa.func.coalesce(part.correlate(images).scalar_subquery(), 0) for part in sums
    )
    return properties_size + tags_size


def _build_conditions(filters: ImageSearch) -> list[ColumnElement[bool]]:
    return [
        _is_visible(filters),
        # Booleans are stored as integers.
        *(
            _get_column(name).in_([int(v) if isinstance(v, bool) else v for v in values])
            for name, values in filters.anyof.items()
        ),
        *_with_all(_TAGS.image_id, _TAGS.tag, filters.tags),
        *_with_all(
            _PROPERTIES.image_id,
            sa.tuple_(_PROPERTIES.name, _PROPERTIES.value),
            filters.properties.items(),
        ),
    ]


def _with_all(
    image_id: ColumnElement[int], key: ColumnElement[Any], keys: Collection[Any]
) -> list[ColumnElement[bool]]:
    """Build the conditions that an image has all keys.

    Keys are unique per image, so counting is enough. With a condition per key, PostgreSQL plans
    the joins of 200 keys for half a minute.
    """
    if not keys:
        return []
    matching = select(image_id).where(key.in_(sorted(keys))).group_by(image_id)
    return [_IMAGES.id.in_(matching.having(sa.func.count() == len(keys)))]


def _is_visible(filters: ImageSearch) -> ColumnElement[bool]:
    viewer, visibility = filters.viewer, filters.visibility
    has_visibility = sa.true() if visibility in {None, "all"} else _IMAGES.visibility == visibility
    if viewer.is_admin:
        return has_visibility
    visibilities = [PUBLIC] if visibility is None else [PUBLIC, COMMUNITY]
    is_allowed = sa.or_(_IMAGES.owner == viewer.project_id, _IMAGES.visibility.in_(visibilities))
    return and_(is_allowed, has_visibility)


def _get_column(attribute: str) -> ColumnElement[Any]:
    return _IMAGES["uuid" if attribute == "id" else attribute]
