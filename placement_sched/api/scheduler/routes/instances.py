"""Routes of instances: what is where, as it was recorded."""

from dataclasses import fields
from typing import Any

from placement_sched.api.addressed import usual
from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler.paging import limit_and_marker, page
from placement_sched.api.scheduler.schemas import instances as schemas
from placement_sched.db.connection import Connection
from placement_sched.model import shape
from placement_sched.model.instance import Instance
from placement_sched.operations import instances as operations
from placement_sched.scheduler import stored
from placement_sched.store import instances

#: What an answer leaves out, so that it can be sent again as a record.
_OURS = {"created_at", "updated_at", "decision_uuid"}
_SHOWN = tuple(field.name for field in fields(Instance) if field.name not in _OURS)


def record(call: Call, uuid: str) -> Answer:
    """Record an instance as it is now; what is left out is not known of it any more."""
    uuid = shape.read(shape.uuid, uuid, "uuid")

    def work(connection: Connection) -> Instance:
        flavor = stored.flavor_for_record(connection, call.body.get("flavor"))
        instance = _instance(uuid, {**call.body, "flavor": flavor})
        return operations.record(connection, instance, call.now())

    return Answer(body=_shown(call.services.database.write(work)))


def _instance(uuid: str, body: dict[str, Any]) -> Instance:
    group = body.get("server_group")
    return Instance(
        uuid=uuid,
        host=body.get("host"),
        node=body.get("node"),
        project_id=body.get("project_id"),
        user_id=body.get("user_id"),
        display_name=body.get("display_name") or uuid,
        vm_state=body.get("vm_state"),
        task_state=body.get("task_state"),
        flavor=body["flavor"],
        image=_object(body.get("image")),
        server_group=None if group is None else shape.read(shape.uuid, group, "$.server_group"),
        decision_uuid=None,
    )


def _object(given: dict[str, Any] | str | None) -> dict[str, Any] | None:
    """Return an image given whole, or one of which only the id is known."""
    return {"id": given} if isinstance(given, str) else given


def index(call: Call) -> Answer:
    """Return the instances, of a host, node or project if asked, by uuid and page."""
    limit, marker = limit_and_marker(call)
    with call.services.database.read() as connection:
        found = instances.search(
            connection,
            host=call.value("host"),
            node=call.value("node"),
            project_id=call.value("project_id"),
            after=marker,
            limit=limit,
        )
    return page(call, "instances", [_shown(instance) for instance in found])


def show(call: Call, uuid: str) -> Answer:
    """Return one instance."""
    with call.services.database.read() as connection:
        instance = instances.by_uuid(connection, usual(uuid))
    return Answer(body=_shown(instance))


def remove(call: Call, uuid: str) -> Answer:
    """Forget an instance and free its allocations."""

    def work(connection: Connection) -> None:
        operations.remove(connection, usual(uuid))

    call.services.database.write(work)
    return Answer(status=204)


def _shown(instance: Instance) -> dict[str, Any]:
    """Return an instance in the form of a record."""
    return {name: getattr(instance, name) for name in _SHOWN}


_ALL = "/v1/instances"
_ONE = "/v1/instances/<uuid>"
_POLICY = "scheduler:instances"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 406),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404, 406),
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=record,
        policy=f"{_POLICY}:record",
        body=schemas.PUT,
        statuses=(200, 400, 401, 403, 413, 415),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy=f"{_POLICY}:delete",
        statuses=(204, 401, 403, 404),
    ),
)
