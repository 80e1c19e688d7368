# SPDX-License-Identifier: Apache-2.0
"""Routes of resource classes.

Source: Placement API reference, "Resource classes".
"""

from contextlib import suppress
from typing import Any

from placement_sched.api.placement import (
    UPPER_CASE,
    build_links_schema,
    build_strict_object,
    build_unique_list,
    with_last_modified,
)
from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Duplicate, Invalid
from placement_sched.model.provider import CUSTOM_PREFIX
from placement_sched.schemas.validation import Schema
from placement_sched.store.placement import resource_classes

blueprint = Blueprint("resource_classes", __name__, since=mv.CUSTOM_RESOURCE_CLASSES)

_COLLECTION_PATH = "/resource_classes"
_ITEM_PATH = "/resource_classes/<name>"
_POLICY = "placement:resource_classes"

_BY_NAME = build_strict_object(
    name={"type": "string", "pattern": f"^{CUSTOM_PREFIX}[A-Z0-9_]+$", "maxLength": 255}
)

POST = Schemas(_BY_NAME)

#: The new name of a class. From 1.7 on PUT has no body.
PUT = Schemas(_BY_NAME)

#: Schema of the class name in the path, from 1.7 on.
NAMED = Schema(_BY_NAME)

_SHOWN = build_strict_object(name=UPPER_CASE, links=build_links_schema("self"))

LIST_RESPONSE = Schemas(build_strict_object(resource_classes=build_unique_list(_SHOWN)))

RESPONSE = Schemas(_SHOWN)


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", errors=(404,), response=LIST_RESPONSE)
def index(call: ApiCall) -> ApiResponse:
    """List the resource classes."""
    rows = call.read(resource_classes.list_classes)
    return with_last_modified(
        call, {"resource_classes": [_as_document(call, row.name) for row in rows]}, rows
    )


@blueprint.post(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:create",
    body=POST,
    success=(201,),
    errors=(404, 409),
    located=True,
)
def create(call: ApiCall) -> ApiResponse:
    """Create a custom resource class."""
    name = call.body["name"]
    call.write(resource_classes.add, name, call.read_clock())
    return ApiResponse(status=201, headers=_build_location_header(call, name))


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", response=RESPONSE)
def show(call: ApiCall, name: str) -> ApiResponse:
    """Show a resource class."""
    row = call.read(resource_classes.get_by_name, name)
    return with_last_modified(call, _as_document(call, row.name), [row])


@blueprint.put(
    _ITEM_PATH,
    policy=f"{_POLICY}:update",
    until=mv.IDEMPOTENT_CLASS_PUT.previous,
    body=PUT,
    errors=(409,),
    response=RESPONSE,
)
@run_in_transaction
def rename(call: ApiCall, connection: Connection, name: str) -> ApiResponse:
    """Rename a custom resource class (until 1.6)."""
    new_name = call.body["name"]
    row = resource_classes.get_by_name(connection, name)
    if not name.startswith(CUSTOM_PREFIX):
        raise Invalid(f"Cannot update standard resource class {name}")
    resource_classes.rename(connection, row, new_name, call.read_clock())
    return ApiResponse(body=_as_document(call, new_name))


@blueprint.put(
    _ITEM_PATH,
    policy=f"{_POLICY}:update",
    since=mv.IDEMPOTENT_CLASS_PUT,
    success=(201, 204),
    errors=(409,),
    located=True,
)
@run_in_transaction
def ensure(call: ApiCall, connection: Connection, name: str) -> ApiResponse:
    """Create a custom resource class if it does not exist (from 1.7)."""
    NAMED.check({"name": name}, "JSON does not validate")
    status = 204
    if name not in resource_classes.map_ids(connection, [name]):
        with suppress(Duplicate):  # a concurrent request created it
            resource_classes.add(connection, name, call.read_clock())
            status = 201
    return ApiResponse(status=status, headers=_build_location_header(call, name))


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,), errors=(409,))
@run_in_transaction
def remove(_call: ApiCall, connection: Connection, name: str) -> ApiResponse:
    """Delete a custom resource class that has no inventories."""
    row = resource_classes.get_by_name(connection, name)
    if not name.startswith(CUSTOM_PREFIX):
        raise Invalid(
            f"Error in delete resource class: Cannot delete standard resource class {name}."
        )
    resource_classes.remove(connection, row)
    return ApiResponse(status=204)


def _as_document(call: ApiCall, name: str) -> dict[str, Any]:
    self_link = {"rel": "self", "href": f"{call.base}/resource_classes/{name}"}
    return {"name": name, "links": [self_link]}


def _build_location_header(call: ApiCall, name: str) -> dict[str, str]:
    return {"Location": f"{call.url}/resource_classes/{name}"}
