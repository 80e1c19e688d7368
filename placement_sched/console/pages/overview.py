# SPDX-License-Identifier: Apache-2.0
"""Overview page: hosts, used shares, failed requests, findings and remaining capacity."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import flask
from flask import request

from placement_sched.console.charts import timeline_picture
from placement_sched.console.client import ApiClient, ApiError
from placement_sched.console.page import answer_page, api_client, build_share, page, redirect
from placement_sched.console.pages.aggregates import with_words
from placement_sched.console.pages.cloud import (
    FILTERS,
    add_uses,
    build_use,
    choose_classes,
    find_full,
)
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names

_OVERVIEW, _COUNTS = "/scheduler/v1/overview", "/scheduler/v1/decision_counts"
_CHECK, _CAPACITY = "/scheduler/v1/aggregate_check", "/scheduler/v1/capacity"
_FAILOVER = "/scheduler/v1/failover_capacity"
#: Maximum number of resource classes, zones and other rows.
_MAX_CLASSES, _MAX_ZONES, _MAX_ROWS = 6, 12, 6
_MAX_FLAVORS = 10
_DAY = timedelta(days=1)


def index() -> flask.Response:
    """Show the state of the cloud."""
    if any(name in request.args for name in FILTERS):
        # Addresses of the map began with /console/? before this page.
        return redirect(f"/console/cloud?{request.query_string.decode('latin-1')}")
    client = api_client()
    overview = client.get(_OVERVIEW)
    classes = choose_classes(overview["zones"], _MAX_CLASSES)
    rows = [(zone, [build_use(zone, name) for name in classes]) for zone in _sort_zones(overview)]
    since = (utcnow() - _DAY).isoformat()
    counts = _get_visible(client, _COUNTS, {"since": since})
    values = {
        "cloud": overview,
        "classes": classes,
        "zones": rows[:_MAX_ZONES],
        "more_zones": len(rows) - _MAX_ZONES,
        "total": [add_uses(overview["zones"], name) for name in classes],
        "warnings": list(find_full(overview["zones"]))[:_MAX_ROWS],
        "counts": counts and with_names(counts, client.aggregate_names()),
        "stages": [] if counts is None else counts["stages"][:3],
        "timeline": counts and timeline_picture(counts),
        "since": since,
        "attention": overview["attention"][:_MAX_ROWS],
        "failover": _get_visible(client, _FAILOVER),
        "share": build_share(_OVERVIEW),
    }
    return page("overview.html", "Overview", values)


def findings() -> flask.Response:
    """Show the first findings of the check of aggregates, as a part of the overview.

    The check reads the traits of all hosts, which takes as long as the rest of the page.
    """

    def answer() -> Mapping[str, Any]:
        all_findings = api_client().get(_CHECK)["findings"]
        first_findings = [with_words(finding) for finding in all_findings[:3]]
        return {"findings": first_findings, "number": len(all_findings)}

    return answer_page("findings.html", "Findings", {}, answer)


def fits() -> flask.Response:
    """Show the flavors with the least capacity, as a part of the overview."""
    return answer_page("fits.html", "What still fits", {"flavors": []}, _count_fits)


def _count_fits() -> Mapping[str, Any]:
    body = {"request_spec": {}, "all_flavors": True, "per": "zone"}
    flavors = sorted(
        api_client().ask(_CAPACITY, body)["flavors"],
        key=lambda row: (row["capacity"], row["flavor"]),
    )
    return {"flavors": [_fit_row(row) for row in flavors[:_MAX_FLAVORS]]}


def _fit_row(row: Json) -> Json:
    """Build the row of a flavor: zones with least capacity first, and the main limit."""
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
    """Get a document, or None if this person may not read it."""
    try:
        return client.get(path, query)
    except ApiError:
        return None


def _sort_zones(overview: Json) -> list[Json]:
    zones: list[Json] = overview["zones"]
    return zones if len(zones) <= _MAX_ZONES else sorted(zones, key=lambda zone: -zone["hosts"])


VIEWS: Mapping[str, Callable[..., Any]] = {
    "/": index,
    "/overview/findings": findings,
    "/overview/fits": fits,
}
