# SPDX-License-Identifier: Apache-2.0
"""Routes of servers: read-only views of recorded instances (compute API)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha224
from itertools import zip_longest
from urllib.parse import quote

from oslo_utils.strutils import bool_from_string

from placement_sched.api.compute import (
    PAGE,
    TEXT,
    build_bookmark_link,
    build_links,
    get_state,
    get_visible_project,
    require,
)
from placement_sched.api.compute import microversions as mv
from placement_sched.api.paging import build_next_links, parse_page_size
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.errors import Forbidden, Invalid, NotFound
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.instance import POWER_STATES, Instance, derive_status
from placement_sched.operations import aggregates
from placement_sched.schemas import formats
from placement_sched.schemas.formats import format_seconds, normalize_uuid, parse_boolean
from placement_sched.schemas.parts import build_object_schema
from placement_sched.store.compute import instances, server_groups, services
from placement_sched.store.compute.instances import NEWEST_FIRST, SORT_KEYS, ServerQuery

blueprint = Blueprint("servers", __name__)
_COLLECTION_PATH = "/v2.1/servers"
_ITEM_PATH = f"{_COLLECTION_PATH}/<server_id>"
#: The zones and the services of hosts, both by host.
_Hosts = tuple[Mapping[str, str], Mapping[str, Service]]

_POLICY = "os_compute_api:servers"
_ALL_FILTERS = f"{_POLICY}:allow_all_filters"

#: Filters for the equality with a column, and the names of the columns.
_COLUMN_BY_FILTER: Mapping[str, str] = {
    **{name: name for name in ("host", "node", "task_state", "user_id", "uuid", "vm_state")},
    "flavor": "flavorid",
    "hostname": "display_name",
    "image": "image_id",
    "image_ref": "image_id",
}
_ADDRESSES = ("access_ip_v4", "access_ip_v6", "ip", "ip6")
_BOOTED_FROM = ("kernel_id", "ramdisk_id", "root_device_name")
_STARTED = ("key_name", "launched_at", "terminated_at")
_TEXTS = ("description", "display_description", "instance_name", "locked_by", "reservation_id")
_PINNED_ZONE = "pinned_availability_zone"
TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
#: The fields that servers lack here: a list filtered by such a field is empty.
_ALWAYS_EMPTY = frozenset((*_ADDRESSES, *_BOOTED_FROM, *_STARTED, *_TEXTS, *TAGS[:2]))
#: The fields that are false, or 0, for every server.
_ALWAYS_FALSE = frozenset((
    "auto_disk_config", "config_drive", "deleted", "is_public", "launch_index", "locked",
    "progress", "soft_deleted",
))  # fmt: skip

#: The filters for callers without ``allow_all_filters``. As in nova, other filters are ignored.
_FILTERS_OF_ALL_CALLERS = frozenset((
    "all_tenants", "availability_zone", "changes-before", "changes-since", "config_drive",
    "flavor", "image", "ip", "locked", "name", "power_state", "progress", "status", "task_state",
    "user_id", "vm_state", *_STARTED, *TAGS,
))  # fmt: skip
_OTHER_PARAMETERS = ("display_name", "project_id", "tenant_id", "marker")
#: The statuses of servers with a progress.
_IN_PROGRESS = frozenset(("ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"))
#: Parameters of server lists whose values may be any text.
PARAMETERS = _FILTERS_OF_ALL_CALLERS.union(
    _COLUMN_BY_FILTER, _ALWAYS_EMPTY, _ALWAYS_FALSE, _OTHER_PARAMETERS
)
_PAGE_AND_SORT: Json = {
    "limit": PAGE,
    # Both may be repeated, to sort by several keys.
    "sort_key": {"type": "string", "enum": sorted(SORT_KEYS)},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
}
LIST = Schemas(
    (mv.OLDEST, {"type": "object", "properties": _PAGE_AND_SORT}),
    (mv.CONSISTENT, build_object_schema(dict.fromkeys(sorted(PARAMETERS), TEXT) | _PAGE_AND_SORT)),
)
_HOST_STATUS = "os_compute_api:servers:show:host_status"
_ATTRIBUTE = "OS-EXT-SRV-ATTR"
#: The fields that are not recorded, with nova's values for a server without them.
_UNRECORDED: Json = {
    "metadata": {},
    "addresses": {},
    "accessIPv4": "",
    "accessIPv6": "",
    "config_drive": "",
    "OS-DCF:diskConfig": "MANUAL",
    **dict.fromkeys(("key_name", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at")),
    "os-extended-volumes:volumes_attached": [],
}
#: Further fields that are not recorded, with the microversions that added them.
_LATER_FIELDS: tuple[tuple[str, Version, object], ...] = (
    ("locked", mv.SERVER_LOCKED, False),
    ("description", mv.SERVER_DESCRIPTION, None),
    ("tags", mv.SERVER_TAGS, []),
    ("trusted_image_certificates", mv.TRUSTED_CERTIFICATES, None),
    ("locked_reason", mv.LOCKED_REASON, None),
)
#: The fields that are not recorded and that, by default, only administrators see.
_UNRECORDED_ATTRIBUTES: Json = {
    f"{_ATTRIBUTE}:reservation_id": None,
    f"{_ATTRIBUTE}:launch_index": 0,
    f"{_ATTRIBUTE}:kernel_id": "",
    f"{_ATTRIBUTE}:ramdisk_id": "",
    f"{_ATTRIBUTE}:root_device_name": None,
    f"{_ATTRIBUTE}:user_data": None,
}


def read_query(call: ApiCall, kind: str) -> ServerQuery | None:
    """Parse the query of a list, or return None if no server can match.

    ``kind`` is ``index`` or ``detail``, which have separate policy rules. Raises :class:`Invalid`
    for an invalid filter and :class:`Forbidden` for a filter that the caller may not use.
    """
    filters = dict(call.query)  # the last value of a repeated filter
    if not call.is_allowed(_ALL_FILTERS):
        filters = {key: value for key, value in filters.items() if key in _FILTERS_OF_ALL_CALLERS}
    value = call.find_value("all_tenants")
    problem = f"all_tenants must be a boolean, not {value!r}"
    all_projects = value is not None and parse_boolean(value or True, problem)
    if all_projects:
        require(call, f"{_POLICY}:{kind}:get_all_tenants", None)
    if not all(_can_match(key, value) for key, value in filters.items()):
        return None
    since, until = (
        formats.read(formats.parse_datetime, filters[key], key) if key in filters else None
        for key in ("changes-since", "changes-before")
    )
    if since is not None and until is not None and since > until:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    marker, power = call.find_value("marker"), filters.get("power_state")
    if power is not None and not re.fullmatch(r"[0-9]{1,9}", power, re.ASCII):
        raise Invalid("power_state must be a number")
    equal = {
        column: normalize_uuid(filters[key]) if key == "uuid" else filters[key]
        for key, column in _COLUMN_BY_FILTER.items()
        if key in filters
    }
    project_id = filters.get("project_id", filters.get("tenant_id"))
    return ServerQuery(
        project_id=project_id if all_projects else call.identity.project_id,
        name=filters.get("name", filters.get("display_name")),
        statuses=frozenset(map(str.upper, call.list_values("status"))) or None,
        power_state=None if power is None else int(power),
        zone=filters.get("availability_zone"),
        default_zone=call.settings.DEFAULT.default_availability_zone,
        equal=equal,
        changed_since=since,
        changed_before=until,
        sort=_parse_sort(call),
        marker=None if marker is None else normalize_uuid(marker),
        limit=parse_page_size(call),
    )


def _can_match(key: str, value: str) -> bool:
    if key in _ALWAYS_EMPTY:
        return not value
    if key == "locked":
        return not parse_boolean(value, f"locked must be a boolean, not {value!r}")
    return key not in _ALWAYS_FALSE or not value or not bool_from_string(value, default=True)


def _parse_sort(call: ApiCall) -> tuple[tuple[str, bool], ...]:
    keys, directions = call.list_values("sort_key"), call.list_values("sort_dir")
    if {"host", "node"}.intersection(keys) and not call.is_allowed(_ALL_FILTERS):
        raise Forbidden("Only administrators can sort servers by host or node.")
    last = directions[-1] if directions else "desc"
    pairs = zip_longest(keys or ("created_at",), directions[: len(keys or (1,))], fillvalue=last)
    columns: dict[str, bool] = {}
    for key, direction in pairs:
        # Repeated columns are dropped: they have no effect, and databases limit the number.
        if column := SORT_KEYS[key]:
            columns.setdefault(column, direction == "desc")
    return tuple(columns.items()) or NEWEST_FIRST


def _add_requests(
    connection: Connection, call: ApiCall, page: Sequence[Instance]
) -> tuple[Instance, ...]:
    """Read the recorded requests if the version shows values of them."""
    if not call.version.has(mv.PINNED_ZONE):
        return tuple(page)
    requests = instances.map_requests(connection, [row.uuid for row in page])
    return tuple(replace(row, request=requests.get(row.uuid)) for row in page)


def _read_hosts(connection: Connection, call: ApiCall, page: Sequence[Instance]) -> _Hosts:
    hosts = {instance.host for instance in page if instance.host}
    zones = aggregates.map_zones_by_host(connection, hosts, call.settings)
    return zones, services.map_by_host(connection, hosts)


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:index", query=LIST)
def index(call: ApiCall) -> ApiResponse:
    """List servers by name and id."""
    query = read_query(call, "index")
    page = call.read(instances.search_servers, query) if query else ()
    links = build_next_links(call, "servers", [row.uuid for row in page], each_counts=True)
    return ApiResponse(body={"servers": [_summarize(call, row) for row in page], **links})


@blueprint.get(f"{_COLLECTION_PATH}/detail", policy=f"{_POLICY}:detail", query=LIST)
def detail(call: ApiCall) -> ApiResponse:
    """List servers with all fields."""
    query = read_query(call, "detail")
    with call.services.database.read() as connection:
        page = instances.search_servers(connection, query) if query else ()
        page = _add_requests(connection, call, page)
        hosts = _read_hosts(connection, call, page)
    links = build_next_links(call, "servers/detail", [row.uuid for row in page], each_counts=True)
    return ApiResponse(
        body={"servers": [_build_document(call, row, hosts) for row in page], **links}
    )


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show")
def show(call: ApiCall, server_id: str) -> ApiResponse:
    """Show a server of the caller's project, or any to an administrator."""
    project_id = get_visible_project(call)
    with call.services.database.read() as connection:
        rows = instances.list_by_uuids(connection, [normalize_uuid(server_id)])
        if not rows or project_id not in {None, rows[0].project_id}:
            raise NotFound(f"Instance {server_id} could not be found.")
        rows = _add_requests(connection, call, rows)
        hosts = _read_hosts(connection, call, rows)
        groups = server_groups.map_by_instance(connection, [rows[0].uuid])
    document = _build_document(call, rows[0], hosts)
    if call.version.has(mv.SERVER_GROUPS_OF_SERVER):
        document["server_groups"] = list(groups.values())
    return ApiResponse(body={"server": document})


@blueprint.post(_COLLECTION_PATH, policy=f"{_POLICY}:create", success=())
@blueprint.put(_ITEM_PATH, policy=f"{_POLICY}:update", success=())
@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=())
@blueprint.post(f"{_ITEM_PATH}/action", policy=f"{_POLICY}:update", success=())
def reject_action(call: ApiCall, server_id: str | None = None) -> ApiResponse:  # noqa: ARG001 - a handler's
    """Reject the creation, change or deletion of a server."""
    raise Forbidden(
        "Servers are read-only here and cannot be created, changed or deleted. "
        "Record instances at /scheduler/v1/instances, and place them by "
        "/scheduler/v1/select_destinations."
    )


def _summarize(call: ApiCall, instance: Instance) -> Json:
    uuid, name = instance.uuid, instance.display_name
    return {"id": uuid, "name": name, "links": build_links(call, f"servers/{uuid}")}


def _build_document(call: ApiCall, instance: Instance, hosts: _Hosts) -> Json:
    zones, services_by_host = hosts
    status = derive_status(instance.vm_state, instance.task_state)
    host = instance.host
    document = _summarize(call, instance) | {
        **_UNRECORDED,
        "status": status,
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        # It hides the name of the host, and differs per project.
        "hostId": sha224(f"{instance.project_id or ''}{host}".encode()).hexdigest() if host else "",
        # A server that boots from a volume has an empty string.
        "image": _build_image(call, instance),
        "flavor": _build_flavor(call, instance),
        "created": format_seconds(instance.created_at),
        "updated": format_seconds(instance.updated_at),
        "OS-EXT-AZ:availability_zone": zones.get(host or "", ""),
        "OS-EXT-STS:power_state": derive_power_state(instance.vm_state),
        "OS-EXT-STS:task_state": instance.task_state,
        "OS-EXT-STS:vm_state": instance.vm_state,
        **{key: value for key, since, value in _LATER_FIELDS if call.version.has(since)},
        **_build_request(call, instance),
        **_build_attributes(call, instance),
    }
    if status in _IN_PROGRESS:
        document["progress"] = 0
    if call.version.has(mv.HOST_STATUS):
        host_status = _derive_host_status(call, host, services_by_host)
        # The policy may show only UNKNOWN to a caller.
        if call.is_allowed(_HOST_STATUS) or (
            host_status == "UNKNOWN" and call.is_allowed(f"{_HOST_STATUS}:unknown-only")
        ):
            document["host_status"] = host_status
    return document


def _build_image(call: ApiCall, instance: Instance) -> Json | str:
    """Build the link of the image, with its properties under nova's names."""
    image = instance.image or {}
    if not image.get("id"):
        return ""
    document = _build_link(call, "images", image["id"])
    if call.version.has(mv.SERVER_IMAGE_PROPERTIES):
        document["properties"] = {}
        with suppress(Invalid):
            document["properties"] = Image.from_document(image).properties.to_dict()
    return document


def _build_request(call: ApiCall, instance: Instance) -> Json:
    """Build the fields of the recorded request."""
    request = instance.request or {}
    fields: Json = {}
    if call.version.has(mv.PINNED_ZONE):
        fields[_PINNED_ZONE] = request.get("availability_zone")
    if call.version.has(mv.SERVER_HINTS):
        fields["scheduler_hints"] = request.get("scheduler_hints") or {}
    return fields


def _build_attributes(call: ApiCall, instance: Instance) -> Json:
    # A host name has lower-case letters, digits, dots and hyphens.
    name = re.sub(r"[^a-z0-9.-]", "", re.sub(r"[ _]", "-", instance.display_name.lower()))
    hostname: Json = {f"{_ATTRIBUTE}:hostname": name.strip(".-")[:63]}
    if not call.is_allowed("os_compute_api:os-extended-server-attributes"):
        return hostname if call.version.has(mv.HOSTNAME_FOR_ALL) else {}
    attributes = {
        f"{_ATTRIBUTE}:host": instance.host,
        f"{_ATTRIBUTE}:hypervisor_hostname": instance.node,
        f"{_ATTRIBUTE}:instance_name": None,
    }
    has_all = call.version.has(mv.SERVER_ATTRIBUTES)
    return attributes | hostname | _UNRECORDED_ATTRIBUTES if has_all else attributes


def _derive_host_status(
    call: ApiCall, host: str | None, services_by_host: Mapping[str, Service]
) -> str:
    if host is None:
        return ""
    if (service := services_by_host.get(host)) is None:
        return "UNKNOWN"
    if service.forced_down:
        return "DOWN"
    if service.disabled:
        return "MAINTENANCE"
    return "UP" if get_state(call, service) == "up" else "UNKNOWN"


def _build_flavor(call: ApiCall, instance: Instance) -> Json:
    """Build the recorded flavor or, before 2.47, its id and link."""
    flavor = Flavor.from_document(instance.flavor or {})
    flavorid = next((str(value) for value in (flavor.flavorid, flavor.id) if value is not None), "")
    if not call.version.has(mv.EMBEDDED_FLAVOR):
        return _build_link(call, "flavors", flavorid)
    document: Json = {
        "original_name": flavor.name or flavorid,
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap,
    }
    if call.is_allowed("os_compute_api:os-flavor-extra-specs:index"):
        document["extra_specs"] = dict(flavor.extra_specs)
    return document


def _build_link(call: ApiCall, collection: str, identifier: str) -> Json:
    return {
        "id": identifier,
        "links": [build_bookmark_link(call, f"{collection}/{quote(identifier)}")],
    }


def derive_power_state(vm_state: str | None) -> int:
    """Derive the power state from a vm state, since hosts do not report it."""
    return POWER_STATES.get((vm_state or "").lower(), 0)
