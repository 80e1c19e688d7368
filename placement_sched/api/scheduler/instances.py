# SPDX-License-Identifier: Apache-2.0
"""Routes of recorded instances."""

from collections.abc import Sequence
from dataclasses import fields, replace

from placement_sched.api.paging import build_page, parse_limit_and_marker
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.scheduler import responses
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance, InstanceMetadata
from placement_sched.operations import services as operations
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.scheduler import request
from placement_sched.scheduler.instance_requests import read_requests
from placement_sched.schemas import formats, parts
from placement_sched.schemas.formats import normalize_uuid
from placement_sched.schemas.request_spec import INSTANCE_REQUEST
from placement_sched.store.compute import instances

#: Fields that responses omit, so that a response is a valid record.
_OMITTED = {"created_at", "updated_at", "launched_at", "decision_uuid", *InstanceMetadata._fields}
_FIELDS = tuple(field.name for field in fields(Instance) if field.name not in _OMITTED)
_NAMES = ("host", "node", "project_id", "user_id")
_STATES = ("vm_state", "task_state")
_FILTERS = ("host", "node", "project_id")

blueprint = Blueprint("instances", __name__, changes=NovaObjectKind.INSTANCES)

_COLLECTION_PATH = "/v1/instances"
_ITEM_PATH = "/v1/instances/<uuid>"
_POLICY = "scheduler:instances"

_INSTANCE = parts.build_object_schema(
    {
        **dict.fromkeys((*_NAMES, "display_name"), parts.NULLABLE_NAME),
        **dict.fromkeys(_STATES, parts.NULLABLE_TEXT),
        "flavor": parts.make_nullable(parts.make_object_or_id(parts.FLAVOR)),
        "image": parts.make_nullable(parts.make_object_or_id(parts.IMAGE)),
        "server_group": parts.NULLABLE_UUID,
        "request": parts.make_nullable(INSTANCE_REQUEST),
    }
)
PUT = Schemas(_INSTANCE)
INSTANCE = responses.open_schema(_INSTANCE, _FIELDS)
SHOW_RESPONSE = Schemas(INSTANCE)
LIST_RESPONSE = responses.build_page_schema("instances", INSTANCE)
LIST = Schemas(parts.build_object_schema(dict.fromkeys(_FILTERS, parts.NAME) | parts.PAGING))


@blueprint.put(_ITEM_PATH, policy=f"{_POLICY}:record", body=PUT, response=SHOW_RESPONSE)
@run_in_transaction
def record(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Record an instance. Omitted fields except the request are cleared."""
    body, uuid = call.body, formats.read(formats.parse_uuid, uuid, "uuid")
    group, image = body.get("server_group"), body.get("image")
    if group is not None:
        group = formats.read(formats.parse_uuid, group, "$.server_group")
    instance = Instance(
        uuid=uuid,
        **{name: body.get(name) for name in (*_NAMES, *_STATES)},
        display_name=body.get("display_name") or uuid,
        flavor=request.resolve_flavor(connection, body.get("flavor")),
        image={"id": image} if isinstance(image, str) else image,
        server_group=group,
        decision_uuid=None,
        request=body.get("request"),
    )
    instance = operations.record(connection, instance, call.read_clock())
    return ApiResponse(body=_as_documents(connection, [instance])[0])


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", query=LIST, response=LIST_RESPONSE)
def index(call: ApiCall) -> ApiResponse:
    """List instances by uuid, filtered by host, node or project."""
    limit, marker = parse_limit_and_marker(call)
    filters = {name: call.find_value(name) for name in _FILTERS}
    rows = call.read(instances.search, **filters, after=marker, limit=limit)
    return build_page(call, "instances", call.read(_as_documents, rows))


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", response=SHOW_RESPONSE)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show an instance."""
    with call.services.database.read() as connection:
        row = instances.get_by_uuid(connection, normalize_uuid(uuid))
        return ApiResponse(body=_as_documents(connection, [row])[0])


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,))
def remove(call: ApiCall, uuid: str) -> ApiResponse:
    """Delete an instance and its allocations."""
    call.write(operations.remove, normalize_uuid(uuid), call.read_clock())
    return ApiResponse(status=204)


def _as_documents(connection: Connection, rows: Sequence[Instance]) -> list[Json]:
    requests = read_requests(connection, [row.uuid for row in rows])
    complete = (replace(row, request=requests.get(row.uuid)) for row in rows)
    return [{name: getattr(row, name) for name in _FIELDS} for row in complete]
