"""Routes of services."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.booleans import yes_or_no
from placement_sched.api.compute.keys import key, uuid
from placement_sched.api.compute.microversions import FORCED_DOWN, UUIDS
from placement_sched.api.compute.schemas import os_services as schemas
from placement_sched.api.compute.service_documents import shown
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.operations import availability_zones
from placement_sched.operations import services as operations
from placement_sched.operations.services import Change
from placement_sched.store import services


def index(call: Call) -> Answer:
    """Return the services, of a host and a binary if asked."""
    with call.services.database.read() as connection:
        # As in nova, an empty filter keeps nothing out.
        found = services.search(
            connection, host=call.value("host") or None, binary=call.value("binary") or None
        )
        zones = availability_zones.of_services(connection, found, call.settings)
    return Answer(body={"services": [shown(call, each, zones[each.id]) for each in found]})


def enable(call: Call) -> Answer:
    """Let the service of a host and a binary be used."""
    host, binary = call.body["host"], call.body["binary"]
    call.services.database.write(
        lambda connection: operations.enable(connection, [host], call.now(), binary=binary)
    )
    return _told(call, status="enabled")


def disable(call: Call) -> Answer:
    """Let the service of a host and a binary not be used; a reason is not kept."""
    _disable(call, None)
    return _told(call, status="disabled")


def disable_log_reason(call: Call) -> Answer:
    """Let the service of a host and a binary not be used, and keep the reason."""
    reason = call.body["disabled_reason"]
    _disable(call, reason)
    return _told(call, status="disabled", disabled_reason=reason)


def force_down(call: Call) -> Answer:
    """Make the service of a host and a binary count as down whatever it reports, or no longer."""
    host, binary, down = call.body["host"], call.body["binary"], _forced_down(call)
    call.services.database.write(
        lambda connection: operations.force_down(
            connection, [host], forced_down=bool(down), binary=binary
        )
    )
    return _told(call, forced_down=down)


def update(call: Call, service_id: str) -> Answer:
    """Change a compute service, and return it as it is then."""
    number, change = uuid(service_id), _change(call)

    def work(connection: Connection) -> Answer:
        changed = operations.update(connection, number, change, call.now())
        zones = availability_zones.of_services(connection, [changed], call.settings)
        return Answer(body={"service": shown(call, changed, zones[changed.id])})

    return call.services.database.write(work)


def delete(call: Call, service_id: str) -> Answer:
    """Delete a service; a compute service with all that is its host's."""
    no_number = Invalid(f"Invalid input received: the service id {service_id} is no integer")
    which = key(call, service_id, no_number)
    call.services.database.write(lambda connection: operations.delete(connection, which))
    return Answer(status=204)


def _disable(call: Call, reason: str | None) -> None:
    host, binary = call.body["host"], call.body["binary"]
    call.services.database.write(
        lambda connection: operations.disable(connection, [host], reason, call.now(), binary=binary)
    )


def _told(call: Call, **changed: str | bool | None) -> Answer:
    """Return what nova tells of a change by name: the names, and what was changed."""
    named = {name: call.body[name] for name in ("host", "binary")}
    return Answer(body={"service": {**named, **changed}})


def _forced_down(call: Call) -> bool | None:
    """Return whether the body says to force down; None where it does not speak of it."""
    given = call.body.get("forced_down")
    if given is None or isinstance(given, bool):
        return given
    told = yes_or_no(given)
    if told is None:
        raise Invalid(f"'{given}' is neither yes nor no (at $.forced_down)")
    return told


def _change(call: Call) -> Change:
    """Return what a body asks for; raises :class:`Invalid` for nothing, or a needless reason."""
    status, reason = call.body.get("status"), call.body.get("disabled_reason")
    if reason is not None and status != "disabled":
        raise Invalid('Specifying disabled_reason requires that status is "disabled".')
    forced_down = _forced_down(call)
    if status is None and forced_down is None:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' are needed.")
    return Change(
        disabled=None if status is None else status == "disabled",
        reason=reason,
        forced_down=forced_down,
    )


_POLICY = "os_compute_api:os-services"
_ALL = "/v2.1/os-services"
_ONE = f"{_ALL}/<service_id>"
_CHANGED = (200, 400, 401, 403, 404)

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="PUT",
        path=f"{_ALL}/enable",
        until=UUIDS.before,
        handler=enable,
        policy=f"{_POLICY}:update",
        body=schemas.BY_NAME,
        statuses=_CHANGED,
    ),
    Route(
        method="PUT",
        path=f"{_ALL}/disable",
        until=UUIDS.before,
        handler=disable,
        policy=f"{_POLICY}:update",
        body=schemas.BY_NAME,
        statuses=_CHANGED,
    ),
    Route(
        method="PUT",
        path=f"{_ALL}/disable-log-reason",
        until=UUIDS.before,
        handler=disable_log_reason,
        policy=f"{_POLICY}:update",
        body=schemas.DISABLE_WITH_REASON,
        statuses=_CHANGED,
    ),
    Route(
        method="PUT",
        path=f"{_ALL}/force-down",
        since=FORCED_DOWN,
        until=UUIDS.before,
        handler=force_down,
        policy=f"{_POLICY}:update",
        body=schemas.FORCE_DOWN,
        statuses=_CHANGED,
    ),
    Route(
        method="PUT",
        path=_ONE,
        since=UUIDS,
        handler=update,
        policy=f"{_POLICY}:update",
        body=schemas.UPDATE,
        statuses=_CHANGED,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy=f"{_POLICY}:delete",
        statuses=(204, 400, 401, 403, 404, 409),
    ),
)
