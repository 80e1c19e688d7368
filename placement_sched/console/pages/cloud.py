# SPDX-License-Identifier: Apache-2.0
"""Cloud page: hosts as a map and a table, and the page of a host."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import flask

from placement_sched.console.client import ApiError
from placement_sched.console.page import api_client, build_share, csv_file, page
from placement_sched.console.units import format_share, format_used
from placement_sched.model.document import Json
from placement_sched.model.names import did_you_mean, nearest
from placement_sched.model.provider import NEARLY_FULL

#: Filters of hosts, which are query parameters of the API.
FILTERS = ("search", "zone", "aggregate", "state", "trait")
#: Resource classes with a column in the table, and its title.
COLUMNS = {"MEMORY_MB": "memory", "VCPU": "VCPU", "DISK_GB": "disk"}
#: Hosts per page of the table.
ROWS = 50
_HOSTS = "/scheduler/v1/hosts"
_CSV_COLUMNS = ("host", "node", "zone", "state", "policy", "instances")
_WIDTH = 100.0


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """The use of a resource: its numbers, and the width of the used part in percent."""

    name: str
    used: int
    capacity: int
    width: float

    @classmethod
    def of(cls, name: str, amounts: Json) -> "ResourceBar":
        """Build the bar of amounts with ``capacity`` and ``used``."""
        used, capacity = amounts["used"], amounts["capacity"]
        part = used / capacity if capacity else float(used > 0)
        return cls(name, used, capacity, round(min(part, 1.0) * _WIDTH, 2))

    @property
    def words(self) -> str:
        """Format the used amount and the capacity in units of the resource class."""
        return format_used(self.used, self.capacity, self.name)


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A provider of a tree with its depth and the bars of its resources."""

    depth: int
    provider: Json
    bars: Sequence[ResourceBar]


def index() -> flask.Response:
    """Show the hosts that match the query string."""
    args = flask.request.args
    filters = {name: value for name in FILTERS if (value := args.get(name, "").strip())}
    marker = args.get("marker")
    query: dict[str, Any] = {**filters, "limit": ROWS, "marker": marker}
    document = api_client().get(_HOSTS, query)
    rows = [(row, _build_bars(row["resources"], COLUMNS)) for row in document["hosts"]]
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
    return page("cloud.html", "Cloud", values)


def table() -> flask.Response:
    """Send the hosts that match the query string, with used and total amounts, as CSV."""
    args = flask.request.args
    filters = {name: args[name] for name in FILTERS if args.get(name)}
    hosts = api_client().get(_HOSTS, filters)["hosts"]
    classes = sorted({name for row in hosts for name in row["resources"]})
    amounts = [(name, kind) for name in classes for kind in ("used", "capacity")]
    rows = (
        [row[name] for name in _CSV_COLUMNS]
        + [row["resources"].get(name, {}).get(kind) for name, kind in amounts]
        for row in hosts
    )
    return csv_file("hosts.csv", [*_CSV_COLUMNS, *map(" ".join, amounts)], rows)


def host(name: str) -> flask.Response:
    """Show a host with its resources, instances and services."""
    document = api_client().get(f"{_HOSTS}/{name}")
    trees = [(node, list(_flatten_tree(node["providers"]))) for node in document["nodes"]]
    values = {
        "host": document,
        "trees": trees,
        "share": build_share(f"{_HOSTS}/{quote(name)}", command=["host", "show", name]),
        "drain_command": shlex.join(["placement-sched", "host", "drain", name, "--execute"]),
    }
    return page("host.html", name, values)


def _find_unknown_names(filters: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each filter value that does not exist."""
    client = api_client()
    aggregates = client.aggregate_names() if "aggregate" in filters else {}
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
            suggestion = did_you_mean(nearest(filters[kind], existing), str)
            yield f"There is no {kind} {filters[kind]}{suggestion or '.'}"


def _build_bars(resources: Json, names: Mapping[str, str]) -> list[ResourceBar | None]:
    """Build the bars of these classes, None for a class that the host lacks."""
    return [ResourceBar.of(name, resources[name]) if name in resources else None for name in names]


def _flatten_tree(providers: Sequence[Json]) -> list[TreeRow]:
    """List the providers of a tree in depth-first order."""
    children: dict[str | None, list[Json]] = {}
    for provider in providers:
        children.setdefault(provider["parent_provider_uuid"], []).append(provider)
    rows: list[TreeRow] = []
    stack = [(0, provider) for provider in reversed(children.get(None, []))]
    while stack:
        depth, provider = stack.pop()
        bars = [ResourceBar.of(name, stock) for name, stock in provider["inventories"].items()]
        rows.append(TreeRow(depth, provider, bars))
        nested = sorted(children.get(provider["uuid"], []), key=lambda child: str(child["name"]))
        stack += [(depth + 1, child) for child in reversed(nested)]
    return rows


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/cloud": index,
    "/cloud.csv": table,
    "/hosts/<path:name>": host,
}


#: Sums of a resource class that are shown.
_SUMS = ("used", "capacity", "full", "nearly_full")
#: Resource classes shown first.
_FIRST_CLASSES = ("MEMORY_MB", "VCPU", "PCPU", "DISK_GB")


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a resource class by several hosts, and how many of them are full."""

    name: str
    used: int
    capacity: int
    full: int
    nearly_full: int
    zone: str = ""

    @property
    def percent(self) -> int:
        """Return the used share in percent."""
        return format_share(self.used, self.capacity)


def build_use(sums: Json, name: str) -> Use | None:
    """Sum the use of a resource class by hosts, or return None if they have none."""
    amounts = sums["resources"].get(name)
    if amounts is None:
        return None
    return Use(name, **{key: amounts[key] for key in _SUMS}, zone=sums.get("zone", ""))


def add_uses(parts: Sequence[Json], name: str) -> Use:
    """Sum the use of a resource class by the hosts of all parts."""
    uses = [use for part in parts if (use := build_use(part, name)) is not None]
    return Use(name, **{key: sum(getattr(use, key) for use in uses) for key in _SUMS})


def choose_classes(parts: Sequence[Json], maximum: int) -> list[str]:
    """Choose the resource classes to show: first the usual classes, then the fullest."""
    names = {name for part in parts for name in part["resources"]}
    uses = {name: add_uses(parts, name).percent for name in names}
    first = [name for name in _FIRST_CLASSES if name in names]
    others = sorted(names - set(first), key=lambda name: (-uses[name], name))
    return [*first, *others][:maximum]


def find_full(zones: Sequence[Json]) -> Iterator[Use]:
    """Yield resources that are nearly full in a zone, fullest first."""
    uses = [use for zone in zones for name in zone["resources"] if (use := build_use(zone, name))]
    for use in sorted(uses, key=lambda use: (-use.percent, use.zone)):
        if use.percent >= NEARLY_FULL:
            yield use
