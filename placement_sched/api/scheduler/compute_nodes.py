# SPDX-License-Identifier: Apache-2.0
"""Routes of compute nodes and their reports."""

from dataclasses import fields

import orjson

from placement_sched.api.paging import build_page, parse_limit_and_marker
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import responses
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_REPORTS
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.document import Json
from placement_sched.operations import reports
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.schemas import formats
from placement_sched.schemas.formats import normalize_uuid
from placement_sched.schemas.node_report import SENT_REPORT, parse
from placement_sched.schemas.parts import NAME, PAGING, build_list_schema, build_object_schema
from placement_sched.store.compute import compute_nodes

#: Fields that responses omit, so that a response is a valid report.
_OMITTED = {"version", "created_at", "updated_at", "unknown"}
_FIELDS = tuple(field.name for field in fields(ComputeNode) if field.name not in _OMITTED)
_FILTERS = ("host", "hypervisor_hostname")

blueprint = Blueprint("compute_nodes", __name__, changes=NovaObjectKind.COMPUTE_NODES)

_COLLECTION_PATH = "/v1/compute_nodes"
_ITEM_PATH = "/v1/compute_nodes/<uuid>"
_POLICY = "scheduler:compute_nodes"

NODE = responses.open_schema(SENT_REPORT, _FIELDS)
SHOW_RESPONSE = Schemas(NODE)
LIST_RESPONSE = responses.build_page_schema("compute_nodes", NODE)
LIST = Schemas(build_object_schema(dict.fromkeys(_FILTERS, NAME) | PAGING))
#: ``placement_sched.schemas.node_report`` validates the reports.
PUT = Schemas({"type": "object"})
POST = Schemas(build_list_schema({"type": "object"}, maxItems=MAX_REPORTS))


@blueprint.post(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:report",
    body=POST,
    documented_body=build_list_schema({"allOf": [SENT_REPORT], "required": ["uuid"]}),
    takes_many=True,
    response=responses.COUNTS,
)
def report_many(call: ApiCall) -> ApiResponse:
    """Record a list of reports atomically, and count new and changed nodes."""
    now = call.read_clock()
    parsed = reports.parse_reports(call.body, call.settings, now)
    recorded = call.write(reports.record_reports, parsed, now, call.get_policies())
    counts = ("created", "changed", "unchanged")
    return ApiResponse(body={name: getattr(recorded, name) for name in counts})


@blueprint.put(
    _ITEM_PATH,
    policy=f"{_POLICY}:report",
    body=PUT,
    documented_body=SENT_REPORT,
    response=SHOW_RESPONSE,
)
def report(call: ApiCall, uuid: str) -> ApiResponse:
    """Record the report of a node and return the node."""
    now = call.read_clock()
    uuid = formats.read(formats.parse_uuid, uuid, "uuid")
    if formats.read(formats.parse_uuid, call.body.get("uuid", uuid), "$.uuid") != uuid:
        raise Invalid(
            f"{call.body['uuid']!r} differs from the uuid in the path",
            json_path="$.uuid",
            code="scheduler.bad_value",
        )
    parsed = parse({**call.body, "uuid": uuid}, reports.build_defaults(call.settings, now))

    def write_report(connection: Connection) -> ComputeNode:
        reports.record_reports(connection, [parsed], now, call.get_policies())
        return compute_nodes.get_by_uuid(connection, uuid)

    return ApiResponse(body=_as_document(call.services.database.write(write_report)))


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", query=LIST, response=LIST_RESPONSE)
def index(call: ApiCall) -> ApiResponse:
    """List compute nodes by uuid, filtered by host or hypervisor_hostname."""
    limit, marker = parse_limit_and_marker(call)
    filters = {name: call.find_value(name) for name in _FILTERS}
    nodes = call.read(compute_nodes.search, **filters, after=marker, limit=limit)
    return build_page(call, "compute_nodes", [_as_document(node) for node in nodes])


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", response=SHOW_RESPONSE)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a compute node."""
    node = call.read(compute_nodes.get_by_uuid, normalize_uuid(uuid))
    return ApiResponse(body=_as_document(node))


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,), errors=(409,))
def remove(call: ApiCall, uuid: str) -> ApiResponse:
    """Delete a node and its root provider, and a service without nodes."""
    call.write(reports.remove_node, normalize_uuid(uuid))
    return ApiResponse(status=204)


def _as_document(node: ComputeNode) -> Json:
    document = {name: getattr(node, name) for name in _FIELDS}
    return document | {"cpu_info": orjson.loads(node.cpu_info)}
