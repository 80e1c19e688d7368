"""Routes of images and their tags (Image API reference, "Images"), and JSON patches.

Source of patches and their two media types: glance's specification "Image API v2 HTTP PATCH media
types": operations add, replace and remove; a path is one name, in which ``~0`` is ``~`` and ``~1``
is ``/``.
"""

import re
from typing import Any
from uuid import uuid4

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.image.conventions import (
    ATTRIBUTES,
    change,
    changed,
    image_document,
    viewer_of,
)
from placement_sched.api.image.listing import links_of, question_of
from placement_sched.api.schema import Schema, Schemas
from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.image import ACTIVE, DEACTIVATED, StoredImage
from placement_sched.operations import images
from placement_sched.operations.images import SETTABLE, ImageChange, check_settable
from placement_sched.schemas.fields import PROPERTY, PROPERTY_NAME, TAG
from placement_sched.store.images import search

blueprint = Blueprint("images", __name__)

_ALL = "/v2/images"
_ONE = f"{_ALL}/<image_id>"

_IMAGE: Json = {
    "type": "object",
    "properties": {**ATTRIBUTES, "tags": {"type": "array", "items": TAG}},
    "propertyNames": PROPERTY_NAME,
    "additionalProperties": PROPERTY,
}
CREATE = Schemas(_IMAGE)
#: Each operation copies what the image has; an image has no more than some hundred of anything.
UPDATE = Schemas({"type": "array", "items": {"type": "object"}, "maxItems": 1000})
_GIVEN = Schema(_IMAGE)
_TAG = Schema(TAG)

#: Of RFC 6902: ``{"op": "add", "path": "/name", "value": ...}``.
CURRENT = "application/openstack-images-v2.1-json-patch"
#: Of draft 4 of it: ``{"add": "/name", "value": ...}``.
DRAFT = "application/openstack-images-v2.0-json-patch"
_OPERATIONS = ("add", "replace", "remove")
_POINTER = re.compile(r"/((?:[^~/]|~[01])+)", re.DOTALL)


@blueprint.get(_ALL, policy="get_images")
def index(call: Call) -> Answer:
    """List images."""
    page, more = call.read(search, question_of(call, viewer_of(call)))
    last = page[-1].uuid if page and more else None
    shown = [image_document(image) for image in page]
    body = {"images": shown, **links_of(call, last), "schema": "/v2/schemas/images"}
    return Answer(body=body)


@blueprint.post(
    _ALL, policy="add_image", body=CREATE, success=(201,), refusals=(409,), located=True
)
def create(call: Call) -> Answer:
    """Create an image."""
    made = call.write(images.create, _image(call.body, call), viewer_of(call))
    headers = {"Location": f"{call.url}/v2/images/{made.uuid}"}
    return Answer(status=201, body=image_document(made), headers=headers)


@blueprint.get(_ONE, policy="get_image")
def show(call: Call, image_id: str) -> Answer:
    """Return one image."""
    image = call.read(images.get, image_id.lower(), viewer_of(call))
    return Answer(body=image_document(image))


@blueprint.patch(
    _ONE, policy="modify_image", body=UPDATE, content_types=(CURRENT, DRAFT), refusals=(409,)
)
def update(call: Call, image_id: str) -> Answer:
    """Change an image by a JSON patch, all of it or nothing."""
    media_type, _, _ = (call.headers.get("Content-Type") or "").partition(";")
    draft = media_type.strip().lower() == DRAFT
    changes = [
        _change(operation, f"$[{number}]", draft=draft)
        for number, operation in enumerate(call.body)
    ]
    image = change(call, images.update, image_id, changes, call.now())
    return Answer(body=image_document(image))


@blueprint.delete(_ONE, policy="delete_image", success=(204,))
def delete(call: Call, image_id: str) -> Answer:
    """Delete an image that is not protected."""
    return changed(call, images.delete, image_id)


@blueprint.post(f"{_ONE}/actions/deactivate", policy="deactivate", success=(204,))
def deactivate(call: Call, image_id: str) -> Answer:
    """Make an image's data unavailable."""
    return changed(call, images.set_status, image_id, DEACTIVATED, call.now())


@blueprint.post(f"{_ONE}/actions/reactivate", policy="reactivate", success=(204,))
def reactivate(call: Call, image_id: str) -> Answer:
    """Make an image's data available again."""
    return changed(call, images.set_status, image_id, ACTIVE, call.now())


@blueprint.put(f"{_ONE}/tags/<tag>", policy="modify_image", success=(204,), refusals=(413,))
def add_tag(call: Call, image_id: str, tag: str) -> Answer:
    """Tag an image."""
    _TAG.check(tag, "Invalid tag")
    return changed(call, images.add_tag, image_id, tag, call.now())


@blueprint.delete(f"{_ONE}/tags/<tag>", policy="modify_image", success=(204,))
def remove_tag(call: Call, image_id: str, tag: str) -> Answer:
    """Remove a tag from an image."""
    return changed(call, images.remove_tag, image_id, tag, call.now())


def _image(body: dict[str, Any], call: Call) -> StoredImage:
    """Return the image of a body; raises :class:`Forbidden` for read-only attributes."""
    more = {name: value for name, value in body.items() if name != "id"}  # chosen, never changed
    for name in more:
        check_settable(name)
    given = {name: more.pop(name) for name in SETTABLE & more.keys()}
    if "owner" not in given:
        given["owner"] = call.identity.owning("project")
    given["tags"] = frozenset(given.get("tags", ()))
    return StoredImage(
        uuid=body.get("id", str(uuid4())).lower(),
        properties={name: value for name, value in more.items() if value is not None},
        created_at=call.now(),
        updated_at=call.now(),
        **given,
    )


def _change(operation: dict[str, Any], place: str, *, draft: bool) -> ImageChange:
    """Return the change of an operation; raises :class:`Invalid` and, for a name, ``Forbidden``."""
    verb, pointer = (_of_draft if draft else _of_rfc)(operation, place)
    found = _POINTER.fullmatch(pointer) if isinstance(pointer, str) else None
    if found is None:
        raise Invalid(
            f'Invalid JSON pointer for this resource: {pointer!r} is not "/" and one name, '
            f"with ~0 for ~ and ~1 for / (at {place})."
        )
    name = found[1].replace("~1", "/").replace("~0", "~")
    check_settable(name)
    if verb == "remove":
        return ImageChange(operation=verb, name=name)
    if "value" not in operation:
        raise Invalid(f'Operation "{verb}" requires a member named "value" (at {place}).')
    value = operation["value"]
    _GIVEN.check({name: value}, f"Invalid value of {name} in operation {place}")
    return ImageChange(operation=verb, name=name, value=value, must_be_new=draft)


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
