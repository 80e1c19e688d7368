# SPDX-License-Identifier: Apache-2.0
"""Image API: versions, schemas, routes of image metadata, and errors.

Only metadata is stored: images have no data and no members, and cannot be imported. An image is
changed by a JSON patch (glance's specification "Image API v2 HTTP PATCH media types") with the
operations add, replace and remove. The path of an operation is "/" and a single name.
"""

import csv
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from placement_sched.api.paging import build_next_pairs
from placement_sched.api.request import HTML, TEXT, render_error_page
from placement_sched.api.routing import (
    Api,
    ApiCall,
    ApiConventions,
    ApiResponse,
    Blueprint,
    ErrorContext,
)
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Headers, Version
from placement_sched.errors import Error, Forbidden, Invalid, LimitExceeded, NotFound
from placement_sched.limits import MAX_IMAGE_OPERATIONS, MAX_IMAGES_PER_PAGE
from placement_sched.model import image as model
from placement_sched.model.document import Json
from placement_sched.model.image import ACTIVE, COMMUNITY, DEACTIVATED, PUBLIC, StoredImage, Viewer
from placement_sched.model.names import UUID
from placement_sched.operations import flavors_images
from placement_sched.operations.flavors_images import SETTABLE, ImageChange, check_settable
from placement_sched.schemas.formats import format_seconds, parse_boolean
from placement_sched.schemas.parts import (
    IMAGE_FIELDS,
    IMAGE_IDS,
    IMAGE_PROPERTY,
    IMAGE_PROPERTY_NAME,
    TAG,
)
from placement_sched.schemas.validation import Schema
from placement_sched.store.images import NEWEST_FIRST, SORT_KEYS, ImageSearch, search

_versions_blueprint = Blueprint("versions", __name__)

#: Newest version in the list of versions.
NEWEST = Version(2, 9)


@_versions_blueprint.get("/", public=True, success=(300,))
def choose(call: ApiCall) -> ApiResponse:
    """List the versions with status 300, as glance does at its root."""
    return ApiResponse(status=300, body=_build_versions(call))


@_versions_blueprint.get("/versions", public=True)
@_versions_blueprint.get("/versions/", public=True)
@_versions_blueprint.get("/v2", public=True)
@_versions_blueprint.get("/v2/", public=True)
def list_versions(call: ApiCall) -> ApiResponse:
    """List the versions (Image API reference, "List API versions")."""
    return ApiResponse(body=_build_versions(call))


def _build_versions(call: ApiCall) -> dict[str, Any]:
    link = {"rel": "self", "href": f"{call.url}/v2/"}
    return {
        "versions": [
            {
                "id": f"v2.{minor}",
                "status": "CURRENT" if minor == NEWEST.minor else "SUPPORTED",
                "links": [link],
            }
            for minor in range(NEWEST.minor, -1, -1)
        ]
    }


_schemas_blueprint = Blueprint("image_schemas", __name__)

_TEXT: Json = {"type": "string"}
_NULLABLE_TEXT: Json = {"type": ["null", "string"]}
#: Read-only attributes. Schemas allow them, so that setting them is answered with 403, not 400.
_READ_ONLY: Json = {
    "status": IMAGE_FIELDS["status"],
    **{name: {"type": ["null", "integer"]} for name in ("size", "virtual_size")},
    "checksum": {**_NULLABLE_TEXT, "maxLength": 32},
    "os_hash_algo": {**_NULLABLE_TEXT, "maxLength": 64},
    "os_hash_value": {**_NULLABLE_TEXT, "maxLength": 128},
    **dict.fromkeys(("created_at", "updated_at", "self", "file", "schema"), _TEXT),
}
#: Optional properties that glance's schema of an image defines.
_PROPERTIES: Json = {
    **dict.fromkeys(("architecture", "os_distro", "os_version", "instance_uuid"), _TEXT),
    **IMAGE_IDS,
}
_IMAGE: Json = {
    "type": "object",
    "properties": {
        "id": {**_TEXT, "pattern": UUID},
        **IMAGE_FIELDS,
        **{name: {**schema, "readOnly": True} for name, schema in _READ_ONLY.items()},
        **{name: {**schema, "is_base": False} for name, schema in _PROPERTIES.items()},
        "tags": {"type": "array", "items": TAG},
    },
    "propertyNames": IMAGE_PROPERTY_NAME,
    "additionalProperties": IMAGE_PROPERTY,
}
_IMAGE_SCHEMA: Json = {"name": "image", **_IMAGE}
_IMAGES_SCHEMA: Json = {
    "name": "images",
    "properties": {
        "images": {"type": "array", "items": _IMAGE_SCHEMA},
        **dict.fromkeys(("schema", "first", "next"), _TEXT),
    },
}


@_schemas_blueprint.get("/v2/schemas/image", policy="get_image")
def show_image_schema(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - every handler's
    """Return the schema of an image."""
    return ApiResponse(body=_IMAGE_SCHEMA)


@_schemas_blueprint.get("/v2/schemas/images", policy="get_image")
def show_images_schema(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - every handler's
    """Return the schema of a list of images."""
    return ApiResponse(body=_IMAGES_SCHEMA)


blueprint = Blueprint("images", __name__)
_COLLECTION_PATH = "/v2/images"
_ITEM_PATH = f"{_COLLECTION_PATH}/<image_id>"

#: The default page size (glance's default).
PAGE = 25

#: Parameters that are not filters. ``member_status`` is for shared images, which do not exist here.
_NO_FILTERS = frozenset({"limit", "marker", "sort", "sort_key", "sort_dir", "member_status"})
_VISIBILITIES = (*model.VISIBILITIES, "all")
_NUMBERS = ("size", "virtual_size", "min_ram", "min_disk")
_NOT_FILTERED = frozenset((
    "self", "file", "schema", "first", "next", "locations", "direct_url", "tags", "created_at",
    "updated_at", *(f"{name}{end}" for name in _NUMBERS for end in ("", "_min", "_max")),
))  # fmt: skip
#: Attributes whose filter may have several values (``in:a,b``).
_SEVERAL = ("id", "name", "status", "container_format", "disk_format")
CREATE = Schemas(_IMAGE)
UPDATE = Schemas({"type": "array", "items": {"type": "object"}, "maxItems": MAX_IMAGE_OPERATIONS})
_ATTRIBUTE = Schema(_IMAGE)
_TAG = Schema(TAG)

#: Media type of JSON patches: ``[{"op": "add", "path": "/name", "value": ...}]``.
_PATCH = "application/openstack-images-v2.1-json-patch"
_OPERATIONS = ("add", "replace", "remove")
_POINTER = re.compile(r"/((?:[^~/]|~[01])+)", re.DOTALL)


def _read_search(call: ApiCall, viewer: model.Viewer) -> ImageSearch:
    filters = {name: value for name, value in call.query if name not in _NO_FILTERS | {"tag"}}
    if invalid := sorted(_NOT_FILTERED & filters.keys()):
        raise Invalid(f"Images cannot be filtered by {invalid[0]}.")
    anyof: dict[str, tuple[Any, ...]] = {"os_hidden": (False,)}
    properties: dict[str, str] = {}
    for name, value in filters.items():
        if name in (*_SEVERAL, "owner"):
            anyof[name] = _parse_texts(name, value)
        elif name in {"protected", "os_hidden"}:
            problem = f"Invalid value {value!r} for {name}: it must be true or false"
            anyof[name] = (parse_boolean(value, problem),)
        elif name != "visibility":
            properties[name] = value
    marker, limit = call.find_value("marker"), call.find_value("limit")
    if limit is not None and not re.fullmatch(r"[0-9]{1,19}", limit, re.ASCII):
        raise Invalid(f"limit param must be an integer of at least 0, not {limit!r}")
    visibility = filters.get("visibility")
    if visibility not in {None, *_VISIBILITIES}:
        choices = ", ".join(_VISIBILITIES)
        raise Invalid(f"Invalid visibility value: {visibility!r} is not one of {choices}")
    return ImageSearch(
        viewer=viewer,
        visibility=visibility,
        anyof=anyof,
        tags=frozenset(call.list_values("tag")),
        properties=properties,
        order=_parse_order(call),
        marker=None if marker is None else marker.lower(),
        limit=PAGE if limit is None else min(int(limit), MAX_IMAGES_PER_PAGE),
    )


def build_links(call: ApiCall, last_uuid: str | None) -> dict[str, str]:
    """Build the links to the first page and the page after ``last_uuid``."""
    *query, marker = build_next_pairs(call, last_uuid)
    links = {"first": f"/v2/images?{urlencode(query)}" if query else "/v2/images"}
    if last_uuid is not None:
        links["next"] = f"/v2/images?{urlencode([*query, marker])}"
    return links


def _parse_texts(name: str, value: str) -> tuple[str, ...]:
    """Parse a value, or a list after ``in:`` (a value with commas is quoted)."""
    values = [value]
    if name in _SEVERAL and value.startswith("in:"):
        try:
            values = next(csv.reader([value.removeprefix("in:")], strict=True))
        except csv.Error:
            values = []
        if not all(values or ("",)):
            raise Invalid(
                f"Invalid filter value for {name}: {value!r} is not a comma-separated list "
                "(quote values that contain commas)"
            )
    return tuple(item.lower() if name == "id" else item for item in values)


def _parse_order(call: ApiCall) -> tuple[tuple[str, bool], ...]:
    sort, keys, directions = (call.list_values(name) for name in ("sort", "sort_key", "sort_dir"))
    if sort and (keys or directions):
        raise Invalid("The sort parameter cannot be used with sort_key and sort_dir.")
    if sort:
        parts = (part.strip().partition(":") for part in ",".join(sort).split(","))
        pairs = [(key, direction or "desc") for key, _, direction in parts]
    elif len(directions) > 1 and len(directions) != len(keys):
        raise Invalid("The numbers of sort_key and sort_dir parameters do not match.")
    else:
        direction = directions[0] if directions else "desc"
        each = directions if len(directions) > 1 else [direction] * len(keys)
        # A direction without a key applies to the default key.
        pairs = list(zip(keys, each, strict=True)) or [("created_at", direction)]
    for key, direction in pairs:
        if key not in SORT_KEYS:
            raise Invalid(f"Invalid sort key: {key}. It must be one of {', '.join(SORT_KEYS)}")
        if direction not in {"asc", "desc"}:
            raise Invalid(f"Invalid sort direction: {direction}. It must be asc or desc")
    order = {key: direction == "desc" for key, direction in pairs}
    return tuple((order | {k: d for k, d in NEWEST_FIRST if k not in order}).items())


@blueprint.get(_COLLECTION_PATH, policy="get_images")
def index(call: ApiCall) -> ApiResponse:
    """List images."""
    page, has_more = call.read(search, _read_search(call, _get_viewer(call)))
    last = page[-1].uuid if page and has_more else None
    documents = [_build_image_document(image) for image in page]
    body = {"images": documents, **build_links(call, last), "schema": "/v2/schemas/images"}
    return ApiResponse(body=body)


@blueprint.post(
    _COLLECTION_PATH, policy="add_image", body=CREATE, success=(201,), errors=(409,), located=True
)
def create(call: ApiCall) -> ApiResponse:
    """Create an image."""
    image = call.write(
        flavors_images.create_image, _parse_image(call.body, call), _get_viewer(call)
    )
    headers = {"Location": f"{call.url}/v2/images/{image.uuid}"}
    return ApiResponse(status=201, body=_build_image_document(image), headers=headers)


@blueprint.get(_ITEM_PATH, policy="get_image")
def show(call: ApiCall, image_id: str) -> ApiResponse:
    """Show an image."""
    image = call.read(flavors_images.get_image, image_id.lower(), _get_viewer(call))
    return ApiResponse(body=_build_image_document(image))


@blueprint.patch(
    _ITEM_PATH, policy="modify_image", body=UPDATE, content_types=(_PATCH,), errors=(409,)
)
def update(call: ApiCall, image_id: str) -> ApiResponse:
    """Apply all operations of a JSON patch to an image, or none."""
    changes = [
        _parse_operation(operation, f"$[{index}]") for index, operation in enumerate(call.body)
    ]
    operation, viewer = flavors_images.update_image, _get_viewer(call)
    image = call.write(operation, image_id.lower(), viewer, changes, call.read_clock())
    return ApiResponse(body=_build_image_document(image))


@blueprint.delete(_ITEM_PATH, policy="delete_image", success=(204,))
def delete(call: ApiCall, image_id: str) -> ApiResponse:
    """Delete an image that is not protected."""
    return _apply_change(call, flavors_images.delete_image, image_id)


@blueprint.post(f"{_ITEM_PATH}/actions/deactivate", policy="deactivate", success=(204,))
def deactivate(call: ApiCall, image_id: str) -> ApiResponse:
    """Make an image's data unavailable."""
    return _apply_change(
        call, flavors_images.set_image_status, image_id, DEACTIVATED, call.read_clock()
    )


@blueprint.post(f"{_ITEM_PATH}/actions/reactivate", policy="reactivate", success=(204,))
def reactivate(call: ApiCall, image_id: str) -> ApiResponse:
    """Make an image's data available again."""
    return _apply_change(call, flavors_images.set_image_status, image_id, ACTIVE, call.read_clock())


@blueprint.put(f"{_ITEM_PATH}/tags/<tag>", policy="modify_image", success=(204,), errors=(413,))
def add_tag(call: ApiCall, image_id: str, tag: str) -> ApiResponse:
    """Tag an image."""
    _TAG.check(tag, "Invalid tag")
    return _apply_change(call, flavors_images.add_image_tag, image_id, tag, call.read_clock())


@blueprint.delete(f"{_ITEM_PATH}/tags/<tag>", policy="modify_image", success=(204,))
def remove_tag(call: ApiCall, image_id: str, tag: str) -> ApiResponse:
    """Remove a tag from an image."""
    return _apply_change(call, flavors_images.remove_image_tag, image_id, tag, call.read_clock())


def _parse_image(body: dict[str, Any], call: ApiCall) -> StoredImage:
    # The id may be chosen, but not changed.
    properties = {name: value for name, value in body.items() if name != "id"}
    for name in properties:
        check_settable(name)
    attributes = {name: properties.pop(name) for name in SETTABLE & properties.keys()}
    if "owner" not in attributes:
        attributes["owner"] = call.identity.get_owner_id("project")
    attributes["tags"] = frozenset(attributes.get("tags", ()))
    return StoredImage(
        uuid=body.get("id", str(uuid4())).lower(),
        properties={name: value for name, value in properties.items() if value is not None},
        created_at=call.read_clock(),
        updated_at=call.read_clock(),
        **attributes,
    )


def _parse_operation(operation: dict[str, Any], place: str) -> ImageChange:
    verb, pointer = operation.get("op"), operation.get("path")
    if verb not in _OPERATIONS:
        raise Invalid(
            f'The member "op" of an operation must be one of {", ".join(_OPERATIONS)} (at {place}).'
        )
    if "path" not in operation:
        raise Invalid(f'Unable to find "path" in the operation (at {place}).')
    match = _POINTER.fullmatch(pointer) if isinstance(pointer, str) else None
    if match is None:
        raise Invalid(
            f'Invalid JSON pointer for this resource: {pointer!r} must be "/" and a single name, '
            f"with ~0 for ~ and ~1 for / (at {place})."
        )
    name = match[1].replace("~1", "/").replace("~0", "~")
    check_settable(name)
    if verb == "remove":
        return ImageChange(operation=verb, name=name)
    if "value" not in operation:
        raise Invalid(f'Operation "{verb}" requires a member named "value" (at {place}).')
    value = operation["value"]
    _ATTRIBUTE.check({name: value}, f"Invalid value of {name} in operation {place}")
    return ImageChange(operation=verb, name=name, value=value)


def _build_image_document(image: StoredImage) -> Json:
    path = f"/v2/images/{image.uuid}"
    return {
        **image.properties,
        "id": image.uuid,
        **{name: getattr(image, name) for name in (*IMAGE_FIELDS, "size", "virtual_size")},
        **dict.fromkeys(("checksum", "os_hash_algo", "os_hash_value")),
        "tags": sorted(image.tags),
        "created_at": format_seconds(image.created_at),
        "updated_at": format_seconds(image.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


#: The policy rules for setting a visibility.
_VISIBILITY_RULES = {PUBLIC: "publicize_image", COMMUNITY: "communitize_image"}


def _get_viewer(call: ApiCall) -> Viewer:
    return Viewer(
        project_id=call.identity.project_id,
        is_admin=call.is_allowed("context_is_admin"),
        settable_visibilities=frozenset(
            name for name, rule in _VISIBILITY_RULES.items() if call.is_allowed(rule)
        ),
    )


def _apply_change(
    call: ApiCall, operation: Callable[..., object], image_id: str, *arguments: Any
) -> ApiResponse:
    call.write(operation, image_id.lower(), _get_viewer(call), *arguments)
    return ApiResponse(status=204)


_FILE = "/v2/images/<image_id>/file"
_BYTES = ("application/octet-stream",)


@blueprint.get(_FILE, policy="download_image", success=(204,))
def download(call: ApiCall, image_id: str) -> ApiResponse:
    """Answer 204, as glance does for an image without data."""
    viewer = _get_viewer(call)
    image = call.read(flavors_images.get_image, image_id.lower(), viewer)
    if image.status == DEACTIVATED and not viewer.is_admin:
        raise Forbidden(f"The requested image {image.uuid} has been deactivated.")
    return ApiResponse(status=204)


@blueprint.put(
    _FILE, policy="upload_image", data=True, content_types=_BYTES, success=(204,), errors=(409,)
)
def upload(call: ApiCall, image_id: str) -> ApiResponse:
    """Activate an image by an empty upload, and reject other uploads."""
    if call.body:
        _apply_change(call, flavors_images.lock_own_image, image_id)
        raise LimitExceeded(
            "No image data is stored here: this service stores only image metadata for the "
            "scheduler. Create the image without data, or upload it to glance."
        )
    return _apply_change(call, flavors_images.activate_empty_image, image_id, call.read_clock())


@blueprint.get("/v2/info/import", policy="get_images", success=())
def reject_import(_call: ApiCall) -> ApiResponse:
    """Answer 404, because no image data is stored."""
    raise NotFound(
        "Images cannot be imported, because no image data is stored here. Upload an empty file to "
        "make an image active."
    )


@blueprint.get("/v2/schemas/member", policy="get_image", success=())
@blueprint.get("/v2/schemas/members", policy="get_image", success=())
@blueprint.route(
    "/v2/images/<image_id>/members", methods=("GET", "POST"), policy="get_image", success=()
)
@blueprint.route(
    "/v2/images/<image_id>/members/<member_id>",
    methods=("GET", "PUT", "DELETE"),
    policy="get_image",
    success=(),
)
def reject_members(_call: ApiCall, **_names: str) -> ApiResponse:
    """Answer 404, because images have no members."""
    raise NotFound(
        "Images have no members here. Set the visibility of the image to community or public, or "
        "create a copy of the image that the other project owns."
    )


_JSON = "application/json"


class ImageConventions(ApiConventions):
    """Conventions of the image API: errors in glance's formats.

    Clients that request JSON get ``{"message": ..., "code": "404 Not Found", "title": "Not
    Found"}``. As in glance, the response to ``*/*`` is HTML: glance's client sends ``*/*``, and can
    parse the HTML, but not the JSON.
    """

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the newest version, since clients cannot choose a version."""
        return NEWEST

    def render_error(
        self, error: Error, status: int, title: str, context: ErrorContext
    ) -> ApiResponse:
        """Return the error in glance's format."""
        accepted = parse_accept_header(context.accept, MIMEAccept)
        kind = accepted.best_match([HTML, _JSON, TEXT]) or _JSON
        if kind == _JSON:
            body = {"message": error.detail, "code": f"{status} {title}", "title": title}
            return ApiResponse(status=status, body=body)
        return render_error_page(kind, status, title, [error.detail])


API = Api("image", ImageConventions(), (_versions_blueprint, blueprint, _schemas_blueprint))
