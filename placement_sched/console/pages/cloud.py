"""The page Cloud: every host on a map and in a table; and the page of one host."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flask

from placement_sched.console.client import ApiRefused, path_of
from placement_sched.console.page import caller, page
from placement_sched.model.document import Json
from placement_sched.model.names import did_you_mean, nearest

#: What narrows the hosts: the names are those of the API's query.
FILTERS = ("search", "zone", "aggregate", "state", "trait")
#: The resource classes of which the table has a column.
COLUMNS = {"VCPU": "VCPU", "MEMORY_MB": "Memory, MiB", "DISK_GB": "Disk, GiB"}
#: So many hosts stand on a page of the table.
ROWS = 50
_WIDTH = 100.0


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """How much of a resource is used: numbers, and the width of the used part of a hundred."""

    name: str
    used: int
    capacity: int
    width: float

    @classmethod
    def of(cls, name: str, amounts: Json) -> "ResourceBar":
        """Return the bar of ``capacity`` and ``used``."""
        used, capacity = amounts["used"], amounts["capacity"]
        part = used / capacity if capacity else float(used > 0)
        return cls(name, used, capacity, round(min(part, 1.0) * _WIDTH, 2))

    @property
    def free(self) -> int:
        """Return how much is left; less than nothing where more is used than there may be."""
        return self.capacity - self.used


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A provider in its tree: how deep, and its resources as bars."""

    depth: int
    provider: Json
    bars: Sequence[ResourceBar]


def index() -> flask.Response:
    """Show the hosts that the query string asks for."""
    given = {name: value for name in FILTERS if (value := flask.request.args.get(name, "").strip())}
    marker = flask.request.args.get("marker")
    query: dict[str, Any] = {**given, "limit": ROWS, "marker": marker}
    found = caller().get("/scheduler/v1/hosts", query)
    rows = [(one, _bars(one["resources"], COLUMNS)) for one in found["hosts"]]
    more = found["hosts"][-1]["uuid"] if found["links"] else None
    values = {
        "given": {name: given.get(name, "") for name in FILTERS},
        "colour": flask.request.args.get("colour", "free:MEMORY_MB"),
        "group": flask.request.args.get("group", "zone"),
        "columns": COLUMNS,
        "rows": rows,
        "more": more,
        "marker": marker,
        "unknown": [] if rows else list(_unknown(given)),
    }
    return page("cloud.html", "Cloud", values)


def host(name: str) -> flask.Response:
    """Show one host whole."""
    found = caller().get(f"{path_of('scheduler', 'v1', 'hosts')}/{name}")
    trees = [(node, list(_tree(node["providers"]))) for node in found["nodes"]]
    return page("host.html", name, {"host": found, "trees": trees})


def _unknown(given: Mapping[str, str]) -> Iterator[str]:
    """Yield in words which of the names that hosts are filtered by are not there at all."""
    ask = caller()
    aggregates = ask.aggregate_names() if "aggregate" in given else {}
    known: Mapping[str, Callable[[], Collection[str]]] = {
        "zone": lambda: [
            one["zoneName"]
            for one in ask.get("/compute/v2.1/os-availability-zone")["availabilityZoneInfo"]
        ],
        "aggregate": lambda: {*aggregates, *aggregates.values()},
        "trait": lambda: ask.get("/placement/traits")["traits"],
    }
    for kind, names in known.items():
        if kind not in given:
            continue
        try:
            found = names()
        except ApiRefused:  # what this caller may not list cannot be checked
            continue
        if given[kind] not in found:
            near = did_you_mean(nearest(given[kind], found), str)
            yield f"There is no {kind} {given[kind]}{near or '.'}"


def _bars(resources: Json, names: Mapping[str, str]) -> list[ResourceBar | None]:
    """Return the bars of these classes; None where a host has nothing of one."""
    return [ResourceBar.of(name, resources[name]) if name in resources else None for name in names]


def _tree(providers: Sequence[Json]) -> list[TreeRow]:
    """Return the providers of a tree, each after its parent."""
    children: dict[str | None, list[Json]] = {}
    for one in providers:
        children.setdefault(one["parent_provider_uuid"], []).append(one)
    rows: list[TreeRow] = []
    waiting = [(0, one) for one in reversed(children.get(None, []))]
    while waiting:
        depth, one = waiting.pop()
        bars = [ResourceBar.of(name, stock) for name, stock in one["inventories"].items()]
        rows.append(TreeRow(depth, one, bars))
        below = sorted(children.get(one["uuid"], []), key=lambda child: str(child["name"]))
        waiting += [(depth + 1, child) for child in reversed(below)]
    return rows


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/": index,
    "/cloud": index,
    "/hosts/<path:name>": host,
}
