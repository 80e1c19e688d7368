# SPDX-License-Identifier: Apache-2.0
"""Routes of provider inventories.

Source: Placement API reference, "Resource provider inventories".
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from placement_sched.api import placement
from placement_sched.api.placement import INTEGER, UPPER_CASE, build_strict_object
from placement_sched.api.placement import microversions as mv
from placement_sched.api.request import MethodNotAllowed
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.limits import MAX_PROVIDER_ITEMS
from placement_sched.model.document import Json
from placement_sched.model.provider import MAX_FLOAT, Inventory, Provider
from placement_sched.schemas.parts import INVENTORY, build_object_schema
from placement_sched.store.placement import inventories, resource_classes, resource_providers

_INTEGERS = ("total", "reserved", "min_unit", "max_unit", "step_size")

blueprint = Blueprint("inventories", __name__)

_COLLECTION_PATH = "/resource_providers/<uuid>/inventories"
_ITEM_PATH = "/resource_providers/<uuid>/inventories/<resource_class>"
_POLICY = "placement:resource_providers:inventories"

_PROPERTIES: Json = {
    # Also accepted, but ignored, inside an inventory.
    "resource_provider_generation": INTEGER,
    **INVENTORY,
    "allocation_ratio": {"type": "number", "minimum": -MAX_FLOAT, "maximum": MAX_FLOAT},
}

#: Inventories by resource class, in a PUT of all inventories and in a reshape. An invalid class
#: name is reported as an unknown class.
BY_CLASS: Json = {
    "type": "object",
    "additionalProperties": build_object_schema(_PROPERTIES, "total"),
    "maxProperties": MAX_PROVIDER_ITEMS,
}

POST = Schemas(
    build_object_schema({**_PROPERTIES, "resource_class": UPPER_CASE}, "resource_class", "total")
)

PUT_ONE = Schemas(build_object_schema(_PROPERTIES, "total", "resource_provider_generation"))

PUT = Schemas(build_strict_object(resource_provider_generation=INTEGER, inventories=BY_CLASS))

_SHOWN: Json = {**dict.fromkeys(_INTEGERS, INTEGER), "allocation_ratio": {"type": "number"}}

RESPONSE = Schemas(
    build_strict_object(
        resource_provider_generation=INTEGER,
        inventories=placement.build_strict_map(placement.NAME, build_strict_object(**_SHOWN)),
    )
)

ONE_RESPONSE = Schemas(build_strict_object(**_SHOWN, resource_provider_generation=INTEGER))


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", response=RESPONSE)
def index(call: ApiCall, uuid: str) -> ApiResponse:
    """List the inventories of a provider by resource class."""
    generation, stored = call.read(inventories.get_by_provider_uuid, uuid)
    return _build_list_response(stored, generation, placement.find_latest_change(call, stored))


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", response=ONE_RESPONSE)
def show(call: ApiCall, uuid: str, resource_class: str) -> ApiResponse:
    """Show the inventory of a resource class of a provider."""
    generation, stored = call.read(inventories.get_by_provider_uuid, uuid)
    inventory = _find_class(stored, resource_class)
    if inventory is None:
        raise NotFound(f"No inventory of class {resource_class} for {uuid}")
    return placement.with_last_modified(call, _show_document(inventory, generation), [inventory])


@blueprint.post(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:create",
    body=POST,
    subject=placement.require_provider,
    success=(201,),
    errors=(409,),
    located=True,
    response=ONE_RESPONSE,
)
@run_in_transaction
def create(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Add an inventory of a new class to a provider. A generation is ignored."""
    name = call.body["resource_class"]
    prefix = f"Unable to create inventory for resource provider {uuid}"
    provider = resource_providers.lock_by_uuid(connection, uuid)
    inventory = read_inventory(name, call.body)
    _check_reserved(call, [inventory], "create", uuid)
    reject_unknown_resource_classes(connection, [name], prefix)
    if _find_class(inventories.get_by_provider_uuid(connection, uuid)[1], name):
        raise ConcurrentUpdate(f"Update conflict: {uuid} has an inventory of {name} already.")
    location = f"{call.url}/resource_providers/{provider.uuid}/inventories/{name}"
    return _write(call, connection, provider, inventory, status=201, headers={"Location": location})


@blueprint.put(
    _ITEM_PATH,
    policy=f"{_POLICY}:update",
    body=PUT_ONE,
    subject=placement.require_provider,
    errors=(409,),
    response=ONE_RESPONSE,
)
@run_in_transaction
def update(call: ApiCall, connection: Connection, uuid: str, resource_class: str) -> ApiResponse:
    """Change an existing inventory of a provider."""
    generation = call.body["resource_provider_generation"]
    provider = resource_providers.lock_by_uuid(connection, uuid, generation)
    inventory = read_inventory(resource_class, call.body)
    _check_reserved(call, [inventory], "update", uuid)
    resource_classes.get_by_name(connection, resource_class)
    if not _find_class(inventories.get_by_provider_uuid(connection, uuid)[1], resource_class):
        raise Invalid(
            f"No inventory record with resource class for resource provider {uuid}: "
            f"No inventory of class {resource_class} found."
        )
    return _write(call, connection, provider, inventory)


@blueprint.put(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:update",
    body=PUT,
    subject=placement.require_provider,
    errors=(409,),
    response=RESPONSE,
)
@placement.add_update_conflict_prefix()
@run_in_transaction
def replace(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Replace the inventories of a provider."""
    generation = call.body["resource_provider_generation"]
    provider = resource_providers.lock_by_uuid(connection, uuid, generation)
    documents: Mapping[str, Any] = call.body["inventories"]
    new_inventories = [read_inventory(name, document) for name, document in documents.items()]
    _check_reserved(call, new_inventories, "update", uuid)
    prefix = f"Unknown resource class in inventory for resource provider {uuid}"
    reject_unknown_resource_classes(connection, documents, prefix)
    inventories.replace(connection, provider, new_inventories, call.read_clock())
    resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    return _build_list_response(
        new_inventories, provider.generation + 1, placement.find_latest_change(call)
    )


@blueprint.delete(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:delete",
    since=mv.DELETE_ALL_INVENTORIES,
    success=(204,),
    errors=(409,),
)
@run_in_transaction
def clear(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Delete all inventories of a provider."""
    provider = resource_providers.lock_by_uuid(connection, uuid)
    inventories.replace(connection, provider, [], call.read_clock())
    resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    return ApiResponse(status=204)


@blueprint.delete(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:delete",
    until=mv.DELETE_ALL_INVENTORIES.previous,
    success=(),
    errors=(405,),
)
def reject_before_1_5(_call: ApiCall, uuid: str) -> ApiResponse:
    """Reject deleting all inventories at once before 1.5."""
    operation = f"Deleting all inventories of {uuid}"
    raise MethodNotAllowed(f"{operation} requires microversion 1.5 or later.")


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,), errors=(409,))
@run_in_transaction
def remove(call: ApiCall, connection: Connection, uuid: str, resource_class: str) -> ApiResponse:
    """Delete an inventory of a provider."""
    provider = resource_providers.lock_by_uuid(connection, uuid)
    if not _find_class(inventories.get_by_provider_uuid(connection, uuid)[1], resource_class):
        raise NotFound(f"No inventory of class {resource_class} found for delete")
    try:
        inventories.remove(connection, {provider.id: {resource_class}})
    except InUse as error:
        # For a single class placement reports this with the error code of a concurrent update.
        raise InUse(
            f"Unable to delete inventory of class {resource_class}: {error.detail}",
            code=ConcurrentUpdate.code,
        ) from None
    resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    return ApiResponse(status=204)


def reject_unknown_resource_classes(
    connection: Connection, names: Iterable[str], prefix: str
) -> None:
    """Reject names of resource classes that do not exist.

    Raises :class:`Invalid` with a message that begins with ``prefix``.
    """
    ids = resource_classes.map_ids(connection, names)
    if unknown_names := sorted(set(names) - set(ids)):
        raise Invalid(f"{prefix}: No such resource class {', '.join(unknown_names)}.")


def read_inventory(name: str, document: Mapping[str, Any]) -> Inventory:
    """Build the inventory of a document that conforms to the schema."""
    integers: dict[str, Any] = {key: int(document[key]) for key in _INTEGERS if key in document}
    ratio = float(document.get("allocation_ratio", 1.0))
    return Inventory(resource_class=name, allocation_ratio=ratio, **integers)


def _check_reserved(call: ApiCall, updates: Iterable[Inventory], verb: str, uuid: str) -> None:
    can_reserve_all = call.version.has(mv.RESERVED_EQUALS_TOTAL)
    for inventory in updates:
        if inventory.capacity < 0 or (inventory.capacity == 0 and not can_reserve_all):
            raise Invalid(
                f"Unable to {verb} inventory for resource provider {uuid}: Invalid inventory for "
                f"'{inventory.resource_class}' on resource provider '{uuid}'. The reserved value "
                f"is greater than {'' if can_reserve_all else 'or equal to '}total, or the "
                f"ratio leaves nothing to allocate: {inventory.reserved} reserved of "
                f"{inventory.total}, at a ratio of {inventory.allocation_ratio}."
            )


def _find_class(stored: tuple[Inventory, ...], name: str) -> Inventory | None:
    return next((inventory for inventory in stored if inventory.resource_class == name), None)


def _write(
    call: ApiCall,
    connection: Connection,
    provider: Provider,
    inventory: Inventory,
    **response_fields: Any,
) -> ApiResponse:
    inventories.put(connection, {provider.id: [inventory]}, call.read_clock())
    resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    return placement.with_last_modified(
        call, _show_document(inventory, provider.generation + 1), **response_fields
    )


def _as_document(inventory: Inventory) -> dict[str, Any]:
    return {key: getattr(inventory, key) for key in (*_INTEGERS, "allocation_ratio")}


def _show_document(inventory: Inventory, generation: int) -> dict[str, Any]:
    return {**_as_document(inventory), "resource_provider_generation": generation}


def _build_list_response(
    inventory_list: Sequence[Inventory], generation: int, changed: datetime | None
) -> ApiResponse:
    body = {
        "resource_provider_generation": generation,
        "inventories": {item.resource_class: _as_document(item) for item in inventory_list},
    }
    if inventory_list or changed is None:
        return ApiResponse(body=body, last_modified=changed)
    # Placement sends no Last-Modified for an empty list, but forbids caching it.
    return ApiResponse(body=body, headers={"Cache-Control": "no-cache"})
