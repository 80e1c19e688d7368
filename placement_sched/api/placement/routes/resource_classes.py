"""Routes of resource classes (Placement API reference, "Resource classes")."""

from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import (
    CUSTOM_RESOURCE_CLASSES,
    IDEMPOTENT_CLASS_PUT,
)
from placement_sched.api.placement.schemas import resource_classes as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Duplicate, Invalid
from placement_sched.model.resource_class import CUSTOM_PREFIX
from placement_sched.store import resource_classes


def index(call: Call) -> Answer:
    """Return every resource class."""
    with call.services.database.read() as connection:
        found = resource_classes.all_classes(connection)
    return Answer(
        body={"resource_classes": [_shown(call, one.name) for one in found]},
        last_modified=latest_change(call, found),
    )


def create(call: Call) -> Answer:
    """Create a custom class."""
    name = call.body["name"]

    def work(connection: Connection) -> None:
        resource_classes.add(connection, name, call.now())

    call.services.database.write(work)
    return Answer(status=201, headers=_location(call, name))


def show(call: Call, name: str) -> Answer:
    """Return one class."""
    with call.services.database.read() as connection:
        found = resource_classes.by_name(connection, name)
    return Answer(body=_shown(call, found.name), last_modified=latest_change(call, [found]))


def rename(call: Call, name: str) -> Answer:
    """Give a custom class another name (until 1.6)."""
    wanted = call.body["name"]

    def work(connection: Connection) -> None:
        old = resource_classes.by_name(connection, name)
        if not name.startswith(CUSTOM_PREFIX):
            raise Invalid(f"Cannot update standard resource class {name}")
        resource_classes.rename(connection, old, wanted, call.now())

    call.services.database.write(work)
    return Answer(body=_shown(call, wanted))


def ensure(call: Call, name: str) -> Answer:
    """Create a custom class, or find it there already (from 1.7)."""
    schemas.NAMED.check({"name": name}, "JSON does not validate")

    def work(connection: Connection) -> bool:
        if name in resource_classes.ids_by_name(connection, [name]):
            return True
        try:
            resource_classes.add(connection, name, call.now())
        except Duplicate:  # made meanwhile, which is all that was asked
            return True
        return False

    there = call.services.database.write(work)
    return Answer(status=204 if there else 201, headers=_location(call, name))


def remove(call: Call, name: str) -> Answer:
    """Delete a custom class that no provider has an inventory of."""

    def work(connection: Connection) -> None:
        found = resource_classes.by_name(connection, name)
        if not name.startswith(CUSTOM_PREFIX):
            raise Invalid(
                f"Error in delete resource class: Cannot delete standard resource class {name}."
            )
        resource_classes.remove(connection, found)

    call.services.database.write(work)
    return Answer(status=204)


def _shown(call: Call, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "links": [{"rel": "self", "href": f"{call.base}/resource_classes/{name}"}],
    }


def _location(call: Call, name: str) -> dict[str, str]:
    return {"Location": f"{call.url}/resource_classes/{name}"}


_ALL = "/resource_classes"
_ONE = "/resource_classes/<name>"
_POLICY = "placement:resource_classes"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        since=CUSTOM_RESOURCE_CLASSES,
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.LIST_ANSWER,
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        since=CUSTOM_RESOURCE_CLASSES,
        body=schemas.POST,
        statuses=(201, 400, 401, 403, 404, 409, 415),
        located=(201,),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        since=CUSTOM_RESOURCE_CLASSES,
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=rename,
        policy=f"{_POLICY}:update",
        since=CUSTOM_RESOURCE_CLASSES,
        until=IDEMPOTENT_CLASS_PUT.before,
        body=schemas.PUT,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ANSWER,
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=ensure,
        policy=f"{_POLICY}:update",
        since=IDEMPOTENT_CLASS_PUT,
        statuses=(201, 204, 400, 401, 403, 404, 409),
        located=(201, 204),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy=f"{_POLICY}:delete",
        since=CUSTOM_RESOURCE_CLASSES,
        statuses=(204, 400, 401, 403, 404, 409),
    ),
)
