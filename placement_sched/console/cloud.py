# SPDX-License-Identifier: Apache-2.0
"""The pages Overview, Cloud and Aggregates, and the page of a host."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import flask
from flask import request

from placement_sched.console.charts import build_timeline_picture
from placement_sched.console.client import ApiClient, ApiError
from placement_sched.console.page import (
    answer_page,
    build_share,
    get_api_client,
    redirect,
    render_page,
    send_csv,
)
from placement_sched.console.units import format_share, format_used
from placement_sched.limits import MAX_LISTED_HOSTS
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names
from placement_sched.model.names import find_nearest, format_suggestion, shorten_names
from placement_sched.model.provider import NEARLY_FULL

#: Filters of hosts, which are query parameters of the API.
FILTERS = ("search", "zone", "aggregate", "state", "trait")
#: Resource classes with a column in the table, and its title.
COLUMNS = {"MEMORY_MB": "memory", "VCPU": "VCPU", "DISK_GB": "disk"}
#: Hosts per page of the table.
ROWS = 50
_HOSTS = "/scheduler/v1/hosts"
_CSV_COLUMNS = ("host", "node", "zone", "state", "policy", "instances")
#: Sums of a resource class that are shown.
_SUMS = ("used", "capacity", "full", "nearly_full")
#: Resource classes shown first.
_FIRST_CLASSES = ("MEMORY_MB", "VCPU", "PCPU", "DISK_GB")
#: Maximum number of resource classes with a column.
_MAX_AGGREGATE_CLASSES = 4
#: Metadata keys with a column of their own.
_ZONE, _TRAIT = "availability_zone", "trait:"
#: Commands by the kind of finding that they fix.
_COMMANDS = {
    "trait_unknown": "placement-sched placement sync_traits",
    "trait_lacking": "placement-sched placement sync_traits",
    "not_in_placement": "placement-sched placement sync_aggregates",
    "stale_in_placement": "placement-sched placement sync_aggregates --remove-stale",
}
#: Findings for differences between host aggregates and provider aggregates.
_OUT_OF_STEP = frozenset({"not_in_placement", "stale_in_placement"})
_OVERVIEW, _COUNTS = "/scheduler/v1/overview", "/scheduler/v1/decision_counts"
_CHECK, _CAPACITY = "/scheduler/v1/aggregate_check", "/scheduler/v1/capacity"
_FAILOVER = "/scheduler/v1/failover_capacity"
#: Maximum number of resource classes, zones and other rows.
_MAX_CLASSES, _MAX_ZONES, _MAX_ROWS = 6, 12, 6
_MAX_FLAVORS = 10
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a resource class by hosts or by a provider.

    ``full`` and ``nearly_full`` are numbers of hosts.
    """

    name: str
    used: int
    capacity: int
    full: int = 0
    nearly_full: int = 0
    zone: str = ""

    @property
    def percent(self) -> int:
        """Return the used share in percent, rounded."""
        return format_share(self.used, self.capacity)

    @property
    def width(self) -> float:
        """Return the width of the used part of a bar in percent."""
        share = self.used / self.capacity if self.capacity else float(self.used > 0)
        return round(100 * min(share, 1.0), 2)

    @property
    def words(self) -> str:
        """Format the used amount and the capacity in units of the resource class."""
        return format_used(self.used, self.capacity, self.name)


def index() -> flask.Response:
    """Show the hosts that match the query string."""
    args = flask.request.args
    filters = {name: value for name in FILTERS if (value := args.get(name, "").strip())}
    marker = args.get("marker")
    query: dict[str, Any] = {**filters, "limit": ROWS, "marker": marker}
    document = get_api_client().get(_HOSTS, query)
    rows = [(row, [build_use(row, name) for name in COLUMNS]) for row in document["hosts"]]
    next_marker = document["hosts"][-1]["uuid"] if document["links"] else None
    values = {
        "given": {name: filters.get(name, "") for name in FILTERS},
        # Links of earlier releases have the free share.
        "colour": args.get("colour", "used:MEMORY_MB").replace("free:", "used:"),
        "only": args.get("only", ""),
        "group": args.get("group", "zone"),
        "columns": COLUMNS,
        "rows": rows,
        "more": next_marker,
        "marker": marker,
        "unknown": [] if rows else list(_find_unknown_names(filters)),
        "share": build_share(
            _HOSTS,
            urlencode(filters),
            command=["host", "list", *(f"--{name}={value}" for name, value in filters.items())],
            csv=f"/cloud.csv?{urlencode(filters)}",
        ),
    }
    return render_page("cloud.html", "Cloud", values)


def table() -> flask.Response:
    """Send the hosts that match the query string, with used and total amounts, as CSV."""
    args = flask.request.args
    filters = {name: args[name] for name in FILTERS if args.get(name)}
    hosts = get_api_client().get(_HOSTS, filters)["hosts"]
    rows = [[row[name] for name in _CSV_COLUMNS] for row in hosts]
    return _send_amounts("hosts.csv", _CSV_COLUMNS, rows, [row["resources"] for row in hosts])


def _send_amounts(
    name: str, titles: Sequence[str], rows: Iterable[Sequence[Any]], resources: Sequence[Json]
) -> flask.Response:
    """Send rows as CSV, each with the amounts of its resources."""
    classes = sorted({name for row in resources for name in row})
    amounts = [(name, kind) for name in classes for kind in ("used", "capacity")]
    complete = (
        [*row, *(stock.get(name, {}).get(kind) for name, kind in amounts)]
        for row, stock in zip(rows, resources, strict=True)
    )
    return send_csv(name, [*titles, *map(" ".join, amounts)], complete)


def host(name: str) -> flask.Response:
    """Show a host with its resources, instances and services."""
    document = get_api_client().get(f"{_HOSTS}/{name}")
    trees = [(node, list(_flatten_tree(node["providers"]))) for node in document["nodes"]]
    values = {
        "host": document,
        "trees": trees,
        "share": build_share(f"{_HOSTS}/{quote(name)}", command=["host", "show", name]),
        "drain_command": shlex.join(["placement-sched", "host", "drain", name, "--execute"]),
    }
    return render_page("host.html", name, values)


def _find_unknown_names(filters: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each filter value that does not exist."""
    client = get_api_client()
    aggregates = client.map_aggregate_names() if "aggregate" in filters else {}
    listers: Mapping[str, Callable[[], Collection[str]]] = {
        "zone": lambda: [
            zone["zoneName"]
            for zone in client.get("/compute/v2.1/os-availability-zone")["availabilityZoneInfo"]
        ],
        "aggregate": lambda: {*aggregates, *aggregates.values()},
        "trait": lambda: client.get("/placement/traits")["traits"],
    }
    for kind, names in listers.items():
        if kind not in filters:
            continue
        try:
            existing = names()
        except ApiError:  # this caller may not list these names
            continue
        if filters[kind] not in existing:
            suggestion = format_suggestion(find_nearest(filters[kind], existing), str)
            yield f"There is no {kind} {filters[kind]}{suggestion or '.'}"


def _flatten_tree(providers: Sequence[Json]) -> Iterator[tuple[int, Json, list[Use]]]:
    """List the providers of a tree, depth first, with their depth and bars."""
    children: dict[str | None, list[Json]] = {}
    for provider in providers:
        children.setdefault(provider["parent_provider_uuid"], []).append(provider)
    stack = [(0, provider) for provider in reversed(children.get(None, []))]
    while stack:
        depth, provider = stack.pop()
        bars = [
            Use(name, stock["used"], stock["capacity"])
            for name, stock in provider["inventories"].items()
        ]
        yield depth, provider, bars
        nested = sorted(children.get(provider["uuid"], []), key=lambda child: str(child["name"]))
        stack += [(depth + 1, child) for child in reversed(nested)]


def build_use(sums: Json, name: str) -> Use | None:
    """Build the use of a resource class, or return None if hosts have none."""
    amounts = sums["resources"].get(name)
    if amounts is None:
        return None
    counts = {key: amounts[key] for key in _SUMS if key in amounts}
    return Use(name, **counts, zone=sums.get("zone", ""))


def add_uses(parts: Sequence[Json], name: str) -> Use:
    """Sum the use of a resource class by the hosts of all parts."""
    uses = [use for part in parts if (use := build_use(part, name)) is not None]
    return Use(name, **{key: sum(getattr(use, key) for use in uses) for key in _SUMS})


def choose_classes(parts: Sequence[Json], maximum: int) -> list[str]:
    """Choose the resource classes to show: first the usual classes, then the fullest."""
    names = {name for part in parts for name in part["resources"]}
    uses = {name: add_uses(parts, name).percent for name in names}
    first = [name for name in _FIRST_CLASSES if name in names]
    further = sorted(names - set(first), key=lambda name: (-uses[name], name))
    return [*first, *further][:maximum]


def find_full(zones: Sequence[Json]) -> Iterator[Use]:
    """Yield resources that are nearly full in a zone, fullest first."""
    uses = [use for zone in zones for name in zone["resources"] if (use := build_use(zone, name))]
    for use in sorted(uses, key=lambda use: (-use.percent, use.zone)):
        if use.percent >= NEARLY_FULL:
            yield use


def show_aggregates() -> flask.Response:
    """Show the host aggregates and the result of the check of reserved aggregates."""
    aggregates = get_api_client().get("/compute/v2.1/os-aggregates")["aggregates"]
    check = get_api_client().get(_CHECK)
    sums = {part["uuid"]: part for part in get_api_client().get(_OVERVIEW)["aggregates"]}
    classes = choose_classes(list(sums.values()), _MAX_AGGREGATE_CLASSES)
    by_name: dict[str | None, list[Json]] = defaultdict(list)
    for finding in check["findings"]:
        by_name[finding["aggregate"]].append(finding)
    reserved = {item["uuid"]: item for item in check["aggregates"]}
    values = {
        "filtering": check["filtering"],
        "findings": [with_words(finding) for finding in check["findings"]],
        "reserved": list(reserved.values()),
        "classes": classes,
        "lists_hosts": sum(len(item["hosts"]) for item in aggregates) <= MAX_LISTED_HOSTS,
        "aggregates": [
            _build_row(item, reserved.get(item["uuid"]), by_name[item["name"]])
            | {
                "uses": [
                    build_use(sums.get(item["uuid"], {"resources": {}}), name) for name in classes
                ]
            }
            for item in sorted(aggregates, key=lambda item: str(item["name"]))
        ],
    }
    share = build_share(_CHECK, csv="/aggregates.csv")
    # The command reads the configured database and has no address of a server.
    values["share"] = replace(share, command="placement-sched aggregate check")
    return render_page("aggregates.html", "Aggregates", values)


def download_aggregates() -> flask.Response:
    """Send the host aggregates, with used amounts and capacity of their hosts, as CSV."""
    aggregates = get_api_client().get("/compute/v2.1/os-aggregates")["aggregates"]
    sums = {
        part["uuid"]: part["resources"] for part in get_api_client().get(_OVERVIEW)["aggregates"]
    }
    rows = [
        [
            item["name"],
            item["uuid"],
            " ".join(f"{key}={value}" for key, value in sorted(item["metadata"].items())),
            " ".join(item["hosts"]),
        ]
        for item in aggregates
    ]
    titles = ("name", "uuid", "metadata", "hosts")
    resources = [sums.get(item["uuid"], {}) for item in aggregates]
    return _send_amounts("aggregates.csv", titles, rows, resources)


def _build_row(aggregate: Json, reserved: Json | None, findings: Sequence[Json]) -> Json:
    metadata: Mapping[str, str] = aggregate["metadata"]
    remaining = {
        key: value
        for key, value in metadata.items()
        if key not in {_ZONE, POLICY_KEY} and (not key.startswith(_TRAIT) or value != "required")
    }
    return {
        "name": aggregate["name"],
        "uuid": aggregate["uuid"],
        "hosts": aggregate["hosts"],
        "zone": metadata.get(_ZONE) or aggregate.get("availability_zone"),
        "policy": metadata.get(POLICY_KEY),
        "traits": reserved["traits"] if reserved else (),
        "metadata": sorted(remaining.items()),
        "out_of_step": [
            with_words(finding) for finding in findings if finding["kind"] in _OUT_OF_STEP
        ],
    }


def with_words(finding: Json) -> Json:
    """Add the command line's sentence and the command that fixes it to a finding."""
    names = f"{shorten_names(finding['names'])} " if finding["names"] else ""
    command = _COMMANDS.get(finding["kind"])
    return {**finding, "words": f"{names}{finding['detail']}", "command": command}


def show_overview() -> flask.Response:
    """Show the state of the cloud."""
    if any(name in request.args for name in FILTERS):
        # Addresses of the map began with /console/? before this page.
        return redirect(f"/console/cloud?{request.query_string.decode('latin-1')}")
    client = get_api_client()
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
        "counts": counts and with_names(counts, client.map_aggregate_names()),
        "stages": [] if counts is None else counts["stages"][:3],
        "timeline": counts and build_timeline_picture(counts),
        "since": since,
        "attention": overview["attention"][:_MAX_ROWS],
        "failover": _get_visible(client, _FAILOVER),
        "share": build_share(_OVERVIEW),
    }
    return render_page("overview.html", "Overview", values)


def findings() -> flask.Response:
    """Show the first findings of the check of aggregates, as a part of the overview.

    The check reads the traits of all hosts, which takes as long as the rest of the page.
    """

    def answer() -> Mapping[str, Any]:
        all_findings = get_api_client().get(_CHECK)["findings"]
        first_findings = [with_words(finding) for finding in all_findings[:3]]
        return {"findings": first_findings, "number": len(all_findings)}

    return answer_page("findings.html", "Findings", {}, answer)


def fits() -> flask.Response:
    """Show the flavors with the least capacity, as a part of the overview."""
    return answer_page("fits.html", "What still fits", {"flavors": []}, _count_fits)


def _count_fits() -> Mapping[str, Any]:
    body = {"request_spec": {}, "all_flavors": True, "per": "zone"}
    flavors = sorted(
        get_api_client().post(_CAPACITY, body)["flavors"],
        key=lambda row: (row["capacity"], row["flavor"]),
    )
    return {"flavors": [_build_fit_row(row) for row in flavors[:_MAX_FLAVORS]]}


def _build_fit_row(row: Json) -> Json:
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
    "/": show_overview,
    "/overview/findings": findings,
    "/overview/fits": fits,
    "/aggregates": show_aggregates,
    "/aggregates.csv": download_aggregates,
    "/cloud": index,
    "/cloud.csv": table,
    "/hosts/<path:name>": host,
}
