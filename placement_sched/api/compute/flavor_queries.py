"""What the query string of a list of flavors asks for."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.call import Call
from placement_sched.api.compute.booleans import yes_or_no
from placement_sched.api.compute.callers import confined_to
from placement_sched.api.compute.paging import at_most
from placement_sched.api.compute.schemas.parts import LARGEST
from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.store.flavor_list import Wanted


def wanted(call: Call) -> Wanted:
    """Return which flavors are asked for; raises :class:`Invalid` for a filter that cannot be.

    Who is no administrator sees the public flavors and those that are for their project.
    """
    confined = confined_to(call) is not None
    return Wanted(
        is_public=True if confined else _is_public(call),
        confined=confined,
        project_id=call.identity.project_id,
        min_memory_mb=_least(call, "minRam"),
        min_root_gb=_least(call, "minDisk"),
        sort_key=call.value("sort_key") or "flavorid",
        descending=call.value("sort_dir") == "desc",
        marker=call.value("marker"),
        limit=at_most(call),
    )


def next_page(call: Call, path: str, found: Sequence[Flavor]) -> dict[str, Any]:
    """Return the link to what comes behind a full page, or nothing behind one that is not."""
    if not found or len(found) < at_most(call):
        return {}
    # Of a parameter given several times, the last is what counted.
    query = urlencode({**dict(call.query), "marker": found[-1].flavorid})
    return {"flavors_links": [{"rel": "next", "href": f"{call.url}/v2.1/{path}?{query}"}]}


def _is_public(call: Call) -> bool | None:
    """Return what ``is_public`` asks for: public ones if it is left out, all for ``none``."""
    given = call.value("is_public")
    if given is None:
        return True
    if given.lower() == "none":
        return None
    told = yes_or_no(given)
    if told is None:
        raise Invalid(f"Invalid is_public filter [{given}]")
    return told


def _least(call: Call, key: str) -> int | None:
    given = call.value(key)
    if given is None:
        return None
    try:
        number = int(given)
    except ValueError:
        raise Invalid(f"Invalid {key} filter [{given}]") from None
    # A database compares no numbers that are larger than those it keeps.
    return max(min(number, LARGEST + 1), 0)
