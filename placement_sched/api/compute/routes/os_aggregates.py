"""Routes of host aggregates."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.microversions import AGGREGATE_UUIDS, IMAGE_CACHING
from placement_sched.api.compute.moments import in_microseconds
from placement_sched.api.compute.schemas import os_aggregates as schemas
from placement_sched.api.microversion import Version
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.operations import host_aggregates
from placement_sched.store.host_aggregates import all_aggregates

_LARGEST_ID = 2**31 - 1


def index(call: Call) -> Answer:
    """Return every host aggregate."""
    with call.services.database.read() as connection:
        found = all_aggregates(connection)
    return Answer(body={"aggregates": [_document(each, call.version) for each in found]})


def create(call: Call) -> Answer:
    """Create a host aggregate."""
    wanted = call.body["aggregate"]
    made = call.services.database.write(
        lambda connection: host_aggregates.create(
            connection,
            str(uuid4()),
            wanted["name"],
            wanted.get("availability_zone"),
            call.now(),
        )
    )
    document = _document(made, call.version)
    # nova tells a new aggregate without what it cannot have yet.
    for key in ("hosts", "metadata"):
        del document[key]
    return Answer(body={"aggregate": document})


def show(call: Call, aggregate_id: str) -> Answer:
    """Return one host aggregate."""
    number = _id(aggregate_id)
    with call.services.database.read() as connection:
        return _answer(call, host_aggregates.get(connection, number))


def update(call: Call, aggregate_id: str) -> Answer:
    """Change a host aggregate's name or availability zone."""
    fields = call.body["aggregate"]
    return _change(
        call,
        aggregate_id,
        lambda connection, number: host_aggregates.update(connection, number, fields, call.now()),
    )


def delete(call: Call, aggregate_id: str) -> Answer:
    """Delete a host aggregate that has no hosts."""
    number = _id(aggregate_id)
    call.services.database.write(lambda connection: host_aggregates.delete(connection, number))
    return Answer()


def add_host(call: Call, aggregate_id: str) -> Answer:
    """Add a host; its providers join the provider aggregate."""
    host = call.body["add_host"]["host"]
    return _change(
        call,
        aggregate_id,
        lambda connection, number: host_aggregates.add_hosts(
            connection, number, [host], call.now(), call.policies()
        ),
    )


def remove_host(call: Call, aggregate_id: str) -> Answer:
    """Remove a host; its providers leave the provider aggregate."""
    host = call.body["remove_host"]["host"]
    return _change(
        call,
        aggregate_id,
        lambda connection, number: host_aggregates.remove_host(
            connection, number, host, call.now(), call.policies()
        ),
    )


def set_metadata(call: Call, aggregate_id: str) -> Answer:
    """Set metadata keys; null removes one."""
    changes = call.body["set_metadata"]["metadata"]
    return _change(
        call,
        aggregate_id,
        lambda connection, number: host_aggregates.set_metadata(
            connection, number, changes, call.now(), call.policies()
        ),
    )


def cache_images(call: Call, aggregate_id: str) -> Answer:
    """Take note that images should be cached on the hosts: there is no image data to cache."""
    number = _id(aggregate_id)
    asked = [image["id"] for image in call.body["cache"]]
    if len(set(asked)) != len(asked):
        raise Invalid("Duplicate images in request (at $.cache)")
    with call.services.database.read() as connection:
        host_aggregates.get(connection, number)
    return Answer(status=202)


def _change(
    call: Call, aggregate_id: str, work: Callable[[Connection, int], HostAggregate]
) -> Answer:
    """Do ``work`` to the aggregate in one transaction and answer with what became of it."""
    number = _id(aggregate_id)
    return _answer(call, call.services.database.write(lambda connection: work(connection, number)))


def _answer(call: Call, aggregate: HostAggregate) -> Answer:
    return Answer(body={"aggregate": _document(aggregate, call.version)})


def _id(text: str) -> int:
    """Return the id that a path names.

    Raises :class:`Invalid` for what is no number, :class:`NotFound` for one that no row can have.
    """
    try:
        number = int(text)
    except ValueError:
        raise Invalid("Invalid input received: the aggregate id must be an integer") from None
    if not 0 < number <= _LARGEST_ID:
        raise NotFound(f"Aggregate {text} could not be found.")
    return number


def _document(aggregate: HostAggregate, version: Version) -> dict[str, Any]:
    """Return an aggregate as the compute API shows it."""
    document: dict[str, Any] = {"id": aggregate.id}
    if version.has(AGGREGATE_UUIDS):
        document["uuid"] = aggregate.uuid
    document.update(
        name=aggregate.name,
        hosts=sorted(aggregate.hosts),
        metadata=dict(aggregate.metadata),
        created_at=in_microseconds(aggregate.created_at),
        updated_at=in_microseconds(aggregate.updated_at),
        # An aggregate that is deleted is gone; nova, which keeps such rows, tells these two.
        deleted_at=None,
        deleted=False,
        availability_zone=aggregate.availability_zone,
    )
    return document


_POLICY = "os_compute_api:os-aggregates"
_ALL = "/v2.1/os-aggregates"
_ONE = f"{_ALL}/<aggregate_id>"

ROUTES = (
    Route(
        method="GET", path=_ALL, handler=index, policy=f"{_POLICY}:index", statuses=(200, 401, 403)
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        body=schemas.CREATE,
        statuses=(200, 400, 401, 403, 409),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=update,
        policy=f"{_POLICY}:update",
        body=schemas.UPDATE,
        statuses=(200, 400, 401, 403, 404, 409),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy=f"{_POLICY}:delete",
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/action",
        action="add_host",
        handler=add_host,
        policy=f"{_POLICY}:add_host",
        body=schemas.ADD_HOST,
        statuses=(200, 400, 401, 403, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/action",
        action="remove_host",
        handler=remove_host,
        policy=f"{_POLICY}:remove_host",
        body=schemas.REMOVE_HOST,
        statuses=(200, 400, 401, 403, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/action",
        action="set_metadata",
        handler=set_metadata,
        policy=f"{_POLICY}:set_metadata",
        body=schemas.SET_METADATA,
        statuses=(200, 400, 401, 403, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/images",
        since=IMAGE_CACHING,
        handler=cache_images,
        policy="compute:aggregates:images",
        body=schemas.IMAGES,
        statuses=(202, 400, 401, 403, 404),
    ),
)
