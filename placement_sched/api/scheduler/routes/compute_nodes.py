"""Routes of compute nodes: hosts report here what they have."""

from dataclasses import fields
from typing import Any

import orjson

from placement_sched.api.addressed import usual
from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler.paging import limit_and_marker, page
from placement_sched.api.scheduler.schemas import compute_nodes as schemas
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.model import shape
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.node_report import parse
from placement_sched.operations import nodes, reports
from placement_sched.store import compute_nodes

#: What an answer leaves out, so that it can be sent again as a report.
_OURS = {"version", "created_at", "updated_at"}
_SHOWN = tuple(field.name for field in fields(ComputeNode) if field.name not in _OURS)


def report_many(call: Call) -> Answer:
    """Record a list of reports, all or none, and return how many nodes are new or changed."""
    now = call.now()
    parsed = reports.parse_reports(call.body, call.settings, now)

    def work(connection: Connection) -> reports.Recorded:
        return reports.record_reports(connection, parsed, now, call.policies())

    recorded = call.services.database.write(work)
    return Answer(
        body={
            "created": recorded.created,
            "changed": recorded.changed,
            "unchanged": recorded.unchanged,
        }
    )


def report(call: Call, uuid: str) -> Answer:
    """Record one report and return the node as it is then."""
    now = call.now()
    uuid = shape.read(shape.uuid, uuid, "uuid")
    if "uuid" in call.body and shape.read(shape.uuid, call.body["uuid"], "$.uuid") != uuid:
        raise Invalid(
            f"{call.body['uuid']!r} is not the uuid of the path (at $.uuid)",
            code="scheduler.bad_value",
        )
    parsed = parse({**call.body, "uuid": uuid}, reports.defaults(call.settings, now))

    def work(connection: Connection) -> ComputeNode:
        reports.record_reports(connection, [parsed], now, call.policies())
        return compute_nodes.by_uuid(connection, uuid)

    return Answer(body=_shown(call.services.database.write(work)))


def index(call: Call) -> Answer:
    """Return the nodes, of a host or a hypervisor_hostname if asked, by uuid and page."""
    limit, marker = limit_and_marker(call)
    with call.services.database.read() as connection:
        found = compute_nodes.search(
            connection,
            host=call.value("host"),
            hypervisor_hostname=call.value("hypervisor_hostname"),
            after=marker,
            limit=limit,
        )
    return page(call, "compute_nodes", [_shown(node) for node in found])


def show(call: Call, uuid: str) -> Answer:
    """Return one node."""
    with call.services.database.read() as connection:
        node = compute_nodes.by_uuid(connection, usual(uuid))
    return Answer(body=_shown(node))


def remove(call: Call, uuid: str) -> Answer:
    """Delete a node with its root provider, and the service of its host if it was its last."""

    def work(connection: Connection) -> None:
        nodes.remove(connection, usual(uuid))

    call.services.database.write(work)
    return Answer(status=204)


def _shown(node: ComputeNode) -> dict[str, Any]:
    """Return a node in the form of a report."""
    shown = {name: getattr(node, name) for name in _SHOWN}
    shown["cpu_info"] = orjson.loads(node.cpu_info)
    return shown


_ALL = "/v1/compute_nodes"
_ONE = "/v1/compute_nodes/<uuid>"
_POLICY = "scheduler:compute_nodes"

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
        method="POST",
        path=_ALL,
        handler=report_many,
        policy=f"{_POLICY}:report",
        body=schemas.POST,
        statuses=(200, 400, 401, 403, 409, 413, 415),
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
        handler=report,
        policy=f"{_POLICY}:report",
        body=schemas.PUT,
        statuses=(200, 400, 401, 403, 409, 413, 415),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy=f"{_POLICY}:delete",
        statuses=(204, 401, 403, 404, 409),
    ),
)
