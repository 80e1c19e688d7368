# SPDX-License-Identifier: Apache-2.0
"""Routes of services (compute API reference, "Compute services")."""

from functools import partial

from placement_sched.api import compute
from placement_sched.api.compute import TEXT
from placement_sched.api.compute import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.operations import aggregates
from placement_sched.operations import services as operations
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.operations.services import ServiceChange
from placement_sched.schemas.formats import parse_boolean
from placement_sched.schemas.parts import DISABLED_REASON, HOST, SERVICE_STATUS, build_object_schema
from placement_sched.store.compute import services

blueprint = Blueprint("os_services", __name__, changes=NovaObjectKind.SERVICES)

_POLICY = "os_compute_api:os-services"
_COLLECTION_PATH = "/v2.1/os-services"
_ITEM_PATH = f"{_COLLECTION_PATH}/<service_id>"
#: Declares a route that changes a service by host and binary (before 2.53).
_put = partial(blueprint.put, policy=f"{_POLICY}:update", until=mv.UUIDS.previous, errors=(404,))

_REASON: Json = {"disabled_reason": DISABLED_REASON}
#: ``forced_down`` is a boolean, or text that the handler parses.
_FORCED: Json = {**_REASON, "forced_down": {"type": ["boolean", "string"], "maxLength": 255}}
_NAMED: Json = {"host": HOST, "binary": {**TEXT, "minLength": 1, "maxLength": 255}}


def _build_name_schemas(*required_keys: str) -> Schemas:
    return Schemas(
        (mv.OLDEST, build_object_schema(_NAMED | _REASON, *_NAMED, *required_keys)),
        (mv.FORCED_DOWN, build_object_schema(_NAMED | _FORCED, *_NAMED, *required_keys)),
    )


BY_NAME = _build_name_schemas()
DISABLE_WITH_REASON = _build_name_schemas("disabled_reason")
FORCE_DOWN = Schemas(build_object_schema(_NAMED | _FORCED, *_NAMED, "forced_down"))
UPDATE = Schemas(build_object_schema({"status": SERVICE_STATUS, **_FORCED}))
LIST = compute.build_query_schema({"host": TEXT, "binary": TEXT})


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", query=LIST)
def index(call: ApiCall) -> ApiResponse:
    """List the services, optionally of a host or binary."""
    # As in nova, an empty filter is ignored.
    host, binary = (call.find_value(name) or None for name in _NAMED)
    with call.services.database.read() as connection:
        rows = services.search(connection, host=host, binary=binary)
        zones = aggregates.map_zones_by_service(connection, rows, call.settings)
    documents = [_build_document(call, row, zones[row.id]) for row in rows]
    return ApiResponse(body={"services": documents})


@_put(f"{_COLLECTION_PATH}/enable", body=BY_NAME)
def enable(call: ApiCall) -> ApiResponse:
    """Enable a service by host and binary."""
    return _change_by_name(call, ServiceChange(disabled=False), status="enabled")


@_put(f"{_COLLECTION_PATH}/disable", body=BY_NAME)
def disable(call: ApiCall) -> ApiResponse:
    """Disable a service by host and binary, without a reason."""
    return _change_by_name(call, ServiceChange(disabled=True), status="disabled")


@_put(f"{_COLLECTION_PATH}/disable-log-reason", body=DISABLE_WITH_REASON)
def disable_log_reason(call: ApiCall) -> ApiResponse:
    """Disable a service by host and binary, with a reason."""
    reason = call.body["disabled_reason"]
    change = ServiceChange(disabled=True, reason=reason)
    return _change_by_name(call, change, status="disabled", disabled_reason=reason)


@_put(f"{_COLLECTION_PATH}/force-down", since=mv.FORCED_DOWN, body=FORCE_DOWN)
def force_down(call: ApiCall) -> ApiResponse:
    """Force a service down by host and binary, or undo it."""
    is_down = _parse_forced_down(call)
    return _change_by_name(call, ServiceChange(forced_down=is_down), forced_down=is_down)


@blueprint.put(_ITEM_PATH, policy=f"{_POLICY}:update", since=mv.UUIDS, body=UPDATE)
@run_in_transaction
def update(call: ApiCall, connection: Connection, service_id: str) -> ApiResponse:
    """Change a compute service and return it."""
    uuid, change = compute.parse_uuid(service_id), _parse_change(call)
    service = operations.update(connection, uuid, change, call.read_clock())
    zones = aggregates.map_zones_by_service(connection, [service], call.settings)
    return ApiResponse(body={"service": _build_document(call, service, zones[service.id])})


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,), errors=(409,))
def delete(call: ApiCall, service_id: str) -> ApiResponse:
    """Delete a service and, for nova-compute, the compute nodes of its host."""
    no_number = Invalid(f"Invalid input received: the service id {service_id} is not an integer")
    call.write(operations.delete, compute.parse_key(call, service_id, no_number))
    return ApiResponse(status=204)


def _change_by_name(
    call: ApiCall, change: ServiceChange, **fields: str | bool | None
) -> ApiResponse:
    host, binary = call.body["host"], call.body["binary"]
    call.write(operations.update_by_name, host, binary, change, call.read_clock())
    return ApiResponse(body={"service": {"host": host, "binary": binary, **fields}})


def _parse_forced_down(call: ApiCall) -> bool | None:
    value = call.body.get("forced_down")
    message = f"'{value}' is not a boolean (at $.forced_down)"
    return None if value is None else parse_boolean(value, message)


def _parse_change(call: ApiCall) -> ServiceChange:
    status, reason = call.body.get("status"), call.body.get("disabled_reason")
    if reason is not None and status != "disabled":
        raise Invalid('Specifying disabled_reason requires that status is "disabled".')
    forced_down = _parse_forced_down(call)
    if status is None and forced_down is None:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' are needed.")
    disabled = None if status is None else status == "disabled"
    return ServiceChange(disabled=disabled, reason=reason, forced_down=forced_down)


def _build_document(call: ApiCall, service: Service, zone: str) -> Json:
    document: Json = {
        "id": compute.get_id(call, service),
        "binary": service.binary,
        "host": service.host,
        "zone": zone,
        "status": "disabled" if service.disabled else "enabled",
        "state": compute.get_state(call, service),
        "updated_at": compute.format_time_in_microseconds(
            service.last_seen_up or service.updated_at
        ),
        "disabled_reason": service.disabled_reason,
    }
    if call.version.has(mv.FORCED_DOWN):
        document["forced_down"] = service.forced_down
    return document
