"""Routes of server groups."""

from typing import Any
from uuid import uuid4

from placement_sched.api.addressed import usual
from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.callers import ADMINISTRATOR, may, require
from placement_sched.api.compute.microversions import SERVER_GROUP_OWNERS, SERVER_GROUP_RULES
from placement_sched.api.compute.paging import MOST, at_most
from placement_sched.api.compute.schemas import os_server_groups as schemas
from placement_sched.api.compute.schemas.parts import LARGEST
from placement_sched.api.microversion import Version
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.model.server_group import MOST_PER_HOST, ServerGroup
from placement_sched.operations import server_groups
from placement_sched.store import server_groups as store

_POLICY = "os_compute_api:os-server-groups"


def index(call: Call) -> Answer:
    """Return the groups of the caller's project; of all, where an administrator asks for them."""
    project_id: str | None = call.identity.project_id
    # Others who ask for all projects see their own, as in nova.
    if call.value("all_projects") is not None and may(call, ADMINISTRATOR):
        require(call, f"{_POLICY}:index:all_projects", None)
        project_id = None
    # nova knows no marker, but openstacksdk pages by it: it would read the first page for ever.
    marker = call.value("marker")
    with call.services.database.read() as connection:
        found = store.search(
            connection,
            project_id=project_id,
            marker=None if marker is None else usual(marker),
            offset=0 if marker else min(int(call.value("offset") or 0), LARGEST),
            limit=at_most(call) or MOST,  # none is asked for by limit=0, as in nova
        )
    return Answer(body={"server_groups": [_document(each, call.version) for each in found]})


def create(call: Call) -> Answer:
    """Create a group in the caller's project."""
    given = call.body["server_group"]
    group = ServerGroup(
        uuid=str(uuid4()),
        name=given["name"],
        policy=given["policy"] if "policy" in given else given["policies"][0],
        rules={key: _bounded(value) for key, value in given.get("rules", {}).items()},
        project_id=call.identity.owning_project(),
        user_id=call.identity.owning_user(),
    )
    call.services.database.write(
        lambda connection: server_groups.create(connection, group, call.now())
    )
    return Answer(body={"server_group": _document(group, call.version)})


def show(call: Call, server_group_id: str) -> Answer:
    """Return one group."""
    with call.services.database.read() as connection:
        found = server_groups.get(connection, usual(server_group_id))
    require(call, f"{_POLICY}:show", found.project_id)
    return Answer(body={"server_group": _document(found, call.version)})


def delete(call: Call, server_group_id: str) -> Answer:
    """Delete a group; its members stay."""
    uuid = usual(server_group_id)

    def work(connection: Connection) -> None:
        found = server_groups.get(connection, uuid)
        require(call, f"{_POLICY}:delete", found.project_id)
        server_groups.delete(connection, uuid)

    call.services.database.write(work)
    return Answer(status=204)


def _bounded(given: str | float) -> int:
    """Return a number that may be given as text, which its schema does not bound."""
    number = int(given)
    if not 1 <= number <= LARGEST:
        raise Invalid(
            f"{number} is not from 1 to {LARGEST} (at $.server_group.rules.{MOST_PER_HOST})"
        )
    return number


def _document(group: ServerGroup, version: Version) -> dict[str, Any]:
    """Return a group as the compute API shows it."""
    document: dict[str, Any] = {
        "id": group.uuid,
        "name": group.name,
        "members": list(group.members),
    }
    if version.has(SERVER_GROUP_RULES):
        document.update(policy=group.policy, rules=dict(group.rules))
    else:
        document.update(policies=group.policies, metadata={})
    if version.has(SERVER_GROUP_OWNERS):
        document.update(project_id=group.project_id, user_id=group.user_id)
    return document


_ALL = "/v2.1/os-server-groups"
_ONE = f"{_ALL}/<server_group_id>"

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
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        body=schemas.CREATE,
        statuses=(200, 400, 401, 403),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy=f"{_POLICY}:delete",
        statuses=(204, 401, 403, 404),
    ),
)
