"""What a request or a record only names: looked up among the flavors, images and groups stored."""

from collections.abc import Mapping
from typing import Any

from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model import shape
from placement_sched.model.server_group import ServerGroup
from placement_sched.store import flavors, images, server_groups

Document = Mapping[str, Any]

_GROUP = "$.request_spec.instance_group"
_HINT = "$.request_spec.scheduler_hints.group"


def names_some(document: Document) -> bool:
    """Return whether a request names what has to be looked up."""
    named = any(isinstance(document.get(noun), str) for noun in ("flavor", "image"))
    return named or names_group(document)


def whole(connection: Connection, document: Document) -> Document:
    """Return the request with what it names in place of the name.

    An id goes before a name. Raises :class:`NotFound` where there is no such flavor or image, and
    :class:`Invalid` where there is no such server group, or several of that name.
    """
    found = dict(document)
    if isinstance(found.get("flavor"), str):
        found["flavor"] = _flavor(connection, found["flavor"])
    if isinstance(found.get("image"), str):
        found["image"] = _image(connection, found["image"])
    if isinstance(found.get("instance_group"), str):
        found["instance_group"] = _group(connection, found["instance_group"])
    elif _hints_group(found):
        found["instance_group"] = _hinted_group(connection, found)
    return found


def names_group(document: Document) -> bool:
    """Return whether a request names a stored server group, whose members come and go."""
    return isinstance(document.get("instance_group"), str) or _hints_group(document)


def _hints_group(document: Document) -> bool:
    """Return whether the hint ``group`` stands for the server group that is not given."""
    if document.get("instance_group") is not None:
        return False
    return bool((document.get("scheduler_hints") or {}).get("group"))


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


def _group(connection: Connection, uuid: str) -> Document:
    found = server_groups.by_uuid(connection, shape.read(shape.uuid, uuid, _GROUP))
    if found is None:
        raise Invalid(f"There is no server group {uuid} (at {_GROUP})")
    return server_groups.placed(connection, found).as_document()


def _hinted_group(connection: Connection, document: Document) -> Document:
    """Return the server group that the hint names: by its uuid, else by its name in the project."""
    given = document["scheduler_hints"]["group"]
    named = [given] if isinstance(given, str) else given
    if len(named) != 1 or not isinstance(named[0], str):
        raise Invalid(f"one server group is expected, got {len(named)} (at {_HINT})")
    found = _called(connection, named[0], document.get("project_id"))
    if not found:
        raise Invalid(f"There is no server group {named[0]!r} (at {_HINT})")
    if len(found) > 1:
        uuids = ", ".join(str(group.uuid) for group in found[:5])
        raise Invalid(
            f"{len(found)} server groups of the project are named {named[0]!r}, "
            f"give the id of one: {uuids} (at {_HINT})"
        )
    return server_groups.placed(connection, found[0]).as_document()


def _called(connection: Connection, named: str, project_id: str | None) -> tuple[ServerGroup, ...]:
    try:
        found = server_groups.by_uuid(connection, shape.read(shape.uuid, named))
    except Invalid:
        found = None
    return (found,) if found else server_groups.called(connection, named, project_id)
