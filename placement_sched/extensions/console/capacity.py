# SPDX-License-Identifier: Apache-2.0
"""Capacity pages: remaining capacity, changes, failures, and plan runs.

The pages of plan runs list the runs with their states, and the moves of a run. They only read.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlencode

import flask
from flask import request
from werkzeug.datastructures import MultiDict

from placement_sched.cli.report.html import (
    build_capacity_values,
    list_request_parts,
    render_capacity_report,
)
from placement_sched.errors import Invalid
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import describe_hosts_without, describe_stage, select_subject
from placement_sched.extensions.console.client import ApiClient, join_path
from placement_sched.extensions.console.forms import FIELDS, LABELS, FormRequest, split_lines
from placement_sched.extensions.console.page import (
    build_heading,
    build_share,
    download,
    find_next_page_query,
    get_api_client,
    redirect_without_empty_fields,
    render_page,
    render_result_page,
    render_template,
    send_csv,
)
from placement_sched.model.document import Json
from placement_sched.model.instance_request import describe_unknown_facts
from placement_sched.model.names import join_words
from placement_sched.model.plan_run import FAILED, MOVE_STATES, PLANNED, RUN_STATES, STARTED
from placement_sched.model.provider import describe_other_consumers
from placement_sched.model.short_forms import FORMS, parse_change, shorten_addition, shorten_change

_RUNS = "/scheduler/v1/plan_runs"
#: Runs per page.
_RUNS_PER_PAGE = 50
_CAPACITY, _PLAN = "/scheduler/v1/capacity", "/scheduler/v1/plan"
_REBALANCE, _FAILOVER = "/scheduler/v1/rebalance", "/scheduler/v1/failover_capacity"
#: The paths of the APIs that the pages need. Without them, there are no pages.
API_PATHS = (_RUNS, _CAPACITY, _PLAN, _REBALANCE, _FAILOVER)
_PARTS = ("zone", "aggregate", "host", "cell")
#: The value of the form for a count of the whole cloud only.
_WHOLE = "cloud"
#: Maximum number of zones that have a column.
_MAX_ZONES = 8
_GOALS = {
    "fit": "free capacity for a flavor",
    "pack": "empty as many hosts as possible",
    "spread": "lower the highest load",
    "comply": "end violations",
}
#: Maximum number of flavors on the overview.
_MAX_FLAVORS = 10
#: Message for an empty form.
_EMPTY_FORM = "Choose a flavor, or enter its sizes or a change, then count."
#: A drained host is a host of the simulation with a disabled service.
_DRAINED = "drained or disabled"
#: Kinds of changes that links may pass, with a parameter for each host.
_HOST_CHANGES = ("drain", "remove")
#: Conditions in place of a host: filters of hosts that must all match.
_CONDITION = r"(?:search|zone|aggregate|state|trait):[^&]+"
_CONDITIONS = re.compile(rf"{_CONDITION}(?:&{_CONDITION})*")


def list_runs() -> flask.Response:
    """List runs, newest first."""
    args = flask.request.args
    filters = {"state": state} if (state := args.get("state", "").strip()) else {}
    query = {**filters, "limit": _RUNS_PER_PAGE, "marker": args.get("marker")}
    document = get_api_client().get(_RUNS, query)
    options = [f"--{name}={text}" for name, text in filters.items()]
    values = {
        "runs": document["plan_runs"],
        "states": RUN_STATES,
        "chosen": filters.get("state"),
        "older": find_next_page_query(document["links"]),
        "share": build_share(_RUNS, urlencode(filters), command=["plan-run", "list", *options]),
    }
    return render_page("plan_runs.html", "Runs of plans", values)


def show_run(uuid: str) -> flask.Response:
    """Show a run with its moves, in the order of the plan."""
    path = join_path("scheduler", "v1", "plan_runs", uuid)
    run = get_api_client().get(path)
    values = {
        "run": run,
        "states": MOVE_STATES,
        "can_resume": any(run["counts"][state] for state in (PLANNED, STARTED, FAILED)),
        "share": build_share(path, command=["plan-run", "show", run["uuid"]]),
    }
    return render_page("plan_run.html", "Run of a plan", values)


@dataclass(frozen=True)
class CapacityForm:
    """The form of the capacity page.

    It has a request or several flavors, the parts of the cloud to count in, and changes.
    """

    values: MultiDict[str, str]

    @cached_property
    def flavors(self) -> list[str]:
        """Return the names of the selected flavors."""
        return [name for text in self.values.getlist("flavor") if (name := text.strip())]

    @property
    def all_flavors(self) -> bool:
        """Return whether to count instances of all stored flavors.

        It is also true if the form has changes but neither a flavor nor sizes.
        """
        return bool(self.values.get("all")) or (bool(self.changes_typed) and not self._describes)

    @property
    def per(self) -> str:
        """Return the kind of parts to count, or "" for the whole cloud."""
        per = self.values.get("per", "zone")
        return "" if per == _WHOLE else per

    def encode(self, **more: Sequence[str]) -> str:
        """Encode the form as a query string, with the fields of ``more`` replaced."""
        fields = {
            name: self.values.getlist(name)
            for name in self.values
            if name not in {*_HOST_CHANGES, "add", "change", "instead", "more", "complete"}
        }
        return urlencode({**fields, "change": self.changes_typed, **more}, doseq=True)

    def build_command(self, changes: Sequence[Json]) -> list[str]:
        """Return the words of the command that counts the same instances."""
        command = self.form_request.build_command(
            "capacity", **({"per": self.per} if self.per else {})
        )
        flavors = [] if "flavor" in self.form_request.typed else self.flavors
        words = [f"--flavor={name}" for name in flavors] if not self.all_flavors else []
        words += ["--all-flavors"] if self.all_flavors else []
        words += [f"--change={json.dumps(change)}" for change in changes]
        return [*command, *words]

    @cached_property
    def form_request(self) -> FormRequest:
        """Return the request, without a flavor if several are selected."""
        is_multiple = self.all_flavors or len(self.flavors) > 1
        omitted = {"count", "change", *(["flavor"] if is_multiple else [])}
        fields = [pair for pair in self.values.items(multi=True) if pair[0] not in omitted]
        return FormRequest(MultiDict(fields))

    @cached_property
    def changes_typed(self) -> list[str]:
        """Return the changes that the form or a link contains, each as a line."""
        lines = list(split_lines(self.values, "change"))
        hosts_by_kind = {
            kind: list(filter(None, self.values.getlist(kind))) for kind in _HOST_CHANGES
        }
        if self.values.get("instead") == "add":
            # The table of hosts has a box for each host and a button for each change.
            more = self.values.get("more", "").strip() or "1"
            lines += [shorten_addition(host, more) for host in hosts_by_kind.pop("drain")]
        lines += [shorten_change(kind, hosts) for kind, hosts in hosts_by_kind.items() if hosts]
        for text in filter(None, self.values.getlist("add")):
            like, _, count = text.rpartition(":")
            if _CONDITIONS.fullmatch(text):
                like, count = text, "1"
            lines.append(shorten_addition(like or count, count if like else "1"))
        return lines

    @property
    def changes(self) -> list[Json]:
        """Parse the changes.

        Raises :class:`Invalid` for a malformed line.
        """
        return [parse_change(line, LABELS["changes"]) for line in self.changes_typed]

    @property
    def is_drain(self) -> bool:
        """Return whether the plan of the moves has all that the form requests.

        The form then only drains or removes hosts, and counts stored flavors.
        """
        kinds = {kind for change in self.changes for kind in change}
        counts_flavors = bool(self.flavors or self.all_flavors)
        is_plain = set(self.form_request.typed) <= {"flavor"} and self.per in {"", "zone"}
        return bool(kinds) and kinds <= set(_HOST_CHANGES) and counts_flavors and is_plain

    @property
    def is_filled(self) -> bool:
        """Return whether the form has anything to count."""
        return self._describes or self.all_flavors

    @property
    def body(self) -> Json:
        """Build the body of ``POST /capacity`` without the changes.

        Raises :class:`Invalid` for invalid fields.
        """
        body = self.form_request.build_body(**({"per": self.per} if self.per else {}))
        if self.all_flavors or len(self.flavors) > 1:
            spec = {key: part for key, part in body["request_spec"].items() if key != "flavor"}
            selection: Json = (
                {"all_flavors": True} if self.all_flavors else {"flavors": self.flavors}
            )
            body = {**body, "request_spec": spec, **selection}
        return body

    @property
    def _describes(self) -> bool:
        sizes = ("vcpus", "ram", "disk", "property")
        return bool(self.flavors) or any(self.values.get(name, "").strip() for name in sizes)


@dataclass(frozen=True, slots=True)
class CapacityChange:
    """A capacity before and after the changes of the form.

    ``after`` is None without changes. A capacity whose count was not finished is a lower bound, and
    its ``difference`` is unknown.
    """

    before: int
    after: int | None
    is_exact: bool

    @property
    def value(self) -> int:
        """Return the capacity after changes, or the only capacity."""
        return self.before if self.after is None else self.after

    @property
    def difference(self) -> int | None:
        """Return the change of the capacity, or None if it is unknown."""
        return None if self.after is None or not self.is_exact else self.after - self.before


@dataclass(frozen=True, slots=True)
class FlavorRow:
    """The capacity for a flavor, per zone of the table and per other part."""

    name: str
    total: CapacityChange
    zones: Sequence[CapacityChange | None]
    parts: Sequence[tuple[str, CapacityChange]]
    stops: Sequence[Json]
    stranded: Mapping[str, int]
    doubts: Sequence[str]
    rejection: str


def index() -> flask.Response:
    """Show the form and, if the address has a request, the capacity.

    A script loads several flavors, and the effects of changes, part by part. With the parameter
    ``complete`` the page contains all parts.
    """
    if redirect := redirect_without_empty_fields():
        return redirect
    query = CapacityForm(request.args)
    choices = _list_choices()
    values: dict[str, Any] = {
        "failover_fields": {},
        "keys": _list_failover_keys(),
        "capacity_form": query,
        "labels": LABELS,
        "empty_form_message": _EMPTY_FORM,
        "parts": _PARTS,
        "forms": FORMS,
        "query": request.query_string.decode("latin-1"),
        "rows": None,
        "plan": None,
        "plan_query": None,
        "zone_columns": [],
        "lazy": [],
        "request_rows": [],
        **choices,
    }

    def build_values() -> Mapping[str, Any]:
        if query.is_filled:
            return _build_result_values(query, [flavor["name"] for flavor in choices["flavors"]])
        if any(name in FIELDS for name in request.args):
            raise Invalid(_EMPTY_FORM)
        return {}

    return render_result_page("capacity.html", "Capacity", values, build_values)


def row() -> flask.Response:
    """Show the capacity rows of a flavor, which the page loads separately."""
    query = CapacityForm(request.args)
    return render_result_page(
        "capacity_row.html", "Capacity", {}, lambda: _count_flavors(get_api_client(), query)
    )


def plan() -> flask.Response:
    """Show the moves that the changes require, as a part of the page."""
    query = CapacityForm(request.args)
    return render_result_page(
        "capacity_plan.html",
        "Capacity",
        {"capacity_form": query},
        lambda: {"plan": _plan(get_api_client(), query)},
    )


def _build_result_values(query: CapacityForm, names: Sequence[str]) -> dict[str, Any]:
    """Build the template values of the result, or of parts that load later."""
    body, client = query.body, get_api_client()
    changes = expand_changes(client, query.changes)
    sent = body | ({"changes": changes} if changes else {})
    values = {
        "request_rows": list_request_parts(body["request_spec"]),
        "share": build_share(
            _CAPACITY,
            body=sent,
            command=query.build_command(changes),
            report=f"/capacity/report?{query.encode()}",
            csv=f"/capacity.csv?{query.encode()}",
        ),
        "zone_columns": _list_zone_columns(client, query),
    }
    if names and query.is_drain:
        plan_values = {"plan": _plan(client, query)} if request.args.get("complete") else {}
        return values | {
            "rows": [],
            "complete": query.encode(complete=["1"]),
            "plan_query": query.encode(),
            **plan_values,
        }
    flavors = (names if query.all_flavors else query.flavors) or [""]
    is_multiple = query.all_flavors or len(query.flavors) > 1
    if request.args.get("complete") or not (changes or is_multiple):
        values |= _count_flavors(client, query) if names or not query.all_flavors else {"rows": []}
        return values | {"plan": _plan(client, query) if changes else None}
    if is_multiple:
        queries = [query.encode(all=[], flavor=[name]) for name in flavors if name]
    else:
        queries = [query.encode()]
    return values | {
        "rows": [],
        "lazy": list(zip(flavors, queries, strict=False)),
        "complete": query.encode(complete=["1"]),
        "plan_query": query.encode() if changes else None,
    }


def _plan(client: ApiClient, query: CapacityForm) -> Json:
    """Get the plan for the changes of the form.

    The result also has the number of affected instances, the two most frequent reasons of stuck
    instances (``reasons``), the capacity of each flavor (``counted``), a sentence about other
    consumers (``others``), and sentences on ``unknown_facts``.
    """
    changes = expand_changes(client, query.changes)
    flavors = None if query.all_flavors else query.flavors
    document = client.post(_PLAN, {"changes": changes, "flavors": flavors})
    document = with_names(document, client.map_aggregate_names())
    if any("drain" in change for change in changes):
        for entry in document["stuck"]:
            if constraints := entry.get("constraints"):
                entry["reason"] = describe_hosts_without(entry["hosts"], constraints, _DRAINED)
    reasons = Counter(map(shorten_reason, document["stuck"]))
    affected = len(document["stuck"]) + len(document["moves"])
    counted = [
        (row["flavor"], CapacityChange(row["before"], row["after"], row.get("exact", True)))
        for row in document["capacity"]
    ]
    return {
        **document,
        "affected": affected,
        "reasons": reasons.most_common(2),
        "counted": counted,
        "others": describe_other_consumers(document["other_consumers"]),
        "unknown_facts": describe_unknown_facts(document.get("unknown", {})),
    }


def shorten_reason(stuck: Json) -> str:
    """Return an operator's words for the reason of a stuck instance."""
    obstacles = stuck.get("constraints") or [stuck]
    subjects = [select_subject(each) for each in obstacles if each.get("kind") != "disabled"]
    if not subjects:
        return _DRAINED
    words = list(filter(None, map(describe_stage, subjects)))
    return join_words(words) if words else str(stuck["reason"])


def expand_changes(client: ApiClient, changes: Sequence[Json]) -> list[Json]:
    """Replace conditions such as ``zone:az1`` in changes by matching hosts.

    Raises :class:`Invalid` if no host matches.
    """
    expanded: list[Json] = []
    for change in changes:
        kind = next((name for name in _HOST_CHANGES if name in change), None)
        if kind is not None and isinstance(change[kind], list):
            hosts = [host for text in change[kind] for host in _expand(client, text)]
            expanded.append({**change, kind: list(dict.fromkeys(hosts))})
        elif isinstance(added := change.get("add"), dict) and "like" in added:
            like = _expand(client, added["like"])
            expanded += [{"add": {**added, "like": host}} for host in like]
        else:
            expanded.append(change)
    return expanded


def _expand(client: ApiClient, text: Any) -> list[Any]:
    if not isinstance(text, str) or not _CONDITIONS.fullmatch(text):
        return [text]
    pairs = [part.partition(":")[::2] for part in text.split("&")]
    query: dict[str, list[str]] = {}
    for name, value in pairs:
        query.setdefault(name, []).append(unquote(value))
    hosts = [host["host"] for host in client.get("/scheduler/v1/hosts", query)["hosts"]]
    if not hosts:
        raise Invalid(f"{LABELS['changes']} {text}: no host matches")
    return list(dict.fromkeys(hosts))


def _list_zone_columns(client: ApiClient, query: CapacityForm) -> list[str]:
    """List the zones that get a column.

    The list is empty if the capacity is not counted per zone, or if there are too many zones.
    """
    if query.per != "zone":
        return []
    names = sorted(client.list_zone_names())
    return names if len(names) <= _MAX_ZONES else []


def _count_flavors(client: ApiClient, query: CapacityForm) -> dict[str, Any]:
    """Count the instances of each flavor, before and after any changes."""
    changes, body = expand_changes(client, query.changes), query.body
    names = client.map_aggregate_names()
    results = [client.post(_CAPACITY, body)]
    if changes:
        results.append(client.post(_CAPACITY, body | {"changes": changes}))
    zones = _list_zone_columns(client, query)
    sides = [
        {flavor.get("flavor", ""): flavor for flavor in result.get("flavors", [result])}
        for result in with_names(results, names)
    ]
    rows = [_build_row(name, [side[name] for side in sides], zones) for name in sides[0]]
    single = query.flavors[0] if len(query.flavors) == 1 and not query.all_flavors else ""
    return {
        "rows": [replace(each, name=each.name or single or "This request") for each in rows],
        "zone_columns": zones,
    }


def _build_row(name: str, sides: Sequence[Json], zones: Sequence[str]) -> FlavorRow:
    """Build a flavor's row from its capacity before and after the changes."""
    exact = all(side.get("exact", True) for side in sides)
    parts = [{part["name"]: part["capacity"] for part in side.get("per", ())} for side in sides]
    counts = {
        part: CapacityChange(*_build_pair([capacities.get(part, 0) for capacities in parts]), exact)
        for part in dict.fromkeys(part for capacities in parts for part in capacities)
    }
    last = sides[-1]
    return FlavorRow(
        name=name,
        total=CapacityChange(*_build_pair([side["capacity"] for side in sides]), exact),
        zones=[counts.get(zone) for zone in zones],
        parts=[] if zones else [(part or "-", count) for part, count in counts.items()],
        stops=last["limited_by"],
        stranded=last["stranded"],
        doubts=[doubt for side in sides for doubt in side.get("inexact_because", ())],
        rejection=last.get("rejection", ""),
    )


def _build_pair(capacities: Sequence[int]) -> tuple[int, int | None]:
    return capacities[0], capacities[1] if len(capacities) > 1 else None


def report() -> flask.Response:
    """Send a file with the capacity before and after changes, and moves."""
    query, client = CapacityForm(request.args), get_api_client()
    changes = expand_changes(client, query.changes)
    body = query.body | ({"changes": changes} if changes else {})
    heading = build_heading("Capacity", *[("change", line) for line in query.changes_typed])
    result, names = client.post(_CAPACITY, body), client.map_aggregate_names()
    if not changes:
        return download("capacity.html", render_capacity_report(result, body, heading, names))
    values = build_capacity_values(result, body, heading, names)
    values |= {"rows": []} if query.is_drain else _count_flavors(client, query)
    values |= {"plan": _plan(client, query), "capacity_title": "Capacity after the changes"}
    return download("capacity.html", render_template("capacity_changes_report.html", values))


def table() -> flask.Response:
    """Send the capacity of each flavor as CSV."""
    query, client = CapacityForm(request.args), get_api_client()
    counted = _count_flavors(client, query)
    zones = counted["zone_columns"]
    titles = ["flavor", "part", "before", "after", "exact"]
    rows = []
    for each in counted["rows"]:
        parts = [*zip(zones, each.zones, strict=True), *each.parts]
        for part, count in [("", each.total), *parts]:
            if count is not None:
                rows.append([each.name, part, count.before, count.after, count.is_exact])
    return send_csv("capacity.csv", titles, rows)


def show_remaining_capacity() -> flask.Response:
    """Show the flavors with the least capacity, as a part of the overview."""
    return render_result_page("fits.html", "Remaining capacity", {"flavors": []}, _count_fits)


def _count_fits() -> Mapping[str, Any]:
    body = {"request_spec": {}, "all_flavors": True, "per": "zone"}
    flavors = sorted(
        get_api_client().post(_CAPACITY, body)["flavors"],
        key=lambda row: (row["capacity"], row["flavor"]),
    )
    return {"flavors": [_build_fit_row(row) for row in flavors[:_MAX_FLAVORS]]}


def _build_fit_row(row: Json) -> Json:
    """Build the row of a flavor, with the zones of least capacity first."""
    zones = sorted(row.get("per", ()), key=lambda part: (part["capacity"], str(part["name"])))
    stops = row["limited_by"]
    # Show a reason with a detail, such as a trait that no host has, rather than a full resource.
    details = (stop for stop in stops if not row["capacity"] and stop.get("detail"))
    stop = next(details, next(iter(stops), None))
    return {
        "name": row["flavor"],
        "capacity": row["capacity"],
        "exact": row.get("exact", True),
        "rejection": row.get("rejection", ""),
        "zones": [(part["name"] or "-", part["capacity"]) for part in zones],
        "stop": stop,
    }


def moves() -> flask.Response:
    """Show advice on moves towards a goal."""
    args = request.args
    values = {"fields": args, "goals": _GOALS, "advice": None, **_list_choices()}

    def build_values() -> Mapping[str, Any]:
        if not (goal := args.get("goal", "")):
            return {}
        body: Json = {"goal": goal, "moves": _parse_integer(args.get("moves") or "5", "Moves")}
        if flavor := args.get("flavor", "").strip():
            zone = args.get("zone", "").strip()
            spec = {"flavor": flavor, "availability_zone": zone}
            body["request_spec"] = {key: text for key, text in spec.items() if text}
        return {"advice": get_api_client().post(_REBALANCE, body)}

    return render_result_page("moves.html", "Advice on moves", values, build_values)


def failover() -> flask.Response:
    """Show whether the instances of failed hosts find places on other hosts."""
    if redirect := redirect_without_empty_fields():
        return redirect
    args, client = request.args, get_api_client()

    def build_values() -> Mapping[str, Any]:
        if not args.keys() & {"host_failures", "within"}:
            return {}
        number = _parse_integer(args.get("host_failures", "1"), "Failures")
        body = {"host_failures": number, "within": args.get("within")}
        command = ["capacity", f"--host-failures={number}"]
        command += [f"--within={args['within']}"] if body["within"] else []
        result = with_names(client.post(_FAILOVER, body), client.map_aggregate_names())
        result["unknown_facts"] = describe_unknown_facts(result.get("unknown", {}))
        return {"result": result, "share": build_share(_FAILOVER, body=body, command=command)}

    values = {"fields": args, "result": None, "keys": _list_failover_keys()}
    return render_result_page("failover.html", "If hosts fail", values, build_values)


def _list_failover_keys() -> list[str]:
    """List the kinds of failure domains: zone, aggregate and metadata keys."""
    aggregates = get_api_client().list_visible("/compute/v2.1/os-aggregates", "aggregates")
    keys = {key for aggregate in aggregates for key in aggregate["metadata"]}
    return ["zone", "aggregate", *sorted(keys - {"availability_zone"})]


def _list_choices() -> dict[str, Sequence[Any]]:
    """List the values to choose from, as far as the caller may list them."""
    client = get_api_client()
    flavors = client.list_visible("/compute/v2.1/flavors/detail", "flavors")
    policies = client.list_visible("/scheduler/v1/policies", "policies")
    return {
        "flavors": sorted(flavors, key=lambda flavor: str(flavor["name"])),
        "images": client.list_visible("/image/v2/images", "images"),
        "zones": client.list_zone_names(),
        "policies": [policy["name"] for policy in policies],
    }


def _parse_integer(text: str, label: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{label}: {text!r} is not an integer") from None


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/capacity": index,
    "/capacity.csv": table,
    "/capacity/failover": failover,
    "/capacity/plan": plan,
    "/capacity/report": report,
    "/capacity/row": row,
    "/capacity/moves": moves,
    "/overview/fits": show_remaining_capacity,
    "/plan_runs": list_runs,
    "/plan_runs/<uuid>": show_run,
}
