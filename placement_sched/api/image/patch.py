"""Patches of images: both media types in, changes out.

Source: glance's specification "Image API v2 HTTP PATCH media types": operations add, replace and
remove; a path is one name, in which ``~0`` is ``~`` and ``~1`` is ``/``.
"""

import re
from collections.abc import Iterable
from typing import Any

from placement_sched.api.image.schemas.images import ATTRIBUTES
from placement_sched.api.schema import Schema
from placement_sched.errors import Invalid
from placement_sched.model.image_change import Change, check_settable

#: Of RFC 6902: ``{"op": "add", "path": "/name", "value": ...}``.
CURRENT = "application/openstack-images-v2.1-json-patch"
#: Of draft 4 of it: ``{"add": "/name", "value": ...}``.
DRAFT = "application/openstack-images-v2.0-json-patch"

_OPERATIONS = ("add", "replace", "remove")
_POINTER = re.compile(r"/((?:[^~/]|~[01])+)", re.DOTALL)


def changes_from(operations: Iterable[Any], media_type: str) -> tuple[Change, ...]:
    """Return the changes that the body of a request asks for, which is a list of objects.

    Raises :class:`Invalid` with the place of the fault, and :class:`Forbidden` for attributes
    that nobody may set.
    """
    return tuple(
        _change(operation, f"$[{number}]", draft=media_type == DRAFT)
        for number, operation in enumerate(operations)
    )


def _change(operation: dict[str, Any], place: str, *, draft: bool) -> Change:
    verb, pointer = (_of_draft if draft else _of_rfc)(operation, place)
    name = _name(pointer, place)
    check_settable(name)
    if verb == "remove":
        return Change(operation=verb, name=name)
    if "value" not in operation:
        raise Invalid(f'Operation "{verb}" requires a member named "value" (at {place}).')
    value = operation["value"]
    _ATTRIBUTES.check({name: value}, f"Invalid value of {name} in operation {place}")
    return Change(operation=verb, name=name, value=value, anew=draft)


def _of_rfc(operation: dict[str, Any], place: str) -> tuple[str, Any]:
    verb = operation.get("op")
    if verb not in _OPERATIONS:
        raise Invalid(
            f'Operations must be one of {", ".join(_OPERATIONS)}, as the member "op" (at {place}).'
        )
    if "path" not in operation:
        raise Invalid(f'Unable to find "path" in the operation (at {place}).')
    return verb, operation["path"]


def _of_draft(operation: dict[str, Any], place: str) -> tuple[str, Any]:
    verbs = [verb for verb in _OPERATIONS if verb in operation]
    if len(verbs) != 1:
        raise Invalid(
            f"Operation objects must contain exactly one member named {', '.join(_OPERATIONS)} "
            f"(at {place})."
        )
    return verbs[0], operation[verbs[0]]


def _name(pointer: Any, place: str) -> str:
    """Return the attribute that a restricted JSON pointer names."""
    found = _POINTER.fullmatch(pointer) if isinstance(pointer, str) else None
    if found is None:
        raise Invalid(
            f'Invalid JSON pointer for this resource: {pointer!r} is no "/" and one name, '
            f"in which ~0 is ~ and ~1 is / (at {place})."
        )
    return found[1].replace("~1", "/").replace("~0", "~")


_ATTRIBUTES = Schema(ATTRIBUTES)
