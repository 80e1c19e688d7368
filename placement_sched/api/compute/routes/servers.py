"""Routes of servers: the recorded instances, read-only here (API reference, "Servers")."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha224
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.compute import microversions as mv
from placement_sched.api.compute.conventions import (
    PAGE,
    TEXT,
    bookmark,
    boolean,
    confined_to,
    links,
    read_boolean,
    require,
    state,
)
from placement_sched.api.paging import at_most, next_links
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.errors import Forbidden, Invalid, NotFound
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import POWER_STATES, STATUSES, UNKNOWN, Instance
from placement_sched.operations import aggregates
from placement_sched.schemas import formats
from placement_sched.schemas.formats import in_seconds, usual_uuid
from placement_sched.schemas.parts import an_object
from placement_sched.store.compute import instances, server_groups, services
from placement_sched.store.compute import instances as instances_module
from placement_sched.store.compute.instances import NEWEST_FIRST, SORT_KEYS, ServersWanted

_POLICY = "os_compute_api:servers"
_ALL_FILTERS = f"{_POLICY}:allow_all_filters"

#: The parameters that compare with a column.
_EQUAL: Mapping[str, str] = {
    **{name: name for name in ("host", "node", "task_state", "user_id", "uuid", "vm_state")},
    "flavor": "flavorid",
    "hostname": "display_name",
    "image": "image_id",
    "image_ref": "image_id",
}
_ADDRESSES = ("access_ip_v4", "access_ip_v6", "ip", "ip6")
_BOOTED_FROM = ("kernel_id", "ramdisk_id", "root_device_name")
_STARTED = ("key_name", "launched_at", "terminated_at")
_WORDS = ("description", "display_description", "instance_name", "locked_by", "reservation_id")
TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
#: What no recorded server has: a list filtered by one of these is empty.
_NEVER = frozenset(
    (*_ADDRESSES, *_BOOTED_FROM, *_STARTED, *_WORDS, *TAGS[:2], "pinned_availability_zone")
)
#: What is false, or 0, for every recorded server.
_ALWAYS_NO = frozenset(
    ("auto_disk_config", "config_drive", "deleted", "is_public", "locked", "soft_deleted")
)
_ALWAYS_ZERO = frozenset(("launch_index", "progress"))

#: The filters of callers who may not use all of them; the others have no effect, as in nova.
_FOR_ALL = frozenset(("all_tenants", "changes-since", "flavor", "image", "ip", "name", "status"))
_STORED = ("availability_zone", "created_at", "power_state")
_STATES = ("config_drive", "progress", "task_state", "user_id", "vm_state")
_SINCE = (
    (mv.SERVER_TAGS, TAGS),
    (mv.CHANGES_BEFORE, ("changes-before",)),
    (mv.LOCKED_REASON, ("locked",)),
    (mv.MORE_FILTERS, (*_STORED, *_STATES, *_STARTED)),
)
_OTHERS = (*_STORED, "display_name", "project_id", "tenant_id")
#: The filters of every microversion.
FILTERS = _FOR_ALL.union(_EQUAL, _NEVER, _ALWAYS_NO, _ALWAYS_ZERO, _OTHERS) - {
    *TAGS,
    "locked",
    "pinned_availability_zone",
}


def wanted(call: Call, kind: str) -> ServersWanted | None:
    """Return which servers a list asks for; None where no server can match.

    ``kind`` is ``index`` or ``detail``, which have their own policy rules. Raises
    :class:`Invalid` for an invalid filter, :class:`Forbidden` for one the caller may not use.
    """
    given = dict(call.query)  # of a repeated one, the last value
    if not call.may(_ALL_FILTERS):
        allowed = _FOR_ALL.union(*(names for since, names in _SINCE if call.version.has(since)))
        given = {key: value for key, value in given.items() if key in allowed}
    every_project = _all_tenants(call, kind)
    if not all(_can_be(key, value) for key, value in given.items()):
        return None
    since, before = (_moment(given, key) for key in ("changes-since", "changes-before"))
    if since is not None and before is not None and since > before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    marker, power = call.value("marker"), given.get("power_state")
    named = given.get("project_id", given.get("tenant_id"))
    return ServersWanted(
        project_id=named if every_project else call.identity.project_id,
        name=given.get("name", given.get("display_name")),
        statuses=frozenset(map(str.upper, call.values("status"))) or None,
        power_state=None if power is None else _read(power, int, "power_state must be a number"),
        zone=given.get("availability_zone"),
        default_zone=call.settings.DEFAULT.default_availability_zone,
        equal=_equal(given),
        changed_since=since,
        changed_before=before,
        sort=_sort(call),
        marker=None if marker is None else usual_uuid(marker),
        limit=at_most(call),
    )


def _all_tenants(call: Call, kind: str) -> bool:
    """Return whether the servers of all projects are requested, which has its own policy rule."""
    given = call.value("all_tenants")
    if given is None or not boolean(given or True, f"all_tenants must be a boolean, not {given!r}"):
        return False
    require(call, f"{_POLICY}:{kind}:get_all_tenants", None)
    return True


def _can_be(key: str, value: str) -> bool:
    if key in _NEVER:
        return not value
    if key == "locked":
        return not boolean(value, f"locked must be a boolean, not {value!r}")
    if key in _ALWAYS_NO:
        return not read_boolean(value)
    return value == "0" if key in _ALWAYS_ZERO else True


def _equal(given: Mapping[str, str]) -> dict[str, str | datetime]:
    equal: dict[str, str | datetime] = {
        column: usual_uuid(given[key]) if key == "uuid" else given[key]
        for key, column in _EQUAL.items()
        if key in given
    }
    created = _moment(given, "created_at")
    return equal if created is None else {**equal, "created_at": created}


def _moment(given: Mapping[str, str], key: str) -> datetime | None:
    return formats.read(formats.moment, given[key], key) if key in given else None


def _read(given: str, reader: Callable[[str], Any], fault: str) -> Any:
    try:
        return reader(given)
    except (ValueError, OverflowError):
        raise Invalid(fault) from None


def _sort(call: Call) -> tuple[tuple[str, bool], ...]:
    """Return the columns to sort by; as in nova, further keys have the last direction."""
    keys, directions = call.values("sort_key"), call.values("sort_dir")
    if {"host", "node"}.intersection(keys) and not call.may(_ALL_FILTERS):
        raise Forbidden("Only administrators can sort servers by host or node.")
    last = directions[-1] if directions else "desc"
    pairs = zip_longest(keys or ("created_at",), directions[: len(keys or (1,))], fillvalue=last)
    found: dict[str, bool] = {}
    for key, direction in pairs:
        # A repeated column has no effect, and databases limit how many there may be.
        if column := SORT_KEYS[key]:
            found.setdefault(column, direction == "desc")
    return tuple(found.items()) or NEWEST_FIRST


#: The statuses that are shown with a progress.
_IN_PROGRESS = frozenset(("ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"))
blueprint = Blueprint("servers", __name__)


_ALL = "/v2.1/servers"
_ONE = f"{_ALL}/<server_id>"

_PLAIN = sorted({"marker", *FILTERS})
_QUERY: Json = {
    **dict.fromkeys(_PLAIN, TEXT),
    "limit": PAGE,
    # Both may be repeated, to sort by several keys.
    "sort_key": {"type": "string", "enum": sorted(instances_module.SORT_KEYS)},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
}
_TAGGED: Json = _QUERY | dict.fromkeys(TAGS, TEXT)
_BEFORE: Json = {**_TAGGED, "changes-before": TEXT}
_LOCKED: Json = {**_BEFORE, "locked": TEXT}
LIST = Schemas(
    (mv.OLDEST, {"type": "object", "properties": _QUERY}),
    (mv.SERVER_TAGS, {"type": "object", "properties": _TAGGED}),
    (mv.CHANGES_BEFORE, {"type": "object", "properties": _BEFORE}),
    (mv.LOCKED_REASON, {"type": "object", "properties": _LOCKED}),
    (mv.CONSISTENT, an_object(_LOCKED)),
    (mv.PINNED_ZONE, an_object({**_LOCKED, "pinned_availability_zone": TEXT})),
)


#: What servers show beyond their records: the zones and the services of hosts, by host.
_Hosts = tuple[Mapping[str, str], Mapping[str, Service]]


def _hosts(connection: Connection, call: Call, found: Sequence[Instance]) -> _Hosts:
    hosts = {instance.host for instance in found if instance.host}
    zones = aggregates.zones_of_hosts(connection, hosts, call.settings)
    return zones, services.by_hosts(connection, hosts)


@blueprint.get(_ALL, policy=f"{_POLICY}:index", query=LIST)
def index(call: Call) -> Answer:
    """List servers by name and id."""
    asked = wanted(call, "index")
    found = call.read(instances_module.search_servers, asked) if asked else ()
    return _page(call, "servers", found, [_shown_briefly(call, each) for each in found])


@blueprint.get(f"{_ALL}/detail", policy=f"{_POLICY}:detail", query=LIST)
def detail(call: Call) -> Answer:
    """List servers with all fields."""
    asked = wanted(call, "detail")
    with call.services.database.read() as connection:
        found = instances_module.search_servers(connection, asked) if asked else ()
        hosts = _hosts(connection, call, found)
    return _page(call, "servers/detail", found, [_shown(call, each, hosts) for each in found])


def _page(call: Call, path: str, found: Sequence[Instance], documents: list[Json]) -> Answer:
    more = next_links(call, path, [each.uuid for each in found], each_counts=True)
    return Answer(body={"servers": documents, **more})


@blueprint.get(_ONE, policy=f"{_POLICY}:show")
def show(call: Call, server_id: str) -> Answer:
    """Return one server of the caller's project, or any for an administrator."""
    confined = confined_to(call)
    with call.services.database.read() as connection:
        found = instances.by_uuids(connection, [usual_uuid(server_id)])
        if not found or confined not in {None, found[0].project_id}:
            raise NotFound(f"Instance {server_id} could not be found.")
        hosts = _hosts(connection, call, found)
        group = server_groups.of_instance(connection, found[0].uuid)
    document = _shown(call, found[0], hosts)
    if call.version.has(mv.SERVER_GROUPS_OF_SERVER):
        document["server_groups"] = [] if group is None else [group]
    return Answer(body={"server": document})


@blueprint.post(_ALL, policy=f"{_POLICY}:create", success=())
@blueprint.put(_ONE, policy=f"{_POLICY}:update", success=())
@blueprint.delete(_ONE, policy=f"{_POLICY}:delete", success=())
@blueprint.post(f"{_ONE}/action", policy=f"{_POLICY}:update", success=())
def refuse(call: Call, server_id: str | None = None) -> Answer:  # noqa: ARG001 - a handler's
    """Refuse to create, change or delete a server: compute services do, and report it here."""
    raise Forbidden(
        "Servers are read-only here and cannot be created, changed or deleted; "
        "instances are recorded at /scheduler/v1/instances and placed by "
        "/scheduler/v1/select_destinations."
    )


_HOST_STATUS = "os_compute_api:servers:show:host_status"
_ATTRIBUTE = "OS-EXT-SRV-ATTR"
#: What is not recorded of a server, as nova shows one that has none of it.
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
#: Likewise, by the microversion that added each.
_LATER_FIELDS: tuple[tuple[str, Version, object], ...] = (
    ("locked", mv.SERVER_LOCKED, False),
    ("description", mv.SERVER_DESCRIPTION, None),
    ("tags", mv.SERVER_TAGS, []),
    ("trusted_image_certificates", mv.TRUSTED_CERTIFICATES, None),
    ("locked_reason", mv.LOCKED_REASON, None),
    ("pinned_availability_zone", mv.PINNED_ZONE, None),
)
#: Likewise of the fields that, by default, only administrators see.
_UNRECORDED_ATTRIBUTES: Json = {
    f"{_ATTRIBUTE}:reservation_id": None,
    f"{_ATTRIBUTE}:launch_index": 0,
    f"{_ATTRIBUTE}:kernel_id": "",
    f"{_ATTRIBUTE}:ramdisk_id": "",
    f"{_ATTRIBUTE}:root_device_name": None,
    f"{_ATTRIBUTE}:user_data": None,
}


def _shown_briefly(call: Call, instance: Instance) -> Json:
    uuid, name = instance.uuid, instance.display_name
    return {"id": uuid, "name": name, "links": links(call, f"servers/{uuid}")}


def _shown(call: Call, instance: Instance, hosts: _Hosts) -> Json:
    """Return all fields of a server but its groups, which lists leave out."""
    zones, serving = hosts
    status = status_of(instance.vm_state, instance.task_state)
    image = (instance.image or {}).get("id")
    document = _shown_briefly(call, instance) | {
        **_UNRECORDED,
        "status": status,
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "hostId": _host_id(instance),
        # The empty string is for a server booted from a volume.
        "image": _linked(call, "images", image) if image else "",
        "flavor": _flavor(call, instance),
        "created": in_seconds(instance.created_at),
        "updated": in_seconds(instance.updated_at),
        "OS-EXT-AZ:availability_zone": zones.get(instance.host or "", ""),
        "OS-EXT-STS:power_state": power_state_of(instance.vm_state),
        "OS-EXT-STS:task_state": instance.task_state,
        "OS-EXT-STS:vm_state": instance.vm_state,
        **{key: value for key, since, value in _LATER_FIELDS if call.version.has(since)},
        **_attributes(call, instance),
    }
    if status in _IN_PROGRESS:
        document["progress"] = 0
    if call.version.has(mv.HOST_STATUS):
        host_status = _host_status(call, instance.host, serving)
        # Some callers may only see that the status is unknown.
        if call.may(_HOST_STATUS) or (
            host_status == "UNKNOWN" and call.may(f"{_HOST_STATUS}:unknown-only")
        ):
            document["host_status"] = host_status
    return document


def _attributes(call: Call, instance: Instance) -> Json:
    """Return the fields that, by default, only administrators see."""
    # A host name has letters, digits, dots and hyphens, in lower case.
    spelt = re.sub(r"[^a-z0-9.-]", "", re.sub(r"[ _]", "-", instance.display_name.lower()))
    hostname: Json = {f"{_ATTRIBUTE}:hostname": spelt.strip(".-")[:63]}
    if not call.may("os_compute_api:os-extended-server-attributes"):
        return hostname if call.version.has(mv.HOSTNAME_FOR_ALL) else {}
    found = {
        f"{_ATTRIBUTE}:host": instance.host,
        f"{_ATTRIBUTE}:hypervisor_hostname": instance.node,
        f"{_ATTRIBUTE}:instance_name": None,
    }
    newer = call.version.has(mv.SERVER_ATTRIBUTES)
    return found | hostname | _UNRECORDED_ATTRIBUTES if newer else found


def _host_status(call: Call, host: str | None, serving: Mapping[str, Service]) -> str:
    if host is None:
        return ""
    if (service := serving.get(host)) is None:
        return "UNKNOWN"
    if service.forced_down:
        return "DOWN"
    if service.disabled:
        return "MAINTENANCE"
    return "UP" if state(call, service) == "up" else "UNKNOWN"


def _host_id(instance: Instance) -> str:
    """Return an id by which a project can distinguish hosts without knowing their names."""
    if instance.host is None:
        return ""
    return sha224(f"{instance.project_id or ''}{instance.host}".encode()).hexdigest()


def _flavor(call: Call, instance: Instance) -> Json:
    """Return the recorded flavor: all of it from 2.47 on, its id before."""
    flavor = Flavor.from_document(instance.flavor or {})
    flavorid = next((str(one) for one in (flavor.flavorid, flavor.id) if one is not None), "")
    if not call.version.has(mv.EMBEDDED_FLAVOR):
        return _linked(call, "flavors", flavorid)
    document: Json = {
        "original_name": flavor.name or flavorid,
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap,
    }
    if call.may("os_compute_api:os-flavor-extra-specs:index"):
        document["extra_specs"] = dict(flavor.extra_specs)
    return document


def _linked(call: Call, noun: str, found: str) -> Json:
    return {"id": found, "links": [bookmark(call, f"{noun}/{quote(found)}")]}


def status_of(vm_state: str | None, task_state: str | None) -> str:
    """Return the status of a server in these states, whatever their case."""
    status, by_task = STATUSES.get((vm_state or "").lower(), (UNKNOWN, {}))
    return by_task.get((task_state or "").lower(), status)


def power_state_of(vm_state: str | None) -> int:
    """Return the power state that goes with a vm state, as none is reported."""
    return POWER_STATES.get((vm_state or "").lower(), 0)
