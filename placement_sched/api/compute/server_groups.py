# SPDX-License-Identifier: Apache-2.0
"""Routes of server groups (compute API reference, "Server groups")."""

from uuid import uuid4

from placement_sched.api import compute
from placement_sched.api.compute import PAGE, TEXT, require, wrap_schema
from placement_sched.api.compute import microversions as mv
from placement_sched.api.paging import parse_page_size
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.limits import MAX_PAGE
from placement_sched.model.aggregates import MAX_SERVER_PER_HOST, POLICIES, ServerGroup
from placement_sched.model.document import Json
from placement_sched.operations import services
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.schemas.formats import normalize_uuid
from placement_sched.schemas.parts import GROUP_POLICY, PRINTABLE_NAME, build_object_schema
from placement_sched.store.compute import server_groups as store

blueprint = Blueprint("os_server_groups", __name__, changes=NovaObjectKind.SERVER_GROUPS)

_POLICY = "os_compute_api:os-server-groups"
_COLLECTION_PATH = "/v2.1/os-server-groups"
_ITEM_PATH = f"{_COLLECTION_PATH}/<server_group_id>"


def _with_policies(*policies: str) -> Json:
    policy: Json = {"type": "string", "enum": list(policies)}
    field: Json = {"type": "array", "items": policy, "minItems": 1, "maxItems": 1}
    return wrap_schema(
        "server_group",
        build_object_schema({"name": PRINTABLE_NAME, "policies": field}, "name", "policies"),
    )


_RULES: Json = build_object_schema({MAX_SERVER_PER_HOST: compute.build_number_schema(1)})
_GROUP: Json = build_object_schema(
    {"name": PRINTABLE_NAME, "policy": GROUP_POLICY, "rules": _RULES}, "name", "policy"
)
CREATE = Schemas(
    (mv.OLDEST, _with_policies("affinity", "anti-affinity")),
    (mv.SOFT_AFFINITY, _with_policies(*POLICIES)),
    (mv.SERVER_GROUP_RULES, wrap_schema("server_group", _GROUP)),
)
LIST = compute.build_query_schema(
    {"all_projects": TEXT, "limit": PAGE, "offset": PAGE, "marker": TEXT}
)


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:index", query=LIST)
def index(call: ApiCall) -> ApiResponse:
    """List server groups of the caller's project, or of all projects."""
    project_id: str | None = call.identity.project_id
    # As in nova, other callers see only the groups of their own project.
    if call.find_value("all_projects") is not None and call.is_allowed(compute.ADMINISTRATOR):
        require(call, f"{_POLICY}:index:all_projects", None)
        project_id = None
    # Unlike in nova, the marker has an effect. Otherwise openstacksdk would never reach the end.
    marker = call.find_value("marker")
    groups = call.read(
        store.search,
        project_id=project_id,
        marker=None if marker is None else normalize_uuid(marker),
        offset=0 if marker else min(int(call.find_value("offset") or 0), compute.LARGEST),
        limit=parse_page_size(call) or MAX_PAGE,  # as in nova, limit=0 means no limit
    )
    documents = [_build_document(group, call.version) for group in groups]
    return ApiResponse(body={"server_groups": documents})


@blueprint.post(_COLLECTION_PATH, policy=f"{_POLICY}:create", body=CREATE)
def create(call: ApiCall) -> ApiResponse:
    """Create a group in the caller's project."""
    body = call.body["server_group"]
    # Schemas do not check the range of numbers that are sent as text.
    rules = {
        name: compute.parse_bounded(value, 1, f"$.server_group.rules.{name}")
        for name, value in body.get("rules", {}).items()
    }
    group = ServerGroup(
        uuid=str(uuid4()),
        name=body["name"],
        policy=body["policy"] if "policy" in body else body["policies"][0],
        rules=rules,
        project_id=call.identity.get_owner_id("project"),
        user_id=call.identity.get_owner_id("user"),
    )
    call.write(services.create_group, group, call.read_clock())
    return ApiResponse(body={"server_group": _build_document(group, call.version)})


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show")
def show(call: ApiCall, server_group_id: str) -> ApiResponse:
    """Show a group."""
    group = call.read(services.get_group, normalize_uuid(server_group_id))
    require(call, f"{_POLICY}:show", group.project_id)
    return ApiResponse(body={"server_group": _build_document(group, call.version)})


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,))
@run_in_transaction
def delete(call: ApiCall, connection: Connection, server_group_id: str) -> ApiResponse:
    """Delete a group, but not its members."""
    uuid = normalize_uuid(server_group_id)
    require(call, f"{_POLICY}:delete", services.get_group(connection, uuid).project_id)
    services.delete_group(connection, uuid)
    return ApiResponse(status=204)


def _build_document(group: ServerGroup, version: Version) -> Json:
    document: Json = {"id": group.uuid, "name": group.name, "members": list(group.members)}
    if version.has(mv.SERVER_GROUP_RULES):
        document |= {"policy": group.policy, "rules": dict(group.rules)}
    else:
        document |= {"policies": group.policies, "metadata": {}}
    if version.has(mv.SERVER_GROUP_OWNERS):
        document |= {"project_id": group.project_id, "user_id": group.user_id}
    return document
