"""Routes of hypervisors: compute nodes with the service of their host."""

from collections.abc import Callable, Sequence
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.hypervisor_documents import (
    Servers,
    by_host,
    shown,
    shown_briefly,
)
from placement_sched.api.compute.hypervisor_queries import (
    Wanted,
    next_page,
    wanted,
    with_servers,
)
from placement_sched.api.compute.keys import key
from placement_sched.api.compute.microversions import LEAN_HYPERVISORS, UUIDS
from placement_sched.api.compute.schemas import os_hypervisors as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound, NotKnown
from placement_sched.model.hypervisor import Hypervisor, WholeHypervisor, summed
from placement_sched.store import hypervisors, instances

Json = dict[str, Any]


def index(call: Call) -> Answer:
    """Return hypervisors by name, with their instances if asked."""

    def told(_: Connection, found: Sequence[Hypervisor], servers: Servers | None) -> list[Json]:
        return [shown_briefly(call, each, servers) for each in found]

    return _listed(call, "os-hypervisors", told)


def detail(call: Call) -> Answer:
    """Return hypervisors whole, with their instances if asked."""

    def told(
        connection: Connection, found: Sequence[Hypervisor], servers: Servers | None
    ) -> list[Json]:
        return [shown(call, each, servers) for each in hypervisors.whole(connection, found)]

    return _listed(call, "os-hypervisors/detail", told)


def statistics(call: Call) -> Answer:
    """Return what all hypervisors of enabled services have together."""
    with call.services.database.read() as connection:
        enabled = [each for each in hypervisors.page(connection) if not each.service.disabled]
        sums = summed(hypervisors.whole(connection, enabled))
    return Answer(body={"hypervisor_statistics": sums})


def show(call: Call, hypervisor_id: str) -> Answer:
    """Return one hypervisor whole, with its instances if asked."""
    wants_servers = with_servers(call)
    with call.services.database.read() as connection:
        found = _one(call, connection, hypervisor_id)
        servers = _servers(connection, [found]) if wants_servers else None
    return Answer(body={"hypervisor": shown(call, found, servers)})


def uptime(call: Call, hypervisor_id: str) -> Answer:
    """Return what a host said of its uptime.

    Raises :class:`NotKnown` for one that said nothing, :class:`Invalid` for one that is down.
    """
    with call.services.database.read() as connection:
        found = _one(call, connection, hypervisor_id)
    document = shown_briefly(call, found)
    if found.uptime is None:
        raise NotKnown(f"The reports of host {found.service.host} tell no uptime (in stats.uptime)")
    if document["state"] != "up":
        raise Invalid(f"Compute service of {found.service.host} is unavailable at this time.")
    return Answer(body={"hypervisor": document | {"uptime": found.uptime}})


def search(call: Call, hypervisor_id: str) -> Answer:
    """Return the hypervisors whose name has a part."""
    with call.services.database.read() as connection:
        found = _matching(connection, hypervisor_id)
    return Answer(body={"hypervisors": [shown_briefly(call, each) for each in found]})


def servers(call: Call, hypervisor_id: str) -> Answer:
    """Return the hypervisors whose name has a part, with their instances."""
    with call.services.database.read() as connection:
        found = _matching(connection, hypervisor_id)
        there = _servers(connection, found)
    return Answer(body={"hypervisors": [shown_briefly(call, each, there) for each in found]})


Teller = Callable[[Connection, Sequence[Hypervisor], Servers | None], list[Json]]


def _listed(call: Call, path: str, told: Teller) -> Answer:
    """Return the hypervisors that the query asks for, as ``told`` writes them."""
    asked, wants_servers = wanted(call), with_servers(call)
    with call.services.database.read() as connection:
        found = _found(connection, asked)
        servers = _servers(connection, found) if wants_servers else None
        documents = told(connection, found, servers)
    return Answer(body={"hypervisors": documents, **next_page(call, path, asked, found)})


def _found(connection: Connection, asked: Wanted) -> tuple[Hypervisor, ...]:
    if asked.part is not None:
        return _matching(connection, asked.part)
    return hypervisors.page(connection, after=asked.marker, limit=asked.limit)


def _matching(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return the hypervisors whose name has a part; raises :class:`NotFound` for none."""
    found = hypervisors.matching(connection, part)
    if not found:
        raise NotFound(f"No hypervisor matching '{part}' could be found.")
    return found


def _servers(connection: Connection, found: Sequence[Hypervisor]) -> Servers:
    return by_host(instances.named_on_hosts(connection, {each.service.host for each in found}))


def _one(call: Call, connection: Connection, hypervisor_id: str) -> WholeHypervisor:
    missing = NotFound(f"Hypervisor with ID '{hypervisor_id}' could not be found.")
    named = hypervisors.get(connection, key(call, hypervisor_id, missing))
    for found in hypervisors.whole(connection, [named]):
        return found
    raise missing


_POLICY = "os_compute_api:os-hypervisors"
_ALL = "/v2.1/os-hypervisors"
_ONE = f"{_ALL}/<hypervisor_id>"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=f"{_ALL}/detail",
        handler=detail,
        policy=f"{_POLICY}:list-detail",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=f"{_ALL}/statistics",
        until=LEAN_HYPERVISORS.before,
        handler=statistics,
        policy=f"{_POLICY}:statistics",
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        query=schemas.SHOW,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/uptime",
        until=LEAN_HYPERVISORS.before,
        handler=uptime,
        policy=f"{_POLICY}:uptime",
        statuses=(200, 400, 401, 403, 404, 501),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/search",
        until=UUIDS.before,
        handler=search,
        policy=f"{_POLICY}:search",
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/servers",
        until=UUIDS.before,
        handler=servers,
        policy=f"{_POLICY}:servers",
        statuses=(200, 401, 403, 404),
    ),
)
