"""Flavors and images that a request or a record only names: looked up among those stored."""

from collections.abc import Mapping
from typing import Any

from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.store import flavors, images

Document = Mapping[str, Any]


def names_some(document: Document) -> bool:
    """Return whether a request names what has to be looked up."""
    return any(isinstance(document.get(noun), str) for noun in ("flavor", "image"))


def whole(connection: Connection, document: Document) -> Document:
    """Return the request with what it names in place of the name.

    An id goes before a name. Raises :class:`NotFound` where there is nothing of it, and
    :class:`Invalid` where several images have that name.
    """
    found = dict(document)
    if isinstance(found.get("flavor"), str):
        found["flavor"] = _flavor(connection, found["flavor"])
    if isinstance(found.get("image"), str):
        found["image"] = _image(connection, found["image"])
    return found


def flavor_for_record(connection: Connection, given: Document | str | None) -> Document | None:
    """Return a flavor as an instance's record keeps it: whole, where it is given so or stored.

    Of one that is not stored, and may have been once, the id is kept.
    """
    if not isinstance(given, str):
        return given
    found = flavors.by_flavorid_or_name(connection, given)
    return {"id": given} if found is None else found.as_document()


def _flavor(connection: Connection, named: str) -> Document:
    found = flavors.by_flavorid_or_name(connection, named)
    if found is None:
        raise NotFound(
            f"There is no stored flavor {named!r} (at $.request_spec.flavor)",
            code="scheduler.not_found",
        )
    return found.as_document()


def _image(connection: Connection, named: str) -> Document:
    found = images.called(connection, named)
    if not found:
        raise NotFound(
            f"There is no stored image {named!r} (at $.request_spec.image)",
            code="scheduler.not_found",
        )
    if len(found) > 1:
        uuids = ", ".join(image.uuid for image in found[:5])
        raise Invalid(
            f"{len(found)} images are named {named!r}, give the id of one: {uuids} "
            "(at $.request_spec.image)"
        )
    return found[0].as_request_image()
