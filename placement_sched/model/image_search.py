"""Which images a list is asked for, in which order, and from where on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from placement_sched.model.stored_image import ACCEPTED, Viewer

#: Attributes by which a list may be sorted.
SORT_KEYS = (
    "name",
    "status",
    "container_format",
    "disk_format",
    "size",
    "id",
    "created_at",
    "updated_at",
)

#: A list is in this order unless told otherwise; what else is equal goes by id.
NEWEST_FIRST = (("created_at", True), ("id", True))


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison that an attribute must pass: one of gt, gte, eq, neq, lt and lte."""

    attribute: str
    operator: str
    value: int | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSearch:
    """A question for images, of those that ``viewer`` may see.

    ``visibility`` None means what belongs into a list unasked: public images, the viewer's own,
    and those shared with it of which its ``member_status`` is the one given (None: any).
    ``anyof`` names values of attributes, one of which an image must have; ``tags`` and
    ``properties`` it must have all. ``order`` has attributes and whether each descends.
    The answer begins behind the image ``marker``.
    """

    viewer: Viewer
    visibility: str | None = None
    member_status: str | None = ACCEPTED
    anyof: Mapping[str, tuple[str | int | bool, ...]] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    order: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None
