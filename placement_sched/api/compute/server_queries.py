"""What the query string of a list of servers asks for."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.addressed import usual
from placement_sched.api.call import Call
from placement_sched.api.compute.booleans import yes_or_no
from placement_sched.api.compute.callers import may, require
from placement_sched.api.compute.microversions import (
    CHANGES_BEFORE,
    LOCKED_REASON,
    MORE_FILTERS,
    SERVER_TAGS,
)
from placement_sched.api.compute.paging import at_most
from placement_sched.errors import Forbidden, Invalid
from placement_sched.model import shape
from placement_sched.model.instance import Instance
from placement_sched.store.server_list import NEWEST_FIRST, SORT_KEYS, Wanted

_POLICY = "os_compute_api:servers"

#: The parameters that compare with what is recorded, and the column of each.
_EQUAL: Mapping[str, str] = MappingProxyType(
    {
        "flavor": "flavorid",
        "host": "host",
        "hostname": "display_name",
        "image": "image_id",
        "image_ref": "image_id",
        "node": "node",
        "task_state": "task_state",
        "user_id": "user_id",
        "uuid": "uuid",
        "vm_state": "vm_state",
    }
)
#: What no recorded server has: whoever asks for servers with one is told of none.
_NEVER = frozenset(
    (
        "access_ip_v4",
        "access_ip_v6",
        "description",
        "display_description",
        "instance_name",
        "ip",
        "ip6",
        "kernel_id",
        "key_name",
        "launched_at",
        "locked_by",
        "pinned_availability_zone",
        "ramdisk_id",
        "reservation_id",
        "root_device_name",
        "tags",
        "tags-any",
        "terminated_at",
    )
)
#: What is said of every recorded server, and with these words alone.
_ALWAYS_NO = frozenset(
    ("auto_disk_config", "config_drive", "deleted", "is_public", "locked", "soft_deleted")
)
_ALWAYS_ZERO = frozenset(("launch_index", "progress"))

#: The parameters that narrow lists for whoever may not narrow them by all; others they may give
#: have no effect, as in nova.
_FOR_ALL = frozenset(("all_tenants", "changes-since", "flavor", "image", "ip", "name", "status"))
_SINCE = (
    (SERVER_TAGS, frozenset(("tags", "tags-any", "not-tags", "not-tags-any"))),
    (CHANGES_BEFORE, frozenset(("changes-before",))),
    (LOCKED_REASON, frozenset(("locked",))),
    (
        MORE_FILTERS,
        frozenset(
            (
                "availability_zone",
                "config_drive",
                "created_at",
                "key_name",
                "launched_at",
                "power_state",
                "progress",
                "task_state",
                "terminated_at",
                "user_id",
                "vm_state",
            )
        ),
    ),
)
#: Sets in sets, which some read as classes, some as operations, and some not at all.
_NESTED = re.compile(r"\[[^\]]*(\[|--|&&|~~|\|\|)")
#: What sorts by hosts is the administrator's to know.
_HOSTS = ("host", "node")


def wanted(call: Call, kind: str) -> Wanted | None:
    """Return which servers are asked for; None where none can be.

    ``kind`` is ``index`` or ``detail``, which have rules of their own. Raises :class:`Invalid` for
    a filter that cannot be, and :class:`Forbidden` for what is not the caller's to ask.
    """
    given = _heeded(call)
    everybodys = _all_tenants(call, kind)
    if not all(_can_be(key, value) for key, value in given.items()):
        return None
    since, before = (_moment(given, key) for key in ("changes-since", "changes-before"))
    if since is not None and before is not None and since > before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return Wanted(
        project_id=_project(given) if everybodys else call.identity.project_id,
        name=_expression(given.get("name", given.get("display_name"))),
        statuses=tuple(status.upper() for status in call.values("status")) or None,
        power_state=_number(given, "power_state"),
        zone=given.get("availability_zone"),
        default_zone=call.settings.DEFAULT.default_availability_zone,
        equal=_equal(given),
        changed_since=since,
        changed_before=before,
        sort=_sort(call),
        marker=None if call.value("marker") is None else usual(str(call.value("marker"))),
        limit=at_most(call),
    )


def next_page(call: Call, path: str, found: Sequence[Instance]) -> dict[str, Any]:
    """Return the link to what comes behind a full page, or nothing behind one that is not."""
    if not found or len(found) < at_most(call):
        return {}
    rest = [pair for pair in call.query if pair[0] != "marker"]
    query = urlencode([*rest, ("marker", found[-1].uuid)])
    return {"servers_links": [{"rel": "next", "href": f"{call.url}/v2.1/{path}?{query}"}]}


def _heeded(call: Call) -> dict[str, str]:
    """Return the parameters that narrow the list for this caller; of several, the last."""
    given = dict(call.query)
    if may(call, f"{_POLICY}:allow_all_filters"):
        return given
    heeded = _FOR_ALL.union(*(names for since, names in _SINCE if call.version.has(since)))
    return {key: value for key, value in given.items() if key in heeded}


def _all_tenants(call: Call, kind: str) -> bool:
    """Return whether the servers of all projects are asked for, which takes a rule of its own."""
    given = call.value("all_tenants")
    if given is None:
        return False
    told = yes_or_no(given) if given else True
    if told is None:
        raise Invalid(f"all_tenants must be a boolean, not {given!r}")
    if told:
        require(call, f"{_POLICY}:{kind}:get_all_tenants", None)
    return told


def _project(given: Mapping[str, str]) -> str | None:
    return given.get("project_id", given.get("tenant_id"))


def _can_be(key: str, value: str) -> bool:
    """Return whether a server may be recorded of which this is true."""
    if key in _NEVER:
        return not value
    if key in _ALWAYS_NO:
        told = yes_or_no(value)
        if told is None and key == "locked":
            raise Invalid(f"locked must be a boolean, not {value!r}")
        return not told
    return value == "0" if key in _ALWAYS_ZERO else True


def _equal(given: Mapping[str, str]) -> dict[str, str | datetime]:
    equal: dict[str, str | datetime] = {
        column: usual(given[key]) if key == "uuid" else given[key]
        for key, column in _EQUAL.items()
        if key in given
    }
    created = _moment(given, "created_at")
    return equal if created is None else {**equal, "created_at": created}


def _expression(given: str | None) -> str | None:
    """Return what names must meet; raises :class:`Invalid` for no regular expression."""
    if given is None:
        return None
    told = f"{given!r} is no regular expression"
    if _NESTED.search(given):
        raise Invalid(f"{told} that every database reads alike")
    _read(given, re.compile, told)
    return given


def _moment(given: Mapping[str, str], key: str) -> datetime | None:
    return shape.read(shape.moment, given[key], key) if key in given else None


def _number(given: Mapping[str, str], key: str) -> int | None:
    return _read(given[key], int, f"{key} must be a number") if key in given else None


def _read(given: str, reader: Callable[[str], Any], told: str) -> Any:
    try:
        return reader(given)
    except (ValueError, re.error, OverflowError, RecursionError):
        raise Invalid(told) from None


def _sort(call: Call) -> tuple[tuple[str, bool], ...]:
    """Return the columns to sort by; a key without a direction has that of the last, as in nova."""
    keys, directions = call.values("sort_key"), call.values("sort_dir")
    if set(keys).intersection(_HOSTS) and not may(call, f"{_POLICY}:allow_all_filters"):
        raise Forbidden("Only administrators can sort servers by host or node.")
    last = directions[-1] if directions else "desc"
    pairs = zip_longest(keys or ("created_at",), directions[: len(keys or (1,))], fillvalue=last)
    found: dict[str, bool] = {}
    for key, direction in pairs:
        # A column that comes again orders nothing more, and databases take only so many.
        if column := SORT_KEYS[key]:
            found.setdefault(column, direction == "desc")
    return tuple(found.items()) or NEWEST_FIRST
