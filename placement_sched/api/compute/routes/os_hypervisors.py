"""Routes of hypervisors, compute nodes with the service of their host (API: "Hypervisors")."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import orjson

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.compute import microversions as mv
from placement_sched.api.compute.conventions import PAGE, TEXT, boolean, id_of, key, state
from placement_sched.api.paging import at_most, next_links
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound, NotKnown
from placement_sched.model.compute_node import Hypervisor, WholeHypervisor
from placement_sched.model.document import Json
from placement_sched.schemas.parts import an_object
from placement_sched.store.compute import hypervisors, instances

#: Instances by host.
_Servers = Mapping[str, Sequence[instances.Named]]

_SIZES = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
#: The measures of hypervisors, in the order in which they are reported.
_MEASURES = (*_SIZES, "free_ram_mb", "free_disk_gb", "disk_available_least")

blueprint = Blueprint("os_hypervisors", __name__)

_POLICY = "os_compute_api:os-hypervisors"
_ALL = "/v2.1/os-hypervisors"
_ONE = f"{_ALL}/<hypervisor_id>"

_PAGE: Json = {"limit": PAGE, "marker": TEXT}
_PATTERN: Json = {"hypervisor_hostname_pattern": {**TEXT, "minLength": 1}, "with_servers": TEXT}
LIST = Schemas(
    (mv.HYPERVISOR_PAGES, {"type": "object", "properties": _PAGE}),
    (mv.UUIDS, an_object(_PAGE | _PATTERN)),
)
SHOW = Schemas((mv.UUIDS, an_object({"with_servers": TEXT})))


@blueprint.get(_ALL, policy=f"{_POLICY}:list", query=LIST, refusals=(404,))
def index(call: Call) -> Answer:
    """List hypervisors by name, with their instances if requested."""
    return _listed(call, whole=False)


@blueprint.get(f"{_ALL}/detail", policy=f"{_POLICY}:list-detail", query=LIST, refusals=(404,))
def detail(call: Call) -> Answer:
    """List hypervisors with all fields, and with their instances if requested."""
    return _listed(call, whole=True)


@blueprint.get(
    f"{_ALL}/statistics",
    policy=f"{_POLICY}:statistics",
    until=mv.LEAN_HYPERVISORS.before,
    refusals=(404,),
)
def statistics(call: Call) -> Answer:
    """Return the sums over the hypervisors of enabled services."""
    with call.services.database.read() as connection:
        enabled = [each for each in hypervisors.page(connection) if not each.service.disabled]
        sums = _summed(hypervisors.whole(connection, enabled))
    return Answer(body={"hypervisor_statistics": sums})


@blueprint.get(_ONE, policy=f"{_POLICY}:show", query=SHOW)
def show(call: Call, hypervisor_id: str) -> Answer:
    """Return one hypervisor, with its instances if requested."""
    wants_servers = _wants_servers(call)
    with call.services.database.read() as connection:
        found = _one(connection, call, hypervisor_id)
        servers = _servers(connection, [found]) if wants_servers else None
    return Answer(body={"hypervisor": _shown(call, found, servers)})


@blueprint.get(
    f"{_ONE}/uptime", policy=f"{_POLICY}:uptime", until=mv.LEAN_HYPERVISORS.before, refusals=(501,)
)
def uptime(call: Call, hypervisor_id: str) -> Answer:
    """Return the uptime that a host reported.

    Raises :class:`NotKnown` where it reported none, :class:`Invalid` where it is down.
    """
    found = call.read(_one, call, hypervisor_id)
    document = _shown_briefly(call, found)
    if found.node.stats.get("uptime") is None:
        raise NotKnown(f"Host {found.service.host} has not reported its uptime (in stats.uptime)")
    if document["state"] != "up":
        raise Invalid(f"Compute service of {found.service.host} is unavailable at this time.")
    return Answer(body={"hypervisor": document | {"uptime": found.node.stats.get("uptime")}})


@blueprint.get(f"{_ONE}/search", policy=f"{_POLICY}:search", until=mv.UUIDS.before)
def search(call: Call, hypervisor_id: str) -> Answer:
    """List the hypervisors whose name contains a text."""
    found = call.read(_matching, hypervisor_id)
    return Answer(body={"hypervisors": [_shown_briefly(call, each) for each in found]})


@blueprint.get(f"{_ONE}/servers", policy=f"{_POLICY}:servers", until=mv.UUIDS.before)
def servers(call: Call, hypervisor_id: str) -> Answer:
    """List the hypervisors whose name contains a text, with their instances."""
    with call.services.database.read() as connection:
        found = _matching(connection, hypervisor_id)
        there = _servers(connection, found)
    return Answer(body={"hypervisors": [_shown_briefly(call, each, there) for each in found]})


def _listed(call: Call, *, whole: bool) -> Answer:
    part, after, limit = _asked(call)
    wants_servers = _wants_servers(call)
    with call.services.database.read() as connection:
        if part is None:
            found = hypervisors.page(connection, after=after, limit=limit)
        else:
            found = _matching(connection, part)
        there = _servers(connection, found) if wants_servers else None
        if whole:
            detailed = hypervisors.whole(connection, found)
            documents = [_shown(call, each, there) for each in detailed]
        else:
            documents = [_shown_briefly(call, each, there) for each in found]
    links = {}
    if limit is not None:
        markers = [id_of(call, each) for each in found]
        links = next_links(call, f"os-hypervisors{'/detail' if whole else ''}", markers)
    return Answer(body={"hypervisors": documents, **links})


def _asked(call: Call) -> tuple[str | None, int | str | None, int | None]:
    """Return the part of their names that hypervisors are listed by, or marker and limit."""
    if not call.version.has(mv.HYPERVISOR_PAGES):
        return None, None, None
    part = call.value("hypervisor_hostname_pattern") if call.version.has(mv.UUIDS) else None
    marker = call.value("marker")
    if part is None:
        missing = Invalid(f"marker [{marker}] not found")
        return None, None if marker is None else key(call, marker, missing), at_most(call)
    if marker is not None or call.value("limit") is not None:
        raise Invalid(
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter "
            "is not supported."
        )
    return part, None, None


def _wants_servers(call: Call) -> bool:
    """Return whether the instances of hypervisors are requested (since 2.53)."""
    given = call.value("with_servers") if call.version.has(mv.UUIDS) else None
    invalid = f"Invalid query string parameters: '{given}' is not a boolean (at $.with_servers)"
    return given is not None and boolean(given, invalid)


def _matching(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return the hypervisors whose name contains a text; raises :class:`NotFound` for none."""
    found = hypervisors.matching(connection, part)
    if not found:
        raise NotFound(f"No hypervisor matching '{part}' could be found.")
    return found


def _servers(connection: Connection, found: Sequence[Hypervisor]) -> _Servers:
    by_host = defaultdict(list)
    for named in instances.named_on_hosts(connection, {each.service.host for each in found}):
        by_host[named.host].append(named)
    return by_host


def _one(connection: Connection, call: Call, hypervisor_id: str) -> WholeHypervisor:
    missing = NotFound(f"Hypervisor with ID '{hypervisor_id}' could not be found.")
    named = hypervisors.get(connection, key(call, hypervisor_id, missing))
    for found in hypervisors.whole(connection, [named]):
        return found
    raise missing


def _shown_briefly(call: Call, hypervisor: Hypervisor, servers: _Servers | None = None) -> Json:
    service = hypervisor.service
    document: Json = {
        "id": id_of(call, hypervisor),
        "hypervisor_hostname": hypervisor.name,
        "state": state(call, service),
        "status": "disabled" if service.disabled else "enabled",
    }
    if servers is not None:
        found = [
            {"name": named.display_name, "uuid": named.uuid}
            for named in servers.get(service.host, ())
            # An instance without a node is on each node of its host.
            if named.node in {None, hypervisor.name}
        ]
        if found or call.version.has(mv.CONSISTENT):
            document["servers"] = found
    return document


def _shown(call: Call, hypervisor: WholeHypervisor, servers: _Servers | None = None) -> Json:
    node, service = hypervisor.node, hypervisor.service
    document = _shown_briefly(call, hypervisor, servers) | {
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": id_of(call, service),
            "host": service.host,
            "disabled_reason": service.disabled_reason,
        },
    }
    if call.version.has(mv.LEAN_HYPERVISORS):
        # As in nova, the uptime of a host without a heartbeat is unknown.
        is_up = document["state"] == "up"
        return document | {"uptime": node.stats.get("uptime") if is_up else None}
    read = orjson.loads if call.version.has(mv.CPU_INFO_OBJECT) else str
    return document | {"cpu_info": read(node.cpu_info)} | _measured(hypervisor)


def _measured(hypervisor: WholeHypervisor) -> dict[str, int | None]:
    """Return a hypervisor's measures in MB, GB and numbers; None where the host does not know."""
    node = hypervisor.node
    return {name: getattr(node, name) for name in _MEASURES} | {
        "current_workload": int(node.stats.get("io_workload", 0)),
        "running_vms": int(node.stats.get("num_instances", 0)),
    }


def _summed(hypervisors: Iterable[WholeHypervisor]) -> dict[str, int]:
    """Return how many hypervisors there are, and the sums of their measures; unknown ones are 0."""
    sums = dict.fromkeys(("count", *_MEASURES, "current_workload", "running_vms"), 0)
    for hypervisor in hypervisors:
        for name, value in {"count": 1, **_measured(hypervisor)}.items():
            sums[name] += value or 0
    return sums
