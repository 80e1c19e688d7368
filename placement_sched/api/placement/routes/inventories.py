"""Routes of a provider's inventories (Placement API reference, "Resource provider inventories")."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call, in_transaction
from placement_sched.api.placement import conventions as shared
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.conventions import INTEGER, UPPER_CASE, record
from placement_sched.api.response import MethodNotAllowed
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.limits import MAX_PROVIDER_ITEMS
from placement_sched.model.document import Json
from placement_sched.model.provider import MAX_FLOAT, Inventory, Provider
from placement_sched.schemas.fields import INVENTORY
from placement_sched.schemas.parts import an_object
from placement_sched.store.placement import inventories, resource_classes, resource_providers

_INTEGERS = ("total", "reserved", "min_unit", "max_unit", "step_size")

blueprint = Blueprint("inventories", __name__)

_ALL = "/resource_providers/<uuid>/inventories"
_ONE = "/resource_providers/<uuid>/inventories/<resource_class>"
_POLICY = "placement:resource_providers:inventories"

_PROPERTIES: Json = {
    # Taken inside an inventory too, where it means nothing.
    "resource_provider_generation": INTEGER,
    **INVENTORY,
    "allocation_ratio": {"type": "number", "minimum": -MAX_FLOAT, "maximum": MAX_FLOAT},
}

#: Inventories by resource class, as a whole body and inside a reshape. A name that no class
#: can have is reported as an unknown class.
BY_CLASS: Json = {
    "type": "object",
    "additionalProperties": an_object(_PROPERTIES, "total"),
    "maxProperties": MAX_PROVIDER_ITEMS,
}

POST = Schemas(an_object({**_PROPERTIES, "resource_class": UPPER_CASE}, "resource_class", "total"))

PUT_ONE = Schemas(an_object(_PROPERTIES, "total", "resource_provider_generation"))

PUT = Schemas(record(resource_provider_generation=INTEGER, inventories=BY_CLASS))

_SHOWN: Json = {**dict.fromkeys(_INTEGERS, INTEGER), "allocation_ratio": {"type": "number"}}

ANSWER = Schemas(
    record(
        resource_provider_generation=INTEGER,
        inventories=shared.keyed(shared.NAME, record(**_SHOWN)),
    )
)

ONE_ANSWER = Schemas(record(**_SHOWN, resource_provider_generation=INTEGER))


@blueprint.get(_ALL, policy=f"{_POLICY}:list", answer=ANSWER)
def index(call: Call, uuid: str) -> Answer:
    """Return all inventories of a provider, by class."""
    generation, found = call.read(inventories.by_provider_uuid, uuid)
    return _all_answer(found, generation, shared.latest_change(call, found))


@blueprint.get(_ONE, policy=f"{_POLICY}:show", answer=ONE_ANSWER)
def show(call: Call, uuid: str, resource_class: str) -> Answer:
    """Return one inventory of a provider."""
    generation, found = call.read(inventories.by_provider_uuid, uuid)
    inventory = _of_class(found, resource_class)
    if inventory is None:
        raise NotFound(f"No inventory of class {resource_class} for {uuid}")
    return shared.dated(call, _one_shown(inventory, generation), [inventory])


@blueprint.post(
    _ALL,
    policy=f"{_POLICY}:create",
    body=POST,
    subject=shared.existing_provider,
    success=(201,),
    refusals=(409,),
    located=True,
    answer=ONE_ANSWER,
)
@in_transaction
def create(call: Call, connection: Connection, uuid: str) -> Answer:
    """Add an inventory of a class that the provider has none of; a generation is ignored."""
    name = call.body["resource_class"]
    words = f"Unable to create inventory for resource provider {uuid}"
    provider = resource_providers.locked_by_uuid(connection, uuid)
    inventory = inventory_from(name, call.body)
    _check_reserved(call, [inventory], uuid, words)
    refuse_unknown(connection, [name], words)
    if _of_class(inventories.of_provider(connection, provider.id), name):
        raise ConcurrentUpdate(f"Update conflict: {uuid} has an inventory of {name} already.")
    location = f"{call.url}/resource_providers/{provider.uuid}/inventories/{name}"
    return _put(call, connection, provider, inventory, status=201, headers={"Location": location})


@blueprint.put(
    _ONE,
    policy=f"{_POLICY}:update",
    body=PUT_ONE,
    subject=shared.existing_provider,
    refusals=(409,),
    answer=ONE_ANSWER,
)
@in_transaction
def update(call: Call, connection: Connection, uuid: str, resource_class: str) -> Answer:
    """Change one inventory that the provider has."""
    generation = call.body["resource_provider_generation"]
    provider = resource_providers.locked_by_uuid(connection, uuid, generation)
    inventory = inventory_from(resource_class, call.body)
    _check_reserved(call, [inventory], uuid, _unable_to_update(uuid))
    resource_classes.by_name(connection, resource_class)
    if not _of_class(inventories.of_provider(connection, provider.id), resource_class):
        raise Invalid(
            f"No inventory record with resource class for resource provider {uuid}: "
            f"No inventory of class {resource_class} found."
        )
    return _put(call, connection, provider, inventory)


@blueprint.put(
    _ALL,
    policy=f"{_POLICY}:update",
    body=PUT,
    subject=shared.existing_provider,
    refusals=(409,),
    answer=ANSWER,
)
@shared.update_conflict()
@in_transaction
def replace(call: Call, connection: Connection, uuid: str) -> Answer:
    """Make these the only inventories of a provider."""
    generation = call.body["resource_provider_generation"]
    provider = resource_providers.locked_by_uuid(connection, uuid, generation)
    documents: Mapping[str, Any] = call.body["inventories"]
    wanted = [inventory_from(name, document) for name, document in documents.items()]
    _check_reserved(call, wanted, uuid, _unable_to_update(uuid))
    words = f"Unknown resource class in inventory for resource provider {uuid}"
    refuse_unknown(connection, documents, words)
    inventories.replace(connection, provider, wanted, call.now())
    resource_providers.bump_generations(connection, [provider.id], call.now())
    return _all_answer(wanted, provider.generation + 1, shared.latest_change(call))


@blueprint.delete(
    _ALL,
    policy=f"{_POLICY}:delete",
    since=mv.DELETE_ALL_INVENTORIES,
    success=(204,),
    refusals=(409,),
)
@in_transaction
def clear(call: Call, connection: Connection, uuid: str) -> Answer:
    """Delete all inventories of a provider."""
    provider = resource_providers.locked_by_uuid(connection, uuid)
    inventories.replace(connection, provider, [], call.now())
    resource_providers.bump_generations(connection, [provider.id], call.now())
    return Answer(status=204)


@blueprint.delete(
    _ALL,
    policy=f"{_POLICY}:delete",
    until=mv.DELETE_ALL_INVENTORIES.before,
    success=(),
    refusals=(405,),
)
def not_yet(_call: Call, uuid: str) -> Answer:
    """Refuse to delete all inventories at once, which came with 1.5."""
    what = f"Deleting all inventories of {uuid}"
    raise MethodNotAllowed(f"{what} requires microversion 1.5 or later.")


@blueprint.delete(_ONE, policy=f"{_POLICY}:delete", success=(204,), refusals=(409,))
@in_transaction
def remove(call: Call, connection: Connection, uuid: str, resource_class: str) -> Answer:
    """Delete one inventory of a provider."""
    provider = resource_providers.locked_by_uuid(connection, uuid)
    if not _of_class(inventories.of_provider(connection, provider.id), resource_class):
        raise NotFound(f"No inventory of class {resource_class} found for delete")
    try:
        inventories.remove(connection, {provider.id: {resource_class}})
    except InUse as refusal:
        # For a single class placement reports this with the code of a concurrent update.
        raise InUse(
            f"Unable to delete inventory of class {resource_class}: {refusal.detail}",
            code=ConcurrentUpdate.code,
        ) from None
    resource_providers.bump_generations(connection, [provider.id], call.now())
    return Answer(status=204)


def refuse_unknown(connection: Connection, names: Iterable[str], words: str) -> None:
    """Raise :class:`Invalid`, opening with ``words``, where there is no class of these names."""
    known = resource_classes.ids_by_name(connection, names)
    if missing := sorted(set(names) - set(known)):
        raise Invalid(f"{words}: No such resource class {', '.join(missing)}.")


def inventory_from(name: str, document: Mapping[str, Any]) -> Inventory:
    """Return the inventory that a document of the schema describes."""
    given: dict[str, Any] = {key: int(document[key]) for key in _INTEGERS if key in document}
    ratio = float(document.get("allocation_ratio", 1.0))
    return Inventory(resource_class=name, allocation_ratio=ratio, **given)


def _unable_to_update(uuid: str) -> str:
    return f"Unable to update inventory for resource provider {uuid}"


def _check_reserved(call: Call, wanted: Iterable[Inventory], uuid: str, words: str) -> None:
    """Raise :class:`Invalid`, opening with ``words``, where nothing could ever be allocated.

    From 1.26 on all of it may be reserved.
    """
    may_be_full = call.version.has(mv.RESERVED_EQUALS_TOTAL)
    for one in wanted:
        if one.capacity < 0 or (one.capacity == 0 and not may_be_full):
            raise Invalid(
                f"{words}: Invalid inventory for '{one.resource_class}' on resource provider "
                f"'{uuid}'. The reserved value is greater than "
                f"{'' if may_be_full else 'or equal to '}total, or the ratio leaves nothing to "
                f"allocate: {one.reserved} reserved of {one.total}, at a ratio of "
                f"{one.allocation_ratio}."
            )


def _of_class(found: tuple[Inventory, ...], name: str) -> Inventory | None:
    return next((one for one in found if one.resource_class == name), None)


def _put(
    call: Call, connection: Connection, provider: Provider, inventory: Inventory, **more: Any
) -> Answer:
    """Write one inventory, bump its provider, and return the answer."""
    inventories.put(connection, {provider.id: [inventory]}, call.now())
    resource_providers.bump_generations(connection, [provider.id], call.now())
    return shared.dated(call, _one_shown(inventory, provider.generation + 1), **more)


def _shown(inventory: Inventory) -> dict[str, Any]:
    return {key: getattr(inventory, key) for key in (*_INTEGERS, "allocation_ratio")}


def _one_shown(inventory: Inventory, generation: int) -> dict[str, Any]:
    return {**_shown(inventory), "resource_provider_generation": generation}


def _all_answer(found: Sequence[Inventory], generation: int, changed: datetime | None) -> Answer:
    body = {
        "resource_provider_generation": generation,
        "inventories": {one.resource_class: _shown(one) for one in found},
    }
    if found or changed is None:
        return Answer(body=body, last_modified=changed)
    # Placement sends no time for an empty answer, but forbids caching it all the same.
    return Answer(body=body, headers={"Cache-Control": "no-cache"})
