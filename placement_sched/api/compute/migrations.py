# SPDX-License-Identifier: Apache-2.0
"""Routes of migrations (compute API reference, "Migrations")."""

from collections.abc import Iterator, Mapping, Sequence

from oslo_utils.strutils import bool_from_string

from placement_sched.api.compute import PAGE, TEXT, format_time_in_microseconds, require
from placement_sched.api.compute import microversions as mv
from placement_sched.api.paging import build_next_links, parse_page_size
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.errors import Invalid
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.document import Json
from placement_sched.schemas import formats
from placement_sched.schemas.parts import build_object_schema
from placement_sched.store.compute import compute_nodes
from placement_sched.store.compute.migrations import Migration, list_migrations

blueprint = Blueprint("os_migrations", __name__)

_POLICY = "os_compute_api:os-migrations"
#: nova's status of a migration, by the status of the server.
_STATUSES = {"MIGRATING": "running", "VERIFY_RESIZE": "finished", "REVERT_RESIZE": "reverting"}
_LIVE, _RESIZE, _COLD = "live-migration", "resize", "migration"

_FILTERS: Json = dict.fromkeys(
    ("hidden", "host", "instance_uuid", "migration_type", "source_compute", "status"), TEXT
)
_PAGE: Json = _FILTERS | {"limit": PAGE, "marker": TEXT, "changes-since": TEXT}
_CHANGES: Json = _PAGE | {"changes-before": TEXT}
LIST = Schemas(
    (mv.OLDEST, {"type": "object", "properties": _FILTERS}),
    (mv.MIGRATION_PAGES, build_object_schema(_PAGE)),
    (mv.CHANGES_BEFORE, build_object_schema(_CHANGES)),
    (mv.MIGRATION_OWNERS, build_object_schema(_CHANGES | {"user_id": TEXT, "project_id": TEXT})),
)


@blueprint.get("/v2.1/os-migrations", policy=f"{_POLICY}:index", query=LIST)
def index(call: ApiCall) -> ApiResponse:
    """List the migrations in progress, the newest first."""
    query = dict(call.query)  # the last value of a repeated filter
    project_id = query.get("project_id") if call.version.has(mv.MIGRATION_OWNERS) else None
    if project_id != call.identity.project_id or not project_id:
        require(call, f"{_POLICY}:index:all_projects", None)
    with call.services.database.read() as connection:
        migrations = _select(call, query, list_migrations(connection))
        page = _cut(call, migrations)
        uuids = [item.target.uuid for item in page if item.target]
        targets = {node.uuid: node for node in compute_nodes.list_by_uuids(connection, uuids)}
    documents = [_build_document(call, item, targets) for item in page]
    links: Json = {}
    if call.version.has(mv.MIGRATION_PAGES):
        links = build_next_links(call, "os-migrations", [item.uuid for item in page])
    return ApiResponse(body={"migrations": documents, **links})


def _select(
    call: ApiCall, query: Mapping[str, str], migrations: Sequence[Migration]
) -> list[Migration]:
    """Return the migrations that match all filters of the query."""
    if (hidden := query.get("hidden")) and bool_from_string(hidden, default=True):
        return []  # nova never shows hidden migrations
    times = {"changes-since": mv.MIGRATION_PAGES, "changes-before": mv.CHANGES_BEFORE}
    since, until = (
        formats.read(formats.parse_datetime, query[key], key)
        if key in query and call.version.has(version)
        else None
        for key, version in times.items()
    )
    if since is not None and until is not None and until < since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    equal = {
        key: formats.normalize_uuid(query[key]) if key == "instance_uuid" else query[key]
        for key in ("instance_uuid", "status", "migration_type")
        if key in query
    }
    if call.version.has(mv.MIGRATION_OWNERS):
        equal |= {key: query[key] for key in ("project_id", "user_id") if key in query}

    def matches(item: Migration) -> bool:
        if "host" in query:
            is_on_host = query["host"] in _list_hosts(item)
        else:
            is_on_host = query.get("source_compute", item.source.host) == item.source.host
        changed = item.updated_at or item.created_at
        return (
            is_on_host
            and all(_get(item, key) == value for key, value in equal.items())
            and (since is None or (changed is not None and changed >= since))
            and (until is None or (changed is not None and changed <= until))
        )

    return list(filter(matches, migrations))


def _list_hosts(item: Migration) -> Iterator[str]:
    yield item.source.host
    if item.target is not None:
        yield item.target.host


def _get(item: Migration, key: str) -> str:
    match key:
        case "instance_uuid":
            return item.instance
        case "status":
            return _STATUSES.get(item.server_status, "migrating")
        case "migration_type":
            cold = _RESIZE if item.is_resize else _COLD
            return _LIVE if item.server_status == "MIGRATING" else cold
    return item.project_id if key == "project_id" else item.user_id


def _cut(call: ApiCall, migrations: Sequence[Migration]) -> Sequence[Migration]:
    """Return a page since 2.59, and before it all migrations."""
    if not call.version.has(mv.MIGRATION_PAGES):
        return migrations
    first, marker = 0, call.find_value("marker")
    if marker is not None:
        uuid = formats.normalize_uuid(marker)
        first = next((n for n, item in enumerate(migrations, 1) if item.uuid == uuid), 0)
        if not first:
            raise Invalid(f"Marker {marker} could not be found.")
    return migrations[first : first + parse_page_size(call)]


def _build_document(call: ApiCall, item: Migration, targets: Mapping[str, ComputeNode]) -> Json:
    shows_hosts = call.is_allowed(f"{_POLICY}:index:host")
    target = item.target if shows_hosts else None
    node = None if target is None else targets.get(target.uuid)
    document: Json = {
        "id": item.id,
        "instance_uuid": item.instance,
        "status": _get(item, "status"),
        "source_compute": item.source.host if shows_hosts else None,
        "source_node": item.source.node if shows_hosts else None,
        "dest_compute": None if target is None else target.host,
        "dest_node": None if target is None else target.node,
        "dest_host": None if node is None else node.host_ip,
        "old_instance_type_id": None,
        "new_instance_type_id": None,
        "created_at": format_time_in_microseconds(item.created_at),
        "updated_at": format_time_in_microseconds(item.updated_at),
    }
    if call.version.has(mv.MIGRATION_TYPE):
        document["migration_type"] = _get(item, "migration_type")
    if call.version.has(mv.MIGRATION_PAGES):
        document["uuid"] = item.uuid
    if call.version.has(mv.MIGRATION_OWNERS):
        document |= {"project_id": item.project_id, "user_id": item.user_id}
    return document
