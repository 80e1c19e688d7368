"""Changes of one image, as the image API lets its owner make them.

Sources: Image API reference, "Update image"; glance's specification "Image API v2 HTTP PATCH
media types".
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from placement_sched.errors import Conflict, Forbidden, TooMuch
from placement_sched.model.stored_image import (
    COMMUNITY,
    MOST_PROPERTIES,
    MOST_TAGS,
    PUBLIC,
    QUEUED,
    StoredImage,
    Viewer,
)

#: What an owner may set, beside properties of any other name.
SETTABLE = frozenset(
    {
        "name",
        "visibility",
        "owner",
        "protected",
        "os_hidden",
        "disk_format",
        "container_format",
        "min_ram",
        "min_disk",
        "tags",
    }
)
#: What the service sets, and nobody else.
READ_ONLY = frozenset(
    {
        "id",
        "status",
        "size",
        "virtual_size",
        "checksum",
        "os_hash_algo",
        "os_hash_value",
        "created_at",
        "updated_at",
        "direct_url",
        "self",
        "file",
        "schema",
        "stores",
    }
)
#: Names that glance keeps to itself, so that nobody may give them to a property.
RESERVED = frozenset({"location", "locations", "deleted", "deleted_at"})
RESERVED_PREFIX = "os_glance"

#: What is settled once an image has data.
_OF_DATA = frozenset({"disk_format", "container_format"})
#: Visibilities that not every owner may give.
_TO_ALL = frozenset({PUBLIC, COMMUNITY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One operation of a patch: ``add``, ``replace`` or ``remove`` the attribute ``name``.

    ``anew`` is an ``add`` that there may be nothing of that name for, as in an early draft.
    """

    operation: str
    name: str
    value: Any = None
    anew: bool = False


def check_settable(name: str) -> None:
    """Raise :class:`Forbidden` for a name that is nobody's to set or to remove."""
    if name in READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name in RESERVED or name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved.")


def changed(image: StoredImage, changes: Iterable[Change], viewer: Viewer) -> StoredImage:
    """Return the image after all the changes.

    Raises :class:`Forbidden` for what the viewer may not set, :class:`Conflict` for what is not
    there (or is there already), and :class:`TooMuch`.
    """
    after = reduce(_after, changes, image)
    check_allowed(image, after, viewer)
    return after


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
    for noun, has, most in (
        ("properties", len(after.properties), MOST_PROPERTIES),
        ("tags", len(after.tags), MOST_TAGS),
    ):
        if has > most:
            raise TooMuch(f"The limit has been exceeded: {has} image {noun}, where {most} may be.")


def _after(image: StoredImage, change: Change) -> StoredImage:
    """Return the image after one change."""
    name = change.name
    check_settable(name)
    there = name in SETTABLE or name in image.properties
    if change.operation == "add" and there and change.anew:
        raise Conflict(f"Property {name} already present.")
    if change.operation != "add" and not there:
        raise Conflict(f"Property {name} does not exist.")
    if name not in SETTABLE:
        kept = {key: value for key, value in image.properties.items() if key != name}
        # Of some properties glance lets null be given, which is as if there were none.
        given = {} if change.value is None else {name: change.value}
        return replace(image, properties={**kept, **given})
    if change.operation == "remove":
        raise Forbidden(f"Property {name} may not be removed.")
    if name in _OF_DATA and image.status != QUEUED:
        raise Forbidden(f"Attribute {name} can be only replaced for a queued image.")
    value: Any = frozenset(change.value) if name == "tags" else change.value
    return replace(image, **{name: value})
