# SPDX-License-Identifier: Apache-2.0
"""Overview page: hosts, used shares, failed requests, findings and remaining capacity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import flask
from flask import request

from placement_sched.console.charts import timeline_picture
from placement_sched.console.client import ApiClient, ApiRefused
from placement_sched.console.page import Share, api_client, form_error, page, redirect
from placement_sched.console.pages.aggregates import with_words
from placement_sched.console.pages.cloud import FILTERS
from placement_sched.console.units import NEARLY_FULL, format_share
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names

_OVERVIEW, _COUNTS = "/scheduler/v1/overview", "/scheduler/v1/decision_counts"
_CHECK, _CAPACITY = "/scheduler/v1/aggregate_check", "/scheduler/v1/capacity"
#: Resource classes shown first, and the maximum number of classes, zones and other rows.
_FIRST_CLASSES = ("MEMORY_MB", "VCPU", "PCPU", "DISK_GB")
_MAX_CLASSES, _MAX_ZONES, _MAX_ROWS = 6, 12, 6
_MAX_FLAVORS = 10
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a resource class in a zone, with the number of its hosts that are full."""

    name: str
    zone: str
    used: int
    capacity: int
    full: int
    nearly_full: int

    @property
    def percent(self) -> int:
        """Return the used share in percent."""
        return format_share(self.used, self.capacity)


def index() -> flask.Response:
    """Show the state of the cloud."""
    if any(name in request.args for name in FILTERS):
        # Addresses of the map began with /console/? before this page.
        return redirect(f"/console/cloud?{request.query_string.decode('latin-1')}")
    client = api_client()
    overview = client.get(_OVERVIEW)
    classes = _choose_classes(overview["zones"])
    rows = [(zone, [_use(zone, name) for name in classes]) for zone in _sort_zones(overview)]
    since = (utcnow() - _DAY).isoformat()
    counts = _get_visible(client, _COUNTS, {"since": since})
    check = _get_visible(client, _CHECK) or {"findings": []}
    values = {
        "cloud": overview,
        "classes": classes,
        "zones": rows[:_MAX_ZONES],
        "more_zones": len(rows) - _MAX_ZONES,
        "total": [_total(overview["zones"], name) for name in classes],
        "warnings": list(_find_full(overview["zones"]))[:_MAX_ROWS],
        "counts": counts and with_names(counts, client.aggregate_names()),
        "stages": [] if counts is None else counts["stages"][:3],
        "timeline": counts and timeline_picture(counts),
        "since": since,
        "attention": overview["attention"][:_MAX_ROWS],
        "findings": [with_words(finding) for finding in check["findings"][:3]],
        "number_of_findings": len(check["findings"]),
        "share": Share(json=f"{request.root_path}/console/api{_OVERVIEW}"),
    }
    return page("overview.html", "Overview", values)


def fits() -> flask.Response:
    """Show the flavors with the least capacity, as a part of the overview."""
    values: dict[str, Any] = {"refusal": None, "flavors": []}
    status = 200
    try:
        answer = api_client().ask(
            _CAPACITY, {"request_spec": {}, "all_flavors": True, "per": "zone"}
        )
    except ApiRefused as failure:
        values["refusal"] = error = form_error(failure)
        status = error.status
    else:
        flavors = sorted(answer["flavors"], key=lambda row: (row["capacity"], row["flavor"]))
        values["flavors"] = [_fit_row(row) for row in flavors[:_MAX_FLAVORS]]
        values["more"] = max(len(flavors) - _MAX_FLAVORS, 0)
    return page("fits.html", "What still fits", values, status=status)


def _fit_row(row: Json) -> Json:
    """Return a flavor with its zones, the fewest first, and the main reason of its limit."""
    zones = sorted(row.get("per", ()), key=lambda part: (part["capacity"], str(part["name"])))
    stops = row["limited_by"]
    # A required trait that no host has stops more than a full host.
    details = (stop for stop in stops if not row["capacity"] and stop.get("detail"))
    stop = next(details, next(iter(stops), None))
    return {
        "name": row["flavor"],
        "capacity": row["capacity"],
        "exact": row.get("exact", True),
        "refused": row.get("refused", ""),
        "zones": [(part["name"] or "-", part["capacity"]) for part in zones],
        "stop": stop,
    }


def _get_visible(client: ApiClient, path: str, query: Mapping[str, str] | None = None) -> Any:
    """Return a document, or None if this person may not read it."""
    try:
        return client.get(path, query)
    except ApiRefused:
        return None


def _choose_classes(zones: Sequence[Json]) -> list[str]:
    """Return the resource classes to show: first the usual classes, then the fullest."""
    names = {name for zone in zones for name in zone["resources"]}
    uses = {name: _total(zones, name).percent for name in names}
    first = [name for name in _FIRST_CLASSES if name in names]
    others = sorted(names - set(first), key=lambda name: (-uses[name], name))
    return [*first, *others][:_MAX_CLASSES]


def _sort_zones(overview: Json) -> list[Json]:
    zones: list[Json] = overview["zones"]
    return zones if len(zones) <= _MAX_ZONES else sorted(zones, key=lambda zone: -zone["hosts"])


def _use(zone: Json, name: str) -> Use | None:
    sums = zone["resources"].get(name)
    if sums is None:
        return None
    amounts = (sums["used"], sums["capacity"], sums["full"], sums["nearly_full"])
    return Use(name, zone["zone"], *amounts)


def _total(zones: Sequence[Json], name: str) -> Use:
    uses = [use for zone in zones if (use := _use(zone, name)) is not None]
    return Use(
        name,
        "",
        sum(use.used for use in uses),
        sum(use.capacity for use in uses),
        sum(use.full for use in uses),
        sum(use.nearly_full for use in uses),
    )


def _find_full(zones: Sequence[Json]) -> Iterator[Use]:
    """Yield the resources that are nearly full in a zone, the fullest first."""
    uses = [use for zone in zones for name in zone["resources"] if (use := _use(zone, name))]
    for use in sorted(uses, key=lambda use: (-use.percent, use.zone)):
        if use.percent >= NEARLY_FULL:
            yield use


VIEWS: Mapping[str, Callable[..., Any]] = {"/": index, "/overview/fits": fits}
