# SPDX-License-Identifier: Apache-2.0
"""Pages of the cloud: overview, hosts, aggregates, policies, search."""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import flask
from flask import request

from placement_sched.errors import NotFound
from placement_sched.explain.phrases import describe_code
from placement_sched.explain.reader import format_value
from placement_sched.extensions.console.client import ApiClient, ApiError, join_path
from placement_sched.extensions.console.page import (
    build_share,
    get_api_client,
    redirect,
    render_page,
    render_result_page,
    send_csv,
    with_headers,
)
from placement_sched.extensions.console.timeline import build_timeline_picture
from placement_sched.extensions.console.units import format_percent, format_share, format_used
from placement_sched.limits import MAX_LISTED_HOSTS, MAX_SEARCH_HITS
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import (
    find_nearest,
    format_count,
    format_suggestion,
    read_uuid,
    shorten_names,
    suggest_name,
)
from placement_sched.model.plan_run import FAILED, FINAL_STATES, RUNNING
from placement_sched.model.provider import CUSTOM_PREFIX, NEARLY_FULL

#: Filters of hosts, which are query parameters of the API.
FILTERS = ("search", "zone", "aggregate", "state", "trait")
#: Resource classes with a column in the table, and the titles of the columns.
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
#: Metadata key, and prefix of metadata keys, with a column of their own.
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
_CHECK = "/scheduler/v1/aggregate_check"
_FAILOVER = "/scheduler/v1/failover_capacity"
#: Maximum number of resource classes, zones and other rows.
_MAX_CLASSES, _MAX_ZONES, _MAX_ROWS = 6, 12, 6
_DAY = timedelta(days=1)
_RUNS = "/scheduler/v1/plan_runs"
#: Seconds after which scripts read a page, and the hosts of the map, again.
_REFRESH, _MAP_REFRESH = 30, 10


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
    def share(self) -> str:
        """Format the used share in percent."""
        return format_percent(self.used, self.capacity)

    @property
    def width(self) -> float:
        """Return the width of the used part of a bar in percent."""
        share = self.used / self.capacity if self.capacity else float(self.used > 0)
        return round(100 * min(share, 1.0), 2)

    @property
    def words(self) -> str:
        """Format the used amount and the capacity in units of the resource class."""
        return format_used(self.used, self.capacity, self.name)


def show_hosts() -> flask.Response:
    """Show the hosts that match the query string."""
    args = flask.request.args
    filters = {name: value for name in FILTERS if (value := args.get(name, "").strip())}
    marker = args.get("marker")
    query: dict[str, Any] = {**filters, "limit": ROWS, "marker": marker}
    document = get_api_client().get(_HOSTS, query)
    rows = [(row, [build_use(row, name) for name in COLUMNS]) for row in document["hosts"]]
    next_marker = document["hosts"][-1]["uuid"] if document["links"] else None
    values = {
        "filters": {name: filters.get(name, "") for name in FILTERS},
        # Links of earlier releases name the free share instead of the used share.
        "colour": args.get("colour", "used:MEMORY_MB").replace("free:", "used:"),
        "only": args.get("only", ""),
        "group": args.get("group", "zone"),
        "columns": COLUMNS,
        "rows": rows,
        "more": next_marker,
        "marker": marker,
        "unknown": [] if rows else list(_find_unknown_names(filters)),
        "refresh": _MAP_REFRESH,
        "share": build_share(
            _HOSTS,
            urlencode(filters),
            command=["host", "list", *(f"--{name}={value}" for name, value in filters.items())],
            csv=f"/cloud.csv?{urlencode(filters)}",
        ),
    }
    return render_page("cloud.html", "Cloud", values)


def download_hosts() -> flask.Response:
    """Send the hosts that match the query string as CSV, with amounts."""
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


def show_host(name: str) -> flask.Response:
    """Show a host with its resources, instances and services."""
    document = get_api_client().get(f"{_HOSTS}/{name}")
    trees = [(node, list(_flatten_tree(node["providers"]))) for node in document["nodes"]]
    values = {
        "host": document,
        "trees": trees,
        "running": list_running(get_api_client(), name),
        "refresh": _REFRESH,
        "refreshes_whole": True,
        "share": build_share(f"{_HOSTS}/{quote(name)}", command=["host", "show", name]),
        "drain_command": shlex.join(["placement-sched", "host", "drain", name, "--execute"]),
        "evacuate_command": shlex.join(["placement-sched", "host", "evacuate", name]),
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
    """Choose resource classes to show: the usual classes, then the fullest."""
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
    """Show the host aggregates and the findings of their check."""
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
    """Send the host aggregates as CSV, with the amounts of their hosts."""
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
    """Add a sentence (``words``) and the fixing ``command`` to a finding."""
    names = f"{shorten_names(finding['names'])} " if finding["names"] else ""
    command = _COMMANDS.get(finding["kind"])
    if finding["kind"] == "trait_unknown" and not finding["trait"].startswith(CUSTOM_PREFIX):
        command = None  # it cannot be created
    return {**finding, "words": f"{names}{finding['detail']}", "command": command}


def show_overview() -> flask.Response:
    """Show the state of the cloud."""
    if any(name in request.args for name in FILTERS):
        # In earlier releases, /console/ was the map, with the filters in its address.
        return redirect(f"/console/cloud?{request.query_string.decode('latin-1')}")
    client = get_api_client()
    overview = client.get(_OVERVIEW)
    classes = choose_classes(overview["zones"], _MAX_CLASSES)
    rows = [(zone, [build_use(zone, name) for name in classes]) for zone in _sort_zones(overview)]
    since = ((flask.g.shown_at or utcnow()) - _DAY).isoformat()
    counts = _get_visible(client, _COUNTS, {"since": since})
    values = {
        "cloud": overview,
        "classes": classes,
        "more_classes": sorted(
            {name for zone in overview["zones"] for name in zone["resources"]} - set(classes)
        ),
        "zones": rows[:_MAX_ZONES],
        "more_zones": len(rows) - _MAX_ZONES,
        "total": [add_uses(overview["zones"], name) for name in classes],
        "warnings": list(find_full(overview["zones"]))[:_MAX_ROWS],
        "counts": counts,
        "reasons": [] if counts is None else _build_reasons(client, counts),
        "timeline": counts and build_timeline_picture(counts),
        "since": since,
        "attention": overview["attention"][:_MAX_ROWS],
        "failover": _get_visible(client, _FAILOVER),
        "running": list_running(client),
        "refresh": _REFRESH,
        "refreshes_whole": True,
        "share": build_share(_OVERVIEW),
    }
    return render_page("overview.html", "Overview", values)


def _build_reasons(client: ApiClient, counts: Json) -> list[Json]:
    """Return the most frequent reasons for finding no host, with words."""
    reasons = counts["reasons"][:3]
    names = client.map_names(*reasons)
    return [
        {**each, "words": describe_code(each["kind"], each["subject"], names) or each["name"]}
        for each in reasons
    ]


def show_findings() -> flask.Response:
    """Show the first findings about aggregates, as a part of the overview.

    The page loads them later, because their check takes as long as the remaining page.
    """

    def build_values() -> Mapping[str, Any]:
        all_findings = get_api_client().get(_CHECK)["findings"]
        first_findings = [with_words(finding) for finding in all_findings[:3]]
        return {"findings": first_findings, "number": len(all_findings)}

    return render_result_page("findings.html", "Findings", {}, build_values)


def _get_visible(client: ApiClient, path: str, query: Mapping[str, str] | None = None) -> Any:
    """Get a document, or None if this person may not read it."""
    try:
        return client.get(path, query)
    except ApiError:
        return None


def list_running(client: ApiClient, host: str | None = None) -> list[Json]:
    """List the plans in progress, with the hosts that instances leave.

    ``host`` selects the plans whose instances leave it. The list is empty if this person may not
    read plans. A plan has its kind, the numbers of ``done`` and ``failed`` moves and of all
    moves (``total``), and ``hosts``.
    """
    runs = client.list_visible(_RUNS, "plan_runs", {"state": RUNNING, "limit": _MAX_ROWS})
    plans = []
    for run in runs:
        moves = client.list_visible(join_path("scheduler", "v1", "plan_runs", run["uuid"]), "moves")
        hosts = list(dict.fromkeys(move["from"] for move in moves))
        if host is None or host in hosts:
            counts = run["counts"]
            plans.append(
                {
                    **{key: run[key] for key in ("uuid", "kind", "updated_at")},
                    "hosts": hosts,
                    "done": sum(counts[state] for state in FINAL_STATES),
                    "failed": counts[FAILED],
                    "total": sum(counts.values()),
                }
            )
    return plans


def send_running() -> flask.Response:
    """Send the plans that are carried out as JSON, for the script of the map."""
    client = get_api_client()
    running = list_running(client) if client.is_allowed("GET", _RUNS) else []
    body = flask.json.dumps({"running": running})
    return with_headers(flask.Response(body, content_type="application/json"))


def _sort_zones(overview: Json) -> list[Json]:
    zones: list[Json] = overview["zones"]
    return zones if len(zones) <= _MAX_ZONES else sorted(zones, key=lambda zone: -zone["hosts"])


_POLICIES = "/scheduler/v1/policies"
#: Sources of options, in display order, with the texts to show.
SOURCES = {
    "policy": "the policy's section",
    "options_file": "the file of options",
    "environment": "environment",
    "configuration": "configuration",
    "default": "default",
}
_ORDER = tuple(SOURCES)
#: The criteria that select a policy, by selector.
SELECTORS = {
    "hint": "the scheduler hint sched_policy",
    "availability_zone": "the availability zone that the request names",
    "tenant": "the project of the request",
    "extra_specs": "extra specs of the flavor",
}


def show_policies() -> flask.Response:
    """Show the policies, a policy in full, and its differences from another."""
    document = get_api_client().get(_POLICIES)
    policies = {policy["name"]: policy for policy in document["policies"]}
    chosen = _get_policy(policies, request.args.get("policy") or next(iter(policies)))
    other_name = request.args.get("beside")
    other = _get_policy(policies, other_name) if other_name else None
    values = {
        "policies": list(policies.values()),
        "selectors": [(name, SELECTORS.get(name, "")) for name in document["selectors"]],
        "chosen": chosen,
        "options": _sort_options(chosen),
        "other": other,
        "differences": None if other is None else _compare_policies(chosen, other),
        "sources": SOURCES,
        "access": document["access"],
        "share": build_share(_POLICIES, command=["policy", "list"]),
    }
    return render_page("policies.html", "Policies", values)


def _get_policy(policies: Mapping[str, Json], name: str) -> Json:
    try:
        return policies[name.lower()]
    except KeyError:
        suggestion = suggest_name("policy", name, policies)
        raise NotFound(f"there is no policy {name!r}{suggestion}") from None


def _sort_options(policy: Json) -> list[tuple[str, Json]]:
    """Sort the options of a policy by source and name."""
    options: Mapping[str, Json] = policy["options"]
    return sorted(options.items(), key=lambda pair: (_ORDER.index(pair[1]["source"]), pair[0]))


def _compare_policies(policy: Json, other: Json) -> list[tuple[str, str, str]]:
    """List the differences between two policies: name, value and other value."""
    rows = [
        (key.replace("_", " "), _join_names(policy[key]), _join_names(other[key]))
        for key in ("request_filters", "filters")
    ]
    multipliers = [{w["name"]: w["multiplier"] for w in p["weighers"]} for p in (policy, other)]
    rows += [
        (name, format_value(multipliers[0].get(name)), format_value(multipliers[1].get(name)))
        for name in dict.fromkeys([*multipliers[0], *multipliers[1]])
    ]
    names = dict.fromkeys([*policy["options"], *other["options"]])
    rows += [(name, _format_option(policy, name), _format_option(other, name)) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _format_option(policy: Json, name: str) -> str:
    return format_value(policy["options"].get(name, {}).get("value"))


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "-"


#: Objects with a name: kind, path and key of the list, keys of the name and of an id, and address.
_NAMED = (
    ("Flavor", "/compute/v2.1/flavors/detail", "flavors", "name", "id", "/ask?flavor"),
    ("Aggregate", "/compute/v2.1/os-aggregates", "aggregates", "name", "uuid", "/cloud?aggregate"),
    (
        *("Zone", "/compute/v2.1/os-availability-zone", "availabilityZoneInfo"),
        *("zoneName", "", "/cloud?zone"),
    ),
    ("Policy", "/scheduler/v1/policies", "policies", "name", "", "/policies?policy"),
)
_HOST_ATTRIBUTE = "OS-EXT-SRV-ATTR:host"
#: The first characters of a uuid, and the number of decisions that are compared with them.
_UUID_START = re.compile("[0-9a-f]{8}[0-9a-f-]*")
_MAX_EXAMINED = 1000


@dataclass(frozen=True, slots=True)
class Hit:
    """A match of a search, with its path and query below ``/console``."""

    kind: str
    name: str
    address: str
    detail: str = ""
    #: Another text, such as a uuid, that is an exact match.
    alias: str = ""


def search() -> flask.Response:
    """Redirect to the only exact match, or list all matches."""
    text, client = request.args.get("q", "").strip(), get_api_client()
    may_list = client.is_allowed("GET", _HOSTS)
    hits = _search(client, text)
    exact = [hit for hit in hits if text.lower() in {hit.name.lower(), hit.alias.lower()}]
    if len(exact) == 1 or len(hits) == 1:
        return redirect(f"/console{(exact or hits)[0].address}")
    values = {
        "hits": hits,
        "text": text,
        "found_text": text,
        "limit": MAX_SEARCH_HITS,
        "similar": _find_similar(client, text) if text and not hits else (),
        "may_list": may_list,
    }
    return render_page("search.html", "Search", values)


def _find_similar(client: ApiClient, text: str) -> Sequence[str]:
    """Find names of hosts and other objects that are similar to a text."""
    names = {host["host"] for host in client.list_visible(_HOSTS, "hosts")}
    for _, path, key, name, _, _ in _NAMED:
        names |= {item[name] for item in client.list_visible(path, key)}
    return find_nearest(text, names, 3)


def _search(client: ApiClient, text: str) -> list[Hit]:
    """Search for matches of all kinds that this person may read."""
    if not text:
        return []
    hits = _list_hits(_search_hosts, client, text)
    hits += _list_hits(_search_servers, client, text)
    hits += _search_named(client, text)
    return hits + _list_hits(_search_decisions, client, text)


def _list_hits(
    search: Callable[[ApiClient, str], Iterator[Hit]], client: ApiClient, text: str
) -> list[Hit]:
    """List the matches of a kind until the API rejects a request.

    A request is rejected if the person may not list this kind or the text is malformed for it.
    """
    hits = []
    with suppress(ApiError):
        for hit in search(client, text):
            hits.append(hit)  # noqa: PERF402 - keeps the hits before the rejected request
    return hits


def _search_hosts(client: ApiClient, text: str) -> Iterator[Hit]:
    document = client.get(_HOSTS, {"search": text, "limit": MAX_SEARCH_HITS})
    for host in document["hosts"]:
        node = host["node"] if host["node"] != host["host"] else ""
        detail = ", ".join(filter(None, (node, f"zone {host['zone']}", host["state"])))
        yield Hit("Host", host["host"], f"/hosts/{quote(host['host'], safe='')}", detail, node)


def _search_servers(client: ApiClient, text: str) -> Iterator[Hit]:
    uuid = read_uuid(text)
    filters = {"name": text} if uuid is None else {"uuid": uuid}
    query = {"all_tenants": "1", "limit": MAX_SEARCH_HITS, **filters}
    for server in client.get("/compute/v2.1/servers/detail", query)["servers"]:
        host = server.get(_HOST_ATTRIBUTE)
        detail = f"{server['id']}{f', on {host}' if host else ''}"
        address = f"/decisions?{urlencode({'instance': server['id']})}"
        yield Hit("Server", server["name"], address, detail, server["id"])


def _search_named(client: ApiClient, text: str) -> Iterator[Hit]:
    for kind, path, key, name, alias, address in _NAMED:
        for item in client.list_visible(path, key):
            identifier = item[alias] if alias else ""
            if text.lower() in item[name].lower() or text.lower() == identifier.lower():
                hosts = item["hosts"] if kind == "Aggregate" else ()
                detail = format_count(len(hosts), "host") if kind == "Aggregate" else identifier
                named = f"{address}={quote_plus(item[name])}"
                yield Hit(kind, item[name], named, detail, identifier)


def _search_decisions(client: ApiClient, text: str) -> Iterator[Hit]:
    """Yield the decisions with a text as request id, instance or uuid.

    The newest decisions are also found by the first characters of their uuids.
    """
    uuid = read_uuid(text)
    if uuid is not None:
        # A recorded server is another hit, with the same address as its decisions.
        for name in ("instance", "request_id"):
            yield from _list_decisions(client, name, uuid)
        decision = client.get(f"/scheduler/v1/decisions/{uuid}")
        yield Hit("Decision", uuid, f"/decisions/{uuid}", decision["outcome"])
    elif text.startswith("req-"):
        yield from _list_decisions(client, "request_id", text)
    elif _UUID_START.fullmatch(text.lower()):
        query = {"limit": _MAX_EXAMINED}
        for decision in client.get("/scheduler/v1/decisions", query)["decisions"]:
            if decision["uuid"].startswith(text.lower()):
                uuid = decision["uuid"]
                yield Hit("Decision", uuid, f"/decisions/{uuid}", decision["outcome"])


def _list_decisions(client: ApiClient, name: str, text: str) -> Iterator[Hit]:
    decisions = client.get("/scheduler/v1/decisions", {name: text, "limit": 2})["decisions"]
    words = "Decisions of instance" if name == "instance" else "Decisions of request"
    if len(decisions) == 1:
        yield Hit(words, text, f"/decisions/{decisions[0]['uuid']}", decisions[0]["outcome"])
    elif decisions:
        yield Hit(words, text, f"/decisions?{urlencode({name: text})}")


VIEWS: Mapping[str, Callable[..., Any]] = {
    "/": show_overview,
    "/overview/findings": show_findings,
    "/aggregates": show_aggregates,
    "/aggregates.csv": download_aggregates,
    "/cloud": show_hosts,
    "/cloud.csv": download_hosts,
    "/cloud/running": send_running,
    "/hosts/<path:name>": show_host,
    "/policies": show_policies,
    "/search": search,
}
