# SPDX-License-Identifier: Apache-2.0
"""Changes of flavors and images by the rules of their APIs.

Each function works within the caller's transaction. A change of a flavor first increments the
change counter of flavors, whose row lock serializes writers: two writers cannot use the same name.
A change of an image first locks the image's row, so that concurrent patches are applied in turn.

Sources: "Flavors" of the compute API reference, "Images", "Image tags" and "Update image" of the
image API reference, and glance's specification "Image API v2 HTTP PATCH media types".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Duplicate, Forbidden, Invalid, LimitExceeded, NotFound
from placement_sched.limits import (
    MAX_IMAGE_PROPERTIES,
    MAX_IMAGE_PROPERTY_CHARACTERS,
    MAX_IMAGE_TAGS,
)
from placement_sched.model import image as image_model
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.schemas import parts
from placement_sched.store import change_counters
from placement_sched.store import images as image_store
from placement_sched.store.compute import flavors as flavor_store

#: Attributes that an owner may set, in addition to properties.
SETTABLE = frozenset({*parts.IMAGE_FIELDS, "tags"} - {"status"})
#: Attributes that only the service sets.
_READ_ONLY = frozenset((
    "id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value",
    "created_at", "updated_at", "direct_url", "self", "file", "schema", "stores",
))  # fmt: skip
#: Names that glance reserves and properties may not have. The prefix ``os_glance`` is reserved too.
_RESERVED = frozenset({"location", "locations", "deleted", "deleted_at"})
#: Attributes that cannot change once an image has data.
_DATA_FORMATS = frozenset({"disk_format", "container_format"})
#: Visibilities that need a permission.
_SHARED_VISIBILITIES = frozenset({image_model.PUBLIC, image_model.COMMUNITY})


def get_flavor(connection: Connection, flavorid: str, project_id: str | None = None) -> Flavor:
    """Return a flavor that ``project_id`` (None: any) may see, or NotFound."""
    flavor = flavor_store.find_by_flavorid(connection, flavorid)
    if flavor is None or not (
        project_id is None
        or flavor.is_public
        or project_id in flavor_store.list_projects(connection, _get_row_id(flavor))
    ):
        raise NotFound(f"Flavor {flavorid} could not be found.")
    return flavor


def create_flavor(connection: Connection, flavor: Flavor, now: datetime) -> Flavor:
    """Store a flavor, or raise :class:`Duplicate` for its id or name."""
    change_counters.bump(connection, flavor_store.SUBJECT)
    flavorid = str(flavor.flavorid)
    if flavor_store.find_by_flavorid(connection, flavorid) is not None:
        raise Duplicate(f"Flavor with ID {flavorid} already exists.")
    if flavor_store.find_flavorid(connection, flavor.name) is not None:
        raise Duplicate(f"Flavor with name {flavor.name} already exists.")
    flavor_store.add_many(connection, [flavor], now)
    return get_flavor(connection, flavorid)


def describe_flavor(
    connection: Connection, flavorid: str, text: str | None, now: datetime
) -> Flavor:
    """Change the description of a flavor, or raise :class:`NotFound`."""
    row_id = _lock_flavor(connection, flavorid)
    flavor_store.set_description(connection, row_id, text, now)
    return get_flavor(connection, flavorid)


def delete_flavor(connection: Connection, flavorid: str) -> None:
    """Delete a flavor, but not copies in instances, or raise NotFound."""
    flavor_store.remove(connection, _lock_flavor(connection, flavorid))


def set_extra_specs(
    connection: Connection, flavorid: str, changes: Mapping[str, str], now: datetime
) -> None:
    """Add or replace extra specs of a flavor, or raise :class:`NotFound`."""
    flavor_store.set_extra_specs(connection, _lock_flavor(connection, flavorid), changes, now)


def remove_extra_spec(connection: Connection, flavorid: str, key: str) -> None:
    """Delete an extra spec of a flavor, or raise :class:`NotFound`."""
    row_id = _lock_flavor(connection, flavorid)
    get_extra_spec(get_flavor(connection, flavorid), key)
    flavor_store.remove_extra_spec(connection, row_id, key)


def get_extra_spec(flavor: Flavor, key: str) -> str:
    """Return the value of an extra spec, or raise :class:`NotFound`."""
    if key not in flavor.extra_specs:
        raise NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def list_flavor_projects(connection: Connection, flavorid: str) -> tuple[str, ...]:
    """Return the projects of a private flavor, or raise :class:`NotFound`."""
    flavor = get_flavor(connection, flavorid)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return flavor_store.list_projects(connection, _get_row_id(flavor))


def add_flavor_access(
    connection: Connection, flavorid: str, project_id: str, now: datetime, *, public: bool
) -> tuple[str, ...]:
    """Give a project access to a flavor, and return all its projects.

    Raises :class:`NotFound`, and :class:`Conflict` if the project has access already, or, without
    ``public``, if the flavor is public.
    """
    row_id = _lock_flavor(connection, flavorid)
    if not public and get_flavor(connection, flavorid).is_public:
        raise Conflict("Can not add access to a public flavor.")
    if project_id in flavor_store.list_projects(connection, row_id):
        raise Conflict(
            f"Flavor access already exists for flavor {flavorid} and project {project_id} "
            "combination."
        )
    flavor_store.add_project(connection, row_id, project_id, now)
    return flavor_store.list_projects(connection, row_id)


def remove_flavor_access(connection: Connection, flavorid: str, project_id: str) -> tuple[str, ...]:
    """Withdraw access, and return the projects, or raise :class:`NotFound`."""
    row_id = _lock_flavor(connection, flavorid)
    if not flavor_store.remove_project(connection, row_id, project_id):
        raise NotFound(f"Flavor access not found for {flavorid} / {project_id} combination.")
    return flavor_store.list_projects(connection, row_id)


def _lock_flavor(connection: Connection, flavorid: str) -> int:
    change_counters.bump(connection, flavor_store.SUBJECT)
    return _get_row_id(get_flavor(connection, flavorid))


def _get_row_id(flavor: Flavor) -> int:
    return int(flavor.id or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChange:
    """A change of an attribute by a patch: add, replace or remove."""

    operation: str
    name: str
    value: Any = None


def check_settable(name: str) -> None:
    """Raise :class:`Forbidden` for a name that is read-only or reserved."""
    if name in _READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name in _RESERVED or name.startswith("os_glance"):
        raise Forbidden(f"Attribute '{name}' is reserved.")


def check_image_allowed(before: StoredImage | None, after: StoredImage, viewer: Viewer) -> None:
    """Check that the viewer may change an image to ``after``, or create it.

    Raises :class:`Forbidden` for an owner or a visibility that the viewer may not set, and
    :class:`LimitExceeded` for too many properties or tags.
    """
    if after.owner != (before.owner if before else viewer.project_id) and not viewer.is_admin:
        raise Forbidden("Only an administrator may give an image to another owner.")
    is_shared = after.visibility in _SHARED_VISIBILITIES - viewer.settable_visibilities
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


def _apply_change(image: StoredImage, change: ImageChange) -> StoredImage:
    name, value = change.name, change.value
    check_settable(name)
    exists = name in SETTABLE or name in image.properties
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


def get_image(
    connection: Connection, uuid: str, viewer: Viewer, *, lock: bool = False
) -> StoredImage:
    """Return an image that the viewer may see, or raise :class:`NotFound`."""
    image = image_store.find_by_uuid(connection, uuid, lock=lock)
    if image is None or not image.is_open_to(viewer):
        raise NotFound(f"No image found with ID {uuid}")
    return image


def lock_own_image(connection: Connection, uuid: str, viewer: Viewer) -> StoredImage:
    """Lock and return an image, or raise Forbidden for another owner's."""
    image = get_image(connection, uuid, viewer, lock=True)
    if not image.is_owned_by(viewer):
        raise Forbidden(f"You are not permitted to modify image {uuid}: it is another project's.")
    return image


def create_image(connection: Connection, image: StoredImage, viewer: Viewer) -> StoredImage:
    """Create an image.

    Raises :class:`Duplicate`, and the errors of :func:`check_image_allowed`.
    """
    check_image_allowed(None, image, viewer)
    image_store.add(connection, image)
    return get_image(connection, image.uuid, viewer)


def update_image(
    connection: Connection, uuid: str, viewer: Viewer, changes: Iterable[ImageChange], now: datetime
) -> StoredImage:
    """Apply all operations of a patch to an image, and return the image.

    Raises :class:`NotFound`, :class:`Forbidden` for an attribute that the viewer may not set,
    :class:`Conflict` for a missing or already existing property, and :class:`LimitExceeded`.
    """
    image = lock_own_image(connection, uuid, viewer)
    return _change(connection, image, reduce(_apply_change, changes, image), viewer, now)


def _change(
    connection: Connection, image: StoredImage, after: StoredImage, viewer: Viewer, now: datetime
) -> StoredImage:
    check_image_allowed(image, after, viewer)
    after = replace(after, updated_at=now)
    image_store.change(connection, image, after)
    return after


def delete_image(connection: Connection, uuid: str, viewer: Viewer) -> None:
    """Delete an image, or raise :class:`Forbidden` if it is protected."""
    image = lock_own_image(connection, uuid, viewer)
    if image.protected:
        raise Forbidden(f"Image {uuid} is protected and cannot be deleted.")
    image_store.remove(connection, image)


def add_image_tag(
    connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime
) -> None:
    """Add a tag to an image, or raise :class:`LimitExceeded`."""
    image = lock_own_image(connection, uuid, viewer)
    _change(connection, image, replace(image, tags=image.tags | {tag}), viewer, now)


def remove_image_tag(
    connection: Connection, uuid: str, viewer: Viewer, tag: str, now: datetime
) -> None:
    """Remove a tag from an image, or raise :class:`NotFound`."""
    image = lock_own_image(connection, uuid, viewer)
    if tag not in image.tags:
        raise NotFound(f"Image {uuid} has no tag {tag}.")
    image_store.change(connection, image, replace(image, tags=image.tags - {tag}, updated_at=now))


def activate_empty_image(connection: Connection, uuid: str, viewer: Viewer, now: datetime) -> None:
    """Activate a queued image after an upload of zero bytes.

    Raises :class:`Conflict` for an image that is not queued, and :class:`Invalid` if it has no disk
    format or no container format.
    """
    image = lock_own_image(connection, uuid, viewer)
    if image.status != image_model.QUEUED:
        raise Conflict(
            f"Image {uuid} is {image.status}: data can be uploaded only to a queued image."
        )
    if missing := sorted(name for name in _DATA_FORMATS if getattr(image, name) is None):
        raise Invalid(f"Set {' and '.join(missing)} of image {uuid} before uploading its data.")
    image_store.change(
        connection, image, replace(image, status=image_model.ACTIVE, size=0, updated_at=now)
    )


def set_image_status(
    connection: Connection, uuid: str, viewer: Viewer, status: str, now: datetime
) -> None:
    """Activate or deactivate an image, or raise Forbidden if it is queued."""
    image = lock_own_image(connection, uuid, viewer)
    if image.status not in {image_model.ACTIVE, image_model.DEACTIVATED}:
        verb = "deactivate" if status == image_model.DEACTIVATED else "reactivate"
        raise Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    if image.status != status:
        image_store.change(connection, image, replace(image, status=status, updated_at=now))
