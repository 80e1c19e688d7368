# SPDX-License-Identifier: Apache-2.0
"""Route of the hosts without instances."""

from placement_sched.api.policy import Rule
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.schemas.parts import NAME, build_list_schema, build_object_schema
from placement_sched.store.compute import compute_nodes, instances

blueprint = Blueprint("free_hosts", __name__)
FREE_HOSTS = Schemas(build_object_schema({"free_hosts": build_list_schema(NAME)}, "free_hosts"))


@blueprint.get("/v1/free_hosts", policy="acme:free_hosts", response=FREE_HOSTS)
def index(call: ApiCall) -> ApiResponse:
    """List the hosts without instances."""
    return ApiResponse(body={"free_hosts": call.read(list_free_hosts)})


def list_free_hosts(connection: Connection) -> list[str]:
    """Return the names of the hosts without instances, sorted."""
    hosts = compute_nodes.list_names(connection)
    occupied = {instance.host for instance in instances.list_by_hosts(connection, hosts)}
    return sorted(hosts - occupied)


BLUEPRINTS = (blueprint,)
RULES = (Rule("acme:free_hosts", "role:admin", "List the hosts without instances."),)
