"""Routes of resource classes (Placement API reference, "Resource classes")."""

from contextlib import suppress
from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call, in_transaction
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.conventions import UPPER_CASE, dated, links, listing, record
from placement_sched.api.validation import Schema, Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Duplicate, Invalid
from placement_sched.model.provider import CUSTOM_PREFIX
from placement_sched.store.placement import resource_classes

blueprint = Blueprint("resource_classes", __name__, since=mv.CUSTOM_RESOURCE_CLASSES)

_ALL = "/resource_classes"
_ONE = "/resource_classes/<name>"
_POLICY = "placement:resource_classes"

_BY_NAME = record(
    name={"type": "string", "pattern": f"^{CUSTOM_PREFIX}[A-Z0-9_]+$", "maxLength": 255}
)

POST = Schemas(_BY_NAME)

#: A renaming; from 1.7 on PUT takes no body.
PUT = Schemas(_BY_NAME)

#: What 1.7 asks of a name that stands in the path.
NAMED = Schema(_BY_NAME)

_SHOWN = record(name=UPPER_CASE, links=links("self"))

LIST_ANSWER = Schemas(record(resource_classes=listing(_SHOWN)))

ANSWER = Schemas(_SHOWN)


@blueprint.get(_ALL, policy=f"{_POLICY}:list", refusals=(404,), answer=LIST_ANSWER)
def index(call: Call) -> Answer:
    """Return every resource class."""
    found = call.read(resource_classes.all_classes)
    return dated(call, {"resource_classes": [_shown(call, one.name) for one in found]}, found)


@blueprint.post(
    _ALL, policy=f"{_POLICY}:create", body=POST, success=(201,), refusals=(404, 409), located=True
)
def create(call: Call) -> Answer:
    """Create a custom class."""
    name = call.body["name"]
    call.write(resource_classes.add, name, call.now())
    return Answer(status=201, headers=_location(call, name))


@blueprint.get(_ONE, policy=f"{_POLICY}:show", answer=ANSWER)
def show(call: Call, name: str) -> Answer:
    """Return one class."""
    found = call.read(resource_classes.by_name, name)
    return dated(call, _shown(call, found.name), [found])


@blueprint.put(
    _ONE,
    policy=f"{_POLICY}:update",
    until=mv.IDEMPOTENT_CLASS_PUT.before,
    body=PUT,
    refusals=(409,),
    answer=ANSWER,
)
@in_transaction
def rename(call: Call, connection: Connection, name: str) -> Answer:
    """Give a custom class another name (until 1.6)."""
    wanted = call.body["name"]
    old = resource_classes.by_name(connection, name)
    if not name.startswith(CUSTOM_PREFIX):
        raise Invalid(f"Cannot update standard resource class {name}")
    resource_classes.rename(connection, old, wanted, call.now())
    return Answer(body=_shown(call, wanted))


@blueprint.put(
    _ONE,
    policy=f"{_POLICY}:update",
    since=mv.IDEMPOTENT_CLASS_PUT,
    success=(201, 204),
    refusals=(409,),
    located=True,
)
def ensure(call: Call, name: str) -> Answer:
    """Create a custom class, or find it there already (from 1.7)."""
    NAMED.check({"name": name}, "JSON does not validate")
    return _ensured(call, name)


@in_transaction
def _ensured(call: Call, connection: Connection, name: str) -> Answer:
    status = 204
    if name not in resource_classes.ids_by_name(connection, [name]):
        with suppress(Duplicate):  # made meanwhile, which is all that was asked
            resource_classes.add(connection, name, call.now())
            status = 201
    return Answer(status=status, headers=_location(call, name))


@blueprint.delete(_ONE, policy=f"{_POLICY}:delete", success=(204,), refusals=(409,))
@in_transaction
def remove(_call: Call, connection: Connection, name: str) -> Answer:
    """Delete a custom class that no provider has an inventory of."""
    found = resource_classes.by_name(connection, name)
    if not name.startswith(CUSTOM_PREFIX):
        raise Invalid(
            f"Error in delete resource class: Cannot delete standard resource class {name}."
        )
    resource_classes.remove(connection, found)
    return Answer(status=204)


def _shown(call: Call, name: str) -> dict[str, Any]:
    self_link = {"rel": "self", "href": f"{call.base}/resource_classes/{name}"}
    return {"name": name, "links": [self_link]}


def _location(call: Call, name: str) -> dict[str, str]:
    return {"Location": f"{call.url}/resource_classes/{name}"}
