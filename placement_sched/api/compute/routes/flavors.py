"""Routes of flavors."""

from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.callers import confined_to
from placement_sched.api.compute.flavor_documents import read, shown, shown_briefly
from placement_sched.api.compute.flavor_queries import next_page, wanted
from placement_sched.api.compute.microversions import (
    FLAVOR_DESCRIPTION,
    NO_ACCESS_TO_PUBLIC_FLAVORS,
)
from placement_sched.api.compute.schemas import flavors as schemas
from placement_sched.api.route import Route
from placement_sched.operations import flavors
from placement_sched.store import flavor_list


def index(call: Call) -> Answer:
    """Return the flavors that the caller sees, by name and id."""
    asked = wanted(call)
    with call.services.database.read() as connection:
        found = flavor_list.search(connection, asked, extra_specs=False)
    documents = [shown_briefly(call, each) for each in found]
    return Answer(body={"flavors": documents, **next_page(call, "flavors", found)})


def detail(call: Call) -> Answer:
    """Return the flavors that the caller sees, whole."""
    asked = wanted(call)
    with call.services.database.read() as connection:
        found = flavor_list.search(connection, asked, extra_specs=True)
    documents = [shown(call, each) for each in found]
    return Answer(body={"flavors": documents, **next_page(call, "flavors/detail", found)})


def create(call: Call) -> Answer:
    """Create a flavor."""
    flavor = read(call.body["flavor"])
    made = call.services.database.write(
        lambda connection: flavors.create(connection, flavor, call.now())
    )
    return Answer(body={"flavor": shown(call, made)})


def show(call: Call, flavor_id: str) -> Answer:
    """Return one flavor, which is public or for the caller's project."""
    with call.services.database.read() as connection:
        found = flavors.get(connection, flavor_id, confined_to(call))
    return Answer(body={"flavor": shown(call, found)})


def update(call: Call, flavor_id: str) -> Answer:
    """Change what is told of a flavor; all else of it stays as it is."""
    text = call.body["flavor"]["description"]
    changed = call.services.database.write(
        lambda connection: flavors.describe(connection, flavor_id, text, call.now())
    )
    return Answer(body={"flavor": shown(call, changed)})


def delete(call: Call, flavor_id: str) -> Answer:
    """Delete a flavor."""
    call.services.database.write(lambda connection: flavors.delete(connection, flavor_id))
    return Answer(status=202)


def access(call: Call, flavor_id: str) -> Answer:
    """Return the projects that a private flavor is for."""
    with call.services.database.read() as connection:
        return Answer(body=_access(flavor_id, flavors.projects(connection, flavor_id)))


def add_tenant_access(call: Call, flavor_id: str) -> Answer:
    """Let a project use a private flavor."""
    project = call.body["addTenantAccess"]["tenant"]
    public = not call.version.has(NO_ACCESS_TO_PUBLIC_FLAVORS)
    projects = call.services.database.write(
        lambda connection: flavors.let_in(connection, flavor_id, project, call.now(), public=public)
    )
    return Answer(body=_access(flavor_id, projects))


def remove_tenant_access(call: Call, flavor_id: str) -> Answer:
    """Let a project use a private flavor no more."""
    project = call.body["removeTenantAccess"]["tenant"]
    projects = call.services.database.write(
        lambda connection: flavors.shut_out(connection, flavor_id, project)
    )
    return Answer(body=_access(flavor_id, projects))


def _access(flavor_id: str, projects: tuple[str, ...]) -> dict[str, Any]:
    return {"flavor_access": [{"flavor_id": flavor_id, "tenant_id": each} for each in projects]}


_READ = "os_compute_api:flavors"
_MANAGE = "os_compute_api:os-flavor-manage"
_ACCESS = "os_compute_api:os-flavor-access"
_ALL = "/v2.1/flavors"
_ONE = f"{_ALL}/<flavor_id>"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=_READ,
        query=schemas.LIST,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="GET",
        path=f"{_ALL}/detail",
        handler=detail,
        policy=_READ,
        query=schemas.LIST,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_MANAGE}:create",
        body=schemas.CREATE,
        statuses=(200, 400, 401, 403, 409),
    ),
    Route(method="GET", path=_ONE, handler=show, policy=_READ, statuses=(200, 401, 403, 404)),
    Route(
        method="PUT",
        path=_ONE,
        since=FLAVOR_DESCRIPTION,
        handler=update,
        policy=f"{_MANAGE}:update",
        body=schemas.UPDATE,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy=f"{_MANAGE}:delete",
        statuses=(202, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/os-flavor-access",
        handler=access,
        policy=_ACCESS,
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/action",
        action="addTenantAccess",
        handler=add_tenant_access,
        policy=f"{_ACCESS}:add_tenant_access",
        body=schemas.ADD_TENANT_ACCESS,
        statuses=(200, 400, 401, 403, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/action",
        action="removeTenantAccess",
        handler=remove_tenant_access,
        policy=f"{_ACCESS}:remove_tenant_access",
        body=schemas.REMOVE_TENANT_ACCESS,
        statuses=(200, 400, 401, 403, 404),
    ),
)
