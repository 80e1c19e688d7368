"""Routes of services (compute API reference, "Compute services")."""

from functools import partial

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call, in_transaction
from placement_sched.api.compute import conventions
from placement_sched.api.compute import microversions as mv
from placement_sched.api.compute.conventions import TEXT
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.operations import aggregates
from placement_sched.operations import services as operations
from placement_sched.operations.nova_cloud import NovaNoun
from placement_sched.operations.services import ServiceChange
from placement_sched.schemas.fields import DISABLED_REASON, HOST, SERVICE_STATUS
from placement_sched.schemas.parts import an_object
from placement_sched.store.compute import services

blueprint = Blueprint("os_services", __name__, changes=NovaNoun.SERVICES)

_POLICY = "os_compute_api:os-services"
_ALL = "/v2.1/os-services"
_ONE = f"{_ALL}/<service_id>"
#: Declares a change of the service of a host and a binary, which has its own address until 2.53.
_put = partial(blueprint.put, policy=f"{_POLICY}:update", until=mv.UUIDS.before, refusals=(404,))

_REASON: Json = {"disabled_reason": DISABLED_REASON}
#: With a boolean, or text that the handler reads as one.
_FORCED: Json = {**_REASON, "forced_down": {"type": ["boolean", "string"], "maxLength": 255}}
_NAMED: Json = {"host": HOST, "binary": {**TEXT, "minLength": 1, "maxLength": 255}}


def _by_name(*more: str) -> Schemas:
    """Return the schema of a change of the service of a host and a binary."""
    return Schemas(
        (mv.OLDEST, an_object(_NAMED | _REASON, *_NAMED, *more)),
        (mv.FORCED_DOWN, an_object(_NAMED | _FORCED, *_NAMED, *more)),
    )


BY_NAME = _by_name()
DISABLE_WITH_REASON = _by_name("disabled_reason")
FORCE_DOWN = Schemas(an_object(_NAMED | _FORCED, *_NAMED, "forced_down"))
UPDATE = Schemas(an_object({"status": SERVICE_STATUS, **_FORCED}))
LIST = conventions.a_query({"host": TEXT, "binary": TEXT})


@blueprint.get(_ALL, policy=f"{_POLICY}:list", query=LIST)
def index(call: Call) -> Answer:
    """List the services, of one host or binary if requested."""
    # As in nova, an empty filter is ignored.
    host, binary = (call.value(name) or None for name in _NAMED)
    with call.services.database.read() as connection:
        found = services.search(connection, host=host, binary=binary)
        zones = aggregates.zones_of_services(connection, found, call.settings)
    return Answer(body={"services": [_document(call, each, zones[each.id]) for each in found]})


@_put(f"{_ALL}/enable", body=BY_NAME)
def enable(call: Call) -> Answer:
    """Enable the service of a host and a binary."""
    return _changed(call, ServiceChange(disabled=False), status="enabled")


@_put(f"{_ALL}/disable", body=BY_NAME)
def disable(call: Call) -> Answer:
    """Disable the service of a host and a binary, without a reason."""
    return _changed(call, ServiceChange(disabled=True), status="disabled")


@_put(f"{_ALL}/disable-log-reason", body=DISABLE_WITH_REASON)
def disable_log_reason(call: Call) -> Answer:
    """Disable the service of a host and a binary, with a reason."""
    reason = call.body["disabled_reason"]
    change = ServiceChange(disabled=True, reason=reason)
    return _changed(call, change, status="disabled", disabled_reason=reason)


@_put(f"{_ALL}/force-down", since=mv.FORCED_DOWN, body=FORCE_DOWN)
def force_down(call: Call) -> Answer:
    """Force the service of a host and a binary down, or end that."""
    down = _forced_down(call)
    return _changed(call, ServiceChange(forced_down=down), forced_down=down)


@blueprint.put(_ONE, policy=f"{_POLICY}:update", since=mv.UUIDS, body=UPDATE)
def update(call: Call, service_id: str) -> Answer:
    """Change a compute service and return it."""
    return _updated(call, conventions.uuid(service_id), _change(call))


@in_transaction
def _updated(call: Call, connection: Connection, uuid: str, change: ServiceChange) -> Answer:
    changed = operations.update(connection, uuid, change, call.now())
    zones = aggregates.zones_of_services(connection, [changed], call.settings)
    return Answer(body={"service": _document(call, changed, zones[changed.id])})


@blueprint.delete(_ONE, policy=f"{_POLICY}:delete", success=(204,), refusals=(409,))
def delete(call: Call, service_id: str) -> Answer:
    """Delete a service; a compute service together with its host's compute nodes."""
    no_number = Invalid(f"Invalid input received: the service id {service_id} is not an integer")
    call.write(operations.delete, conventions.key(call, service_id, no_number))
    return Answer(status=204)


def _changed(call: Call, change: ServiceChange, **shown: str | bool | None) -> Answer:
    """Make a change by name, and answer as nova does: with the names and the changed values."""
    host, binary = call.body["host"], call.body["binary"]
    call.write(operations.update_by_name, host, binary, change, call.now())
    return Answer(body={"service": {"host": host, "binary": binary, **shown}})


def _forced_down(call: Call) -> bool | None:
    given = call.body.get("forced_down")
    invalid = f"'{given}' is not a boolean (at $.forced_down)"
    return None if given is None else conventions.boolean(given, invalid)


def _change(call: Call) -> ServiceChange:
    """Return the change that a body asks for; raises :class:`Invalid` where it is incomplete."""
    status, reason = call.body.get("status"), call.body.get("disabled_reason")
    if reason is not None and status != "disabled":
        raise Invalid('Specifying disabled_reason requires that status is "disabled".')
    forced_down = _forced_down(call)
    if status is None and forced_down is None:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' are needed.")
    disabled = None if status is None else status == "disabled"
    return ServiceChange(disabled=disabled, reason=reason, forced_down=forced_down)


def _document(call: Call, service: Service, zone: str) -> Json:
    """Return all fields of a service; ``updated_at`` is the time of its last report."""
    document: Json = {
        "id": conventions.id_of(call, service),
        "binary": service.binary,
        "host": service.host,
        "zone": zone,
        "status": "disabled" if service.disabled else "enabled",
        "state": conventions.state(call, service),
        "updated_at": conventions.in_microseconds(service.last_seen_up or service.updated_at),
        "disabled_reason": service.disabled_reason,
    }
    if call.version.has(mv.FORCED_DOWN):
        document["forced_down"] = service.forced_down
    return document
