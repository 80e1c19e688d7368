"""Lists of images: those that a viewer may see and asks for, page by page."""

import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    exists,
    func,
    or_,
    select,
    true,
)

from placement_sched.db.tables import image_members, image_properties, image_tags, images
from placement_sched.errors import Invalid
from placement_sched.model.image_search import ImageSearch
from placement_sched.model.stored_image import COMMUNITY, PUBLIC, SHARED, StoredImage
from placement_sched.store.images import whole

_IMAGES = images.c

_OPERATORS: Mapping[str, Callable[..., ColumnElement[bool]]] = MappingProxyType(
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
#: Attributes that have another name than their columns.
_COLUMNS = MappingProxyType({"id": "uuid"})


def search(connection: Connection, question: ImageSearch) -> tuple[StoredImage, ...]:
    """Return the images that a question asks for, in its order.

    Raises :class:`Invalid` where its marker is none of the images that the viewer may see.
    """
    query = select(images).where(*_wanted(question))
    sorting = [(_sorted_by(key), key, descends) for key, descends in question.order]
    if question.marker is not None:
        query = query.where(_behind(_marker(connection, question), sorting))
    query = query.order_by(
        *(column.desc() if descends else column.asc() for column, _, descends in sorting)
    )
    if question.limit is not None:
        query = query.limit(question.limit)
    return whole(connection, connection.execute(query).all())


def _wanted(question: ImageSearch) -> list[ColumnElement[bool]]:
    """Return the conditions of a question, but for where it begins."""
    return [
        _shown(question),
        *(_column(name).in_(_kept(values)) for name, values in question.anyof.items()),
        *(
            _OPERATORS[bound.operator](_column(bound.attribute), bound.value)
            for bound in question.bounds
        ),
        *(
            exists().where(image_tags.c.image_id == _IMAGES.id, image_tags.c.tag == tag)
            for tag in sorted(question.tags)
        ),
        *(
            exists().where(
                image_properties.c.image_id == _IMAGES.id,
                image_properties.c.name == name,
                image_properties.c.value == value,
            )
            for name, value in question.properties.items()
        ),
    ]


def _shown(question: ImageSearch) -> ColumnElement[bool]:
    """Return whether an image belongs into the viewer's list."""
    viewer, visibility = question.viewer, question.visibility
    named = [] if visibility in {None, "all"} else [_IMAGES.visibility == visibility]
    if viewer.is_admin:
        return and_(*named) if named else true()
    shared = exists().where(
        image_members.c.image_id == _IMAGES.id, image_members.c.member == viewer.project_id
    )
    if question.member_status is not None:
        shared = shared.where(image_members.c.status == question.member_status)
    open_to_all = [PUBLIC] if visibility is None else [PUBLIC, COMMUNITY]
    mine = or_(
        _IMAGES.owner == viewer.project_id,
        _IMAGES.visibility.in_(open_to_all),
        and_(_IMAGES.visibility == SHARED, shared),
    )
    return and_(mine, *named)


def _kept(values: Iterable[Any]) -> list[Any]:
    """Return values as they are kept: what is true or false as a number."""
    return [int(value) if isinstance(value, bool) else value for value in values]


def _column(attribute: str) -> ColumnElement[Any]:
    return _IMAGES[_COLUMNS.get(attribute, attribute)]


def _sorted_by(attribute: str) -> ColumnElement[Any]:
    column = _column(attribute)
    return func.coalesce(column, _NULLS[attribute]) if attribute in _NULLS else column


def _marker(connection: Connection, question: ImageSearch) -> Row[Any]:
    """Return the row behind which a page begins."""
    everything = ImageSearch(viewer=question.viewer, visibility="all", member_status=None)
    query: Select[Any] = select(images).where(_IMAGES.uuid == question.marker, _shown(everything))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise Invalid(f"Invalid marker: image {question.marker} could not be found")
    return row


def _behind(row: Row[Any], sorting: list[tuple[ColumnElement[Any], str, bool]]) -> Any:
    """Return whether an image comes later than ``row`` in the order of the list."""
    later: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for column, key, descends in sorting:
        value = getattr(row, _COLUMNS.get(key, key))
        value = _NULLS.get(key) if value is None else value
        later.append(and_(*equal, column < value if descends else column > value))
        equal.append(column == value)
    return or_(*later)
