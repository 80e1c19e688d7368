# SPDX-License-Identifier: Apache-2.0
"""Routes of hypervisors: compute nodes and their services (compute API)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import orjson

from placement_sched.api.compute import PAGE, TEXT, get_id, get_state, parse_key
from placement_sched.api.compute import microversions as mv
from placement_sched.api.paging import build_next_links, parse_page_size
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound, NotSupported
from placement_sched.model.compute_node import Hypervisor, HypervisorDetails
from placement_sched.model.document import Json
from placement_sched.schemas.formats import parse_boolean
from placement_sched.schemas.parts import build_object_schema
from placement_sched.store.compute import compute_nodes, instances

#: Instances by host.
_Servers = Mapping[str, Sequence[instances.InstanceNames]]

_SIZES = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
#: The figures of hypervisors in the order of the response.
_FIGURES = (*_SIZES, "free_ram_mb", "free_disk_gb", "disk_available_least")

blueprint = Blueprint("os_hypervisors", __name__)

_POLICY = "os_compute_api:os-hypervisors"
_COLLECTION_PATH = "/v2.1/os-hypervisors"
_ITEM_PATH = f"{_COLLECTION_PATH}/<hypervisor_id>"

_PAGE: Json = {"limit": PAGE, "marker": TEXT}
_PATTERN: Json = {"hypervisor_hostname_pattern": {**TEXT, "minLength": 1}, "with_servers": TEXT}
LIST = Schemas(
    (mv.HYPERVISOR_PAGES, {"type": "object", "properties": _PAGE}),
    (mv.UUIDS, build_object_schema(_PAGE | _PATTERN)),
)
SHOW = Schemas((mv.UUIDS, build_object_schema({"with_servers": TEXT})))


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", query=LIST, errors=(404,))
def index(call: ApiCall) -> ApiResponse:
    """List hypervisors by name, with their instances if requested."""
    return _list_hypervisors(call, with_details=False)


@blueprint.get(
    f"{_COLLECTION_PATH}/detail", policy=f"{_POLICY}:list-detail", query=LIST, errors=(404,)
)
def detail(call: ApiCall) -> ApiResponse:
    """List hypervisors with all fields, and with their instances if requested."""
    return _list_hypervisors(call, with_details=True)


@blueprint.get(
    f"{_COLLECTION_PATH}/statistics",
    policy=f"{_POLICY}:statistics",
    until=mv.LEAN_HYPERVISORS.previous,
    errors=(404,),
)
def statistics(call: ApiCall) -> ApiResponse:
    """Return the totals of the hypervisors of enabled services."""
    with call.services.database.read() as connection:
        enabled = [
            row for row in compute_nodes.list_hypervisors(connection) if not row.service.disabled
        ]
        sums = dict.fromkeys(("count", *_FIGURES, "current_workload", "running_vms"), 0)
        for hypervisor in compute_nodes.iterate_hypervisor_details(connection, enabled):
            for name, value in {"count": 1, **_get_figures(hypervisor)}.items():
                sums[name] += value or 0
    return ApiResponse(body={"hypervisor_statistics": sums})


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", query=SHOW)
def show(call: ApiCall, hypervisor_id: str) -> ApiResponse:
    """Show a hypervisor, with its instances if requested."""
    with_servers = _with_servers(call)
    with call.services.database.read() as connection:
        hypervisor = _get_hypervisor(connection, call, hypervisor_id)
        servers = _read_servers(connection, [hypervisor]) if with_servers else None
    return ApiResponse(body={"hypervisor": _build_document(call, hypervisor, servers)})


@blueprint.get(
    f"{_ITEM_PATH}/uptime",
    policy=f"{_POLICY}:uptime",
    until=mv.LEAN_HYPERVISORS.previous,
    errors=(501,),
)
def uptime(call: ApiCall, hypervisor_id: str) -> ApiResponse:
    """Show the uptime that a host reported.

    Raises :class:`NotSupported` if the host has not reported its uptime, and :class:`Invalid` if
    the host is down.
    """
    hypervisor = call.read(_get_hypervisor, call, hypervisor_id)
    document, value = _summarize(call, hypervisor), hypervisor.node.stats.get("uptime")
    if value is None:
        raise NotSupported(
            f"Host {hypervisor.service.host} has not reported its uptime (in stats.uptime)"
        )
    if document["state"] != "up":
        raise Invalid(f"Compute service of {hypervisor.service.host} is unavailable at this time.")
    return ApiResponse(body={"hypervisor": document | {"uptime": value}})


@blueprint.get(f"{_ITEM_PATH}/search", policy=f"{_POLICY}:search", until=mv.UUIDS.previous)
def search(call: ApiCall, hypervisor_id: str) -> ApiResponse:
    """List the hypervisors whose name contains a text."""
    matches = call.read(_search, hypervisor_id)
    return ApiResponse(body={"hypervisors": [_summarize(call, match) for match in matches]})


@blueprint.get(f"{_ITEM_PATH}/servers", policy=f"{_POLICY}:servers", until=mv.UUIDS.previous)
def servers(call: ApiCall, hypervisor_id: str) -> ApiResponse:
    """List the hypervisors whose name contains a text, with their instances."""
    with call.services.database.read() as connection:
        matches = _search(connection, hypervisor_id)
        by_host = _read_servers(connection, matches)
    documents = [_summarize(call, match, by_host) for match in matches]
    return ApiResponse(body={"hypervisors": documents})


def _list_hypervisors(call: ApiCall, *, with_details: bool) -> ApiResponse:
    name_pattern, after, limit = _parse_query(call)
    with_servers = _with_servers(call)
    with call.services.database.read() as connection:
        if name_pattern is None:
            rows = compute_nodes.list_hypervisors(connection, after=after, limit=limit)
        else:
            rows = _search(connection, name_pattern)
        by_host = _read_servers(connection, rows) if with_servers else None
        if with_details:
            detailed = compute_nodes.iterate_hypervisor_details(connection, rows)
            documents = [_build_document(call, row, by_host) for row in detailed]
        else:
            documents = [_summarize(call, row, by_host) for row in rows]
    links = {}
    if limit is not None:
        path = f"os-hypervisors{'/detail' if with_details else ''}"
        links = build_next_links(call, path, [get_id(call, row) for row in rows])
    return ApiResponse(body={"hypervisors": documents, **links})


def _parse_query(call: ApiCall) -> tuple[str | None, int | str | None, int | None]:
    if not call.version.has(mv.HYPERVISOR_PAGES):
        return None, None, None
    has_pattern = call.version.has(mv.UUIDS)
    name_pattern = call.find_value("hypervisor_hostname_pattern") if has_pattern else None
    marker = call.find_value("marker")
    if name_pattern is None:
        not_found = Invalid(f"marker [{marker}] not found")
        after = None if marker is None else parse_key(call, marker, not_found)
        return None, after, parse_page_size(call)
    if marker is not None or call.find_value("limit") is not None:
        raise Invalid(
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter "
            "is not supported."
        )
    return name_pattern, None, None


def _with_servers(call: ApiCall) -> bool:
    value = call.find_value("with_servers") if call.version.has(mv.UUIDS) else None
    message = f"Invalid query string parameters: '{value}' is not a boolean (at $.with_servers)"
    return value is not None and parse_boolean(value, message)


def _search(connection: Connection, name_pattern: str) -> tuple[Hypervisor, ...]:
    matches = compute_nodes.search_hypervisors(connection, name_pattern)
    if not matches:
        raise NotFound(f"No hypervisor matching '{name_pattern}' could be found.")
    return matches


def _read_servers(connection: Connection, rows: Sequence[Hypervisor]) -> _Servers:
    by_host = defaultdict(list)
    for instance in instances.list_names_on_hosts(connection, {row.service.host for row in rows}):
        by_host[instance.host].append(instance)
    return by_host


def _get_hypervisor(connection: Connection, call: ApiCall, hypervisor_id: str) -> HypervisorDetails:
    not_found = NotFound(f"Hypervisor with ID '{hypervisor_id}' could not be found.")
    row = compute_nodes.get_hypervisor(connection, parse_key(call, hypervisor_id, not_found))
    for hypervisor in compute_nodes.iterate_hypervisor_details(connection, [row]):
        return hypervisor
    raise not_found


def _summarize(call: ApiCall, hypervisor: Hypervisor, servers: _Servers | None = None) -> Json:
    service = hypervisor.service
    document: Json = {
        "id": get_id(call, hypervisor),
        "hypervisor_hostname": hypervisor.name,
        "state": get_state(call, service),
        "status": "disabled" if service.disabled else "enabled",
    }
    if servers is not None:
        documents = [
            {"name": instance.display_name, "uuid": instance.uuid}
            for instance in servers.get(service.host, ())
            # An instance without a node is listed on each node of its host.
            if instance.node in {None, hypervisor.name}
        ]
        if documents or call.version.has(mv.CONSISTENT):
            document["servers"] = documents
    return document


def _build_document(
    call: ApiCall, hypervisor: HypervisorDetails, servers: _Servers | None = None
) -> Json:
    node, service = hypervisor.node, hypervisor.service
    document = _summarize(call, hypervisor, servers) | {
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": get_id(call, service),
            "host": service.host,
            "disabled_reason": service.disabled_reason,
        },
    }
    if call.version.has(mv.LEAN_HYPERVISORS):
        # As in nova, the uptime of a host without a heartbeat is null.
        is_up = document["state"] == "up"
        return document | {"uptime": node.stats.get("uptime") if is_up else None}
    parse = orjson.loads if call.version.has(mv.CPU_INFO_OBJECT) else str
    return document | {"cpu_info": parse(node.cpu_info)} | _get_figures(hypervisor)


def _get_figures(hypervisor: HypervisorDetails) -> dict[str, int | None]:
    node = hypervisor.node
    return {name: getattr(node, name) for name in _FIGURES} | {
        "current_workload": int(node.stats.get("io_workload", 0)),
        "running_vms": int(node.stats.get("num_instances", 0)),
    }
