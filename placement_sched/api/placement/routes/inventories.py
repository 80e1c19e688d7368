"""Routes of a provider's inventories (Placement API reference, "Resource provider inventories")."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.errors import MethodNotAllowed
from placement_sched.api.microversion import Version
from placement_sched.api.placement import phrases, subject
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import (
    DELETE_ALL_INVENTORIES,
    RESERVED_EQUALS_TOTAL,
)
from placement_sched.api.placement.schemas import inventories as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.model.inventory import MAX_INT, Inventory
from placement_sched.model.provider import Provider
from placement_sched.store import inventories, resource_classes, resource_providers

_INTEGERS = ("total", "reserved", "min_unit", "max_unit", "step_size")


def index(call: Call, uuid: str) -> Answer:
    """Return all inventories of a provider, by class."""
    with call.services.database.read() as connection:
        provider = resource_providers.by_uuid(connection, uuid)
        found = inventories.of_provider(connection, provider.id)
    return _all_answer(found, provider.generation, latest_change(call, found))


def show(call: Call, uuid: str, resource_class: str) -> Answer:
    """Return one inventory of a provider."""
    with call.services.database.read() as connection:
        provider = resource_providers.by_uuid(connection, uuid)
        found = inventories.of_provider(connection, provider.id)
    inventory = _of_class(found, resource_class)
    if inventory is None:
        raise NotFound(f"No inventory of class {resource_class} for {uuid}")
    return Answer(
        body=_one_shown(inventory, provider.generation),
        last_modified=latest_change(call, [inventory]),
    )


def create(call: Call, uuid: str) -> Answer:
    """Add an inventory of a class that the provider has none of; a generation is not heeded."""
    name = call.body["resource_class"]

    def work(connection: Connection) -> tuple[Provider, Answer]:
        provider = resource_providers.locked_by_uuid(connection, uuid)
        inventory = inventory_from(name, call.body)
        words = f"Unable to create inventory for resource provider {uuid}"
        _check_reserved([inventory], uuid, words, call.version)
        refuse_unknown(connection, {name}, words)
        if _of_class(inventories.of_provider(connection, provider.id), name):
            raise ConcurrentUpdate(f"Update conflict: {uuid} has an inventory of {name} already.")
        inventories.put(connection, provider, [inventory], call.now())
        return provider, _written(connection, call, provider, inventory)

    provider, answer = call.services.database.write(work)
    location = f"{call.url}/resource_providers/{provider.uuid}/inventories/{name}"
    return Answer(
        status=201,
        body=answer.body,
        headers={"Location": location},
        last_modified=answer.last_modified,
    )


def update(call: Call, uuid: str, resource_class: str) -> Answer:
    """Change one inventory that the provider has."""

    def work(connection: Connection) -> Answer:
        generation = call.body["resource_provider_generation"]
        provider = resource_providers.locked_by_uuid(connection, uuid, generation)
        inventory = inventory_from(resource_class, call.body)
        _check_reserved([inventory], uuid, _unable_to_update(uuid), call.version)
        resource_classes.by_name(connection, resource_class)
        if not _of_class(inventories.of_provider(connection, provider.id), resource_class):
            raise Invalid(
                f"No inventory record with resource class for resource provider {uuid}: "
                f"No inventory of class {resource_class} found."
            )
        inventories.put(connection, provider, [inventory], call.now())
        return _written(connection, call, provider, inventory)

    return call.services.database.write(work)


def replace(call: Call, uuid: str) -> Answer:
    """Make these the only inventories of a provider."""

    def work(connection: Connection) -> Answer:
        generation = call.body["resource_provider_generation"]
        provider = resource_providers.locked_by_uuid(connection, uuid, generation)
        documents: Mapping[str, Any] = call.body["inventories"]
        wanted = [inventory_from(name, document) for name, document in documents.items()]
        _check_reserved(wanted, uuid, _unable_to_update(uuid), call.version)
        refuse_unknown(
            connection,
            documents,
            f"Unknown resource class in inventory for resource provider {uuid}",
        )
        inventories.replace(connection, provider, wanted, call.now())
        resource_providers.bump_generations(connection, [provider.id], call.now())
        return _all_answer(wanted, provider.generation + 1, latest_change(call))

    with phrases.update_conflict():
        return call.services.database.write(work)


def clear(call: Call, uuid: str) -> Answer:
    """Delete all inventories of a provider."""

    def work(connection: Connection) -> None:
        provider = resource_providers.locked_by_uuid(connection, uuid)
        inventories.replace(connection, provider, [], call.now())
        resource_providers.bump_generations(connection, [provider.id], call.now())

    call.services.database.write(work)
    return Answer(status=204)


def not_yet(_call: Call, uuid: str) -> Answer:
    """Refuse to delete all inventories at once, which came with 1.5."""
    raise MethodNotAllowed(f"The inventories of {uuid} can be deleted at once since 1.5 only.")


def remove(call: Call, uuid: str, resource_class: str) -> Answer:
    """Delete one inventory of a provider."""

    def work(connection: Connection) -> None:
        provider = resource_providers.locked_by_uuid(connection, uuid)
        if not _of_class(inventories.of_provider(connection, provider.id), resource_class):
            raise NotFound(f"No inventory of class {resource_class} found for delete")
        try:
            inventories.remove(connection, provider, {resource_class})
        except InUse as refusal:
            # Of one class alone placement tells that with the code of a lost race.
            raise InUse(
                f"Unable to delete inventory of class {resource_class}: {refusal.detail}",
                code=ConcurrentUpdate.code,
            ) from None
        resource_providers.bump_generations(connection, [provider.id], call.now())

    call.services.database.write(work)
    return Answer(status=204)


def refuse_unknown(connection: Connection, names: Mapping[str, Any] | set[str], words: str) -> None:
    """Raise :class:`Invalid`, opening with ``words``, where there is no class of these names."""
    known = resource_classes.ids_by_name(connection, names)
    if missing := sorted(set(names) - set(known)):
        raise Invalid(f"{words}: No such resource class {', '.join(missing)}.")


def inventory_from(name: str, document: Mapping[str, Any]) -> Inventory:
    """Return the inventory that a document of the schema describes."""
    return Inventory(
        resource_class=name,
        total=int(document["total"]),
        reserved=int(document.get("reserved", 0)),
        min_unit=int(document.get("min_unit", 1)),
        max_unit=int(document.get("max_unit", MAX_INT)),
        step_size=int(document.get("step_size", 1)),
        allocation_ratio=float(document.get("allocation_ratio", 1.0)),
    )


def _unable_to_update(uuid: str) -> str:
    return f"Unable to update inventory for resource provider {uuid}"


def _check_reserved(wanted: Sequence[Inventory], uuid: str, words: str, version: Version) -> None:
    """Raise :class:`Invalid`, opening with ``words``, where nothing could ever be allocated.

    From 1.26 on all of it may be reserved.
    """
    may_be_full = version.has(RESERVED_EQUALS_TOTAL)
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


def _written(
    connection: Connection, call: Call, provider: Provider, inventory: Inventory
) -> Answer:
    """Return what a single written inventory is answered with, the provider bumped."""
    resource_providers.bump_generations(connection, [provider.id], call.now())
    return Answer(
        body=_one_shown(inventory, provider.generation + 1), last_modified=latest_change(call)
    )


def _shown(inventory: Inventory) -> dict[str, Any]:
    integers = {key: getattr(inventory, key) for key in _INTEGERS}
    return {**integers, "allocation_ratio": inventory.allocation_ratio}


def _one_shown(inventory: Inventory, generation: int) -> dict[str, Any]:
    return {**_shown(inventory), "resource_provider_generation": generation}


def _all_answer(found: Sequence[Inventory], generation: int, changed: datetime | None) -> Answer:
    body = {
        "resource_provider_generation": generation,
        "inventories": {one.resource_class: _shown(one) for one in found},
    }
    if found or changed is None:
        return Answer(body=body, last_modified=changed)
    # Placement tells no time of nothing, but forbids to keep it all the same.
    return Answer(body=body, headers={"Cache-Control": "no-cache"})


_ALL = "/resource_providers/<uuid>/inventories"
_ONE = "/resource_providers/<uuid>/inventories/<resource_class>"
_POLICY = "placement:resource_providers:inventories"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        body=schemas.POST,
        subject=subject.provider,
        statuses=(201, 400, 401, 403, 404, 409, 415),
        located=(201,),
        dated=(201,),
        answer=schemas.ONE_ANSWER,
    ),
    Route(
        method="PUT",
        path=_ALL,
        handler=replace,
        policy=f"{_POLICY}:update",
        body=schemas.PUT,
        subject=subject.provider,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ANSWER,
    ),
    Route(
        method="DELETE",
        path=_ALL,
        handler=not_yet,
        policy=f"{_POLICY}:delete",
        until=DELETE_ALL_INVENTORIES.before,
        statuses=(401, 403, 405),
    ),
    Route(
        method="DELETE",
        path=_ALL,
        handler=clear,
        policy=f"{_POLICY}:delete",
        since=DELETE_ALL_INVENTORIES,
        statuses=(204, 401, 403, 404, 409),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ONE_ANSWER,
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=update,
        policy=f"{_POLICY}:update",
        body=schemas.PUT_ONE,
        subject=subject.provider,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ONE_ANSWER,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy=f"{_POLICY}:delete",
        statuses=(204, 401, 403, 404, 409),
    ),
)
