"""Routes of servers: the recorded instances, to be looked at."""

from placement_sched.api.addressed import usual
from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.callers import confined_to
from placement_sched.api.compute.microversions import SERVER_GROUPS_OF_SERVER
from placement_sched.api.compute.schemas import servers as schemas
from placement_sched.api.compute.server_documents import Surroundings, shown, shown_briefly
from placement_sched.api.compute.server_queries import next_page, wanted
from placement_sched.api.route import Route
from placement_sched.errors import Forbidden, NotFound
from placement_sched.store import instances, server_groups, server_list


def index(call: Call) -> Answer:
    """Return the servers that are asked for, by name and id."""
    asked = wanted(call, "index")
    with call.services.database.read() as connection:
        found = server_list.search(connection, asked) if asked else ()
    documents = [shown_briefly(call, each) for each in found]
    return Answer(body={"servers": documents, **next_page(call, "servers", found)})


def detail(call: Call) -> Answer:
    """Return the servers that are asked for."""
    asked = wanted(call, "detail")
    with call.services.database.read() as connection:
        found = server_list.search(connection, asked) if asked else ()
        around = Surroundings.read(call, connection, found)
    documents = [shown(call, each, around) for each in found]
    return Answer(body={"servers": documents, **next_page(call, "servers/detail", found)})


def show(call: Call, server_id: str) -> Answer:
    """Return one server, which is of the caller's project or an administrator's to see."""
    confined = confined_to(call)
    with call.services.database.read() as connection:
        found = instances.by_uuids(connection, [usual(server_id)])
        if not found or confined not in {None, found[0].project_id}:
            raise NotFound(f"Instance {server_id} could not be found.")
        around = Surroundings.read(call, connection, found)
        group = server_groups.of_instance(connection, found[0].uuid)
    document = shown(call, found[0], around)
    if call.version.has(SERVER_GROUPS_OF_SERVER):
        document["server_groups"] = [] if group is None else [group]
    return Answer(body={"server": document})


def refuse(call: Call, server_id: str | None = None) -> Answer:  # noqa: ARG001 - a handler's
    """Refuse to make, change or delete a server: computes do, and tell the scheduler."""
    raise Forbidden(
        "Servers are shown here as they were recorded, and cannot be made, changed or deleted; "
        "instances are recorded at /scheduler/v1/instances and placed by "
        "/scheduler/v1/select_destinations."
    )


_POLICY = "os_compute_api:servers"
_ALL = "/v2.1/servers"
_ONE = f"{_ALL}/<server_id>"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:index",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="GET",
        path=f"{_ALL}/detail",
        handler=detail,
        policy=f"{_POLICY}:detail",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404),
    ),
    *(
        Route(method=method, path=path, handler=refuse, policy=policy, statuses=(401, 403))
        for method, path, policy in (
            ("POST", _ALL, f"{_POLICY}:create"),
            ("PUT", _ONE, f"{_POLICY}:update"),
            ("DELETE", _ONE, f"{_POLICY}:delete"),
            ("POST", f"{_ONE}/action", f"{_POLICY}:update"),
        )
    ),
)
