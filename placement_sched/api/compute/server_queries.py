"""Query strings of server lists (compute API reference, "List Servers")."""

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import zip_longest
from typing import Any

from placement_sched.api.call import Call
from placement_sched.api.compute import microversions as mv
from placement_sched.api.compute.conventions import boolean, read_boolean, require
from placement_sched.api.paging import at_most
from placement_sched.errors import Forbidden, Invalid
from placement_sched.schemas import formats
from placement_sched.schemas.formats import usual_uuid
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
