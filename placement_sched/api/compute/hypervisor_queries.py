"""What the query string of a list of hypervisors, or of one, asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.call import Call
from placement_sched.api.compute.booleans import yes_or_no
from placement_sched.api.compute.keys import key
from placement_sched.api.compute.microversions import HYPERVISOR_PAGES, UUIDS
from placement_sched.api.compute.paging import at_most
from placement_sched.errors import Invalid
from placement_sched.model.hypervisor import Hypervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which hypervisors are listed: those whose name has a part, or a page behind a marker."""

    part: str | None = None
    marker: int | str | None = None
    limit: int | None = None


def wanted(call: Call) -> Wanted:
    """Return which hypervisors a list is asked for; raises :class:`Invalid` for what cannot be."""
    if not call.version.has(HYPERVISOR_PAGES):
        return Wanted()
    part = call.value("hypervisor_hostname_pattern") if call.version.has(UUIDS) else None
    marker, limit = call.value("marker"), call.value("limit")
    if part is None:
        return Wanted(marker=_marker(call, marker), limit=at_most(call))
    if marker is not None or limit is not None:
        raise Invalid(
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter "
            "is not supported."
        )
    return Wanted(part=part)


def with_servers(call: Call) -> bool:
    """Return whether the instances of hypervisors are asked for, which they can be since 2.53."""
    given = call.value("with_servers") if call.version.has(UUIDS) else None
    if given is None:
        return False
    told = yes_or_no(given)
    if told is None:
        raise Invalid(
            f"Invalid query string parameters: '{given}' is neither yes nor no (at $.with_servers)"
        )
    return told


def next_page(call: Call, path: str, asked: Wanted, found: Sequence[Hypervisor]) -> dict[str, Any]:
    """Return the link to what comes behind a full page, or nothing behind one that is not."""
    if asked.limit is None or not found or len(found) < asked.limit:
        return {}
    last = found[-1].uuid if call.version.has(UUIDS) else found[-1].id
    # Of a parameter given several times, the last is what counted.
    query = urlencode({**dict(call.query), "marker": last})
    return {"hypervisors_links": [{"rel": "next", "href": f"{call.url}/v2.1/{path}?{query}"}]}


def _marker(call: Call, given: str | None) -> int | str | None:
    if given is None:
        return None
    return key(call, given, Invalid(f"marker [{given}] not found"))
