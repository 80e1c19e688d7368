# SPDX-License-Identifier: Apache-2.0
"""Decisions page: recorded decisions, and comparisons with replays."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import flask
from flask import request

from placement_sched.cli.report.html import (
    as_explanation,
    build_explanation_view,
    list_request_parts,
    render_decision_report,
)
from placement_sched.errors import Invalid
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import describe_code
from placement_sched.extensions.console.client import ApiClient, ApiError, join_path
from placement_sched.extensions.console.forms import build_form_query
from placement_sched.extensions.console.page import (
    Share,
    build_form_error,
    build_heading,
    build_share,
    download,
    find_next_page_query,
    get_api_client,
    render_page,
    render_result_page,
    send_csv,
)
from placement_sched.extensions.console.timeline import build_timeline_picture
from placement_sched.model import decision as model
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import read_uuid

_DECISIONS, _COUNTS = "/scheduler/v1/decisions", "/scheduler/v1/decision_counts"
#: Decisions per page.
_PAGE_SIZE = 50
#: Seconds after which the newest decisions are read again.
_REFRESH = 3
#: Filters of the form, which are parameters of the API.
_FILTERS = (
    "outcome",
    "kind",
    "since",
    "until",
    "policy",
    "flavor",
    "stage",
    "reason",
    "project_id",
    "host",
    "rejected",
    "instance",
    "request_id",
    "global_request_id",
)
_TIMES = ("since", "until")
#: Time ranges to choose from, as values of ``since``.
_RANGES = {"1h": "last hour", "24h": "24 hours", "7d": "7 days"}
#: A time of today or yesterday: ``14:00``, ``yesterday``, ``yesterday 14:00``.
_WHEN = re.compile(r"(?P<day>today|yesterday)?\s*(?:(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d))?")
#: Filters whose values are shown with counts: title, filter, and key of the counts.
_FACETS = (
    ("Reason", "reason", "reasons"),
    ("Flavor", "flavor", "flavors"),
    ("Policy", "policy", "policies"),
    ("Project", "project_id", "projects"),
)
#: Options of ``placement-sched decision list`` with other names than the filters.
_OPTIONS = {"project_id": "project", "request_id": "request-id"}
_CSV_COLUMNS = (
    *("created_at", "uuid", "outcome", "kind", "stage", "reason", "reason_kind", "reason_subject"),
    *("flavor", "policy", "project_id", "request_id"),
)
#: Texts of the kinds of decisions.
KINDS = {
    model.SELECT: "selection",
    model.NO_CLAIM: "selection without a claim",
    model.EXPLAIN: "explanation",
    model.SHADOW: "shadow evaluation of a request of nova",
    model.MOVE: "check of a move before its start",
}
#: Sizes of a flavor of the compute API, and their names in a request.
_FLAVOR_SIZES = {
    "vcpus": "vcpus",
    "ram": "memory_mb",
    "disk": "root_gb",
    "OS-FLV-EXT-DATA:ephemeral": "ephemeral_gb",
    "swap": "swap",
}
#: Maximum number of instances of a decision that are listed.
_MAX_NAMES = 10
_SETTINGS = {"now": "the current settings", "then": "the settings of the decision"}


def index() -> flask.Response:
    """List decisions, newest first, that match the filters of the address."""
    filters = _read_filters()
    marker = request.args.get("marker")
    client = get_api_client()
    document: Json = {"decisions": [], "links": []}
    error, counts, query = None, None, dict(filters)
    try:
        query = _build_query(client, filters)
        document = client.get(_DECISIONS, {**query, "limit": _PAGE_SIZE, "marker": marker})
        if "rejected" not in filters:
            counts = client.get(_COUNTS, query)
    except (ApiError, Invalid) as failure:
        error = build_form_error(failure)
    reasons = counts["reasons"] if counts else ()
    names = client.map_names(*document["decisions"], *reasons) if document["decisions"] else {}
    is_newest = not marker and "until" not in filters and "rejected" not in filters
    values = {
        "server": None if error else _find_server(client, query),
        "filters": filters,
        "error": error,
        "kinds": KINDS,
        "ranges": _RANGES,
        "decisions": [
            {**row, "words": _describe_stage(row, names)}
            for row in with_names(document["decisions"], names)
        ],
        "examined": document.get("rejected"),
        "warnings": document.get("warnings", ()),
        "counts": counts,
        "facets": [] if counts is None else _build_facets(filters, counts, names),
        "timeline": counts and build_timeline_picture(counts, is_whole="since" not in filters),
        "without_times": urlencode({k: v for k, v in filters.items() if k not in _TIMES}),
        "older": find_next_page_query(document["links"]),
        "is_newest": is_newest,
        "refresh": _REFRESH if is_newest and not error else None,
        "first": urlencode(filters),
        "origin": request.host_url.rstrip("/"),
        "share": _build_share(filters, query),
    }
    status = error.status if error else 200
    return render_page("decisions.html", "Decisions", values, status=status)


def table() -> flask.Response:
    """Send the matching decisions as a CSV file."""
    client = get_api_client()
    query = _build_query(client, _read_filters())
    decisions = client.get(_DECISIONS, query)["decisions"]
    rows = [
        [
            *(decision[name] for name in _CSV_COLUMNS),
            " ".join(place["uuid"] for place in decision["instances"]),
            " ".join(place["host"] or "" for place in decision["instances"]),
        ]
        for decision in decisions
    ]
    return send_csv("decisions.csv", [*_CSV_COLUMNS, "instances", "hosts"], rows)


def _read_filters() -> dict[str, str]:
    return {name: text for name in _FILTERS if (text := request.args.get(name, "").strip())}


def _build_query(client: ApiClient, filters: Mapping[str, str]) -> dict[str, str]:
    """Build the API's query, with ages as times and an instance name as uuid."""
    now = flask.g.shown_at or utcnow()
    query = dict(filters)
    for name in _TIMES:
        if name in filters:
            query[name] = _parse_when(filters[name], now, name.capitalize())
    if "since" in query and "until" in query:
        since, until = (_read_time(query[name]) for name in _TIMES)
        if until < since:
            raise Invalid(f"Until {filters['until']} is before Since {filters['since']}")
    if (text := filters.get("instance")) and read_uuid(text) is None:
        servers = client.get("/compute/v2.1/servers", {"all_tenants": "1", "name": text})["servers"]
        uuids = [server["id"] for server in servers if server["name"] == text] or [
            server["id"] for server in servers
        ]
        if len(uuids) > 1:
            raise Invalid(f"Instance {text}: {len(uuids)} servers have this name: enter a uuid")
        query["instance"] = uuids[0] if uuids else text
    return query


def _find_server(client: ApiClient, query: Mapping[str, str]) -> Json | None:
    """Return the server that the page filters by."""
    uuid = read_uuid(query.get("instance", ""))
    if uuid is None:
        return None
    named = {"all_tenants": "1", "uuid": uuid}
    servers = client.list_visible("/compute/v2.1/servers/detail", "servers", named)
    return next(iter(servers), None)


def _parse_when(text: str, now: datetime, label: str) -> str:
    """Convert an age, ``14:00`` or ``yesterday 14:00`` to an ISO 8601 time."""
    match = _WHEN.fullmatch(text.lower())
    if match is None or not text:
        return parse_time(text, now, label)
    day = now - timedelta(days=match["day"] == "yesterday")
    clock = day.replace(hour=int(match["hour"] or 0), minute=int(match["minute"] or 0), second=0)
    return clock.isoformat()


def _read_time(text: str) -> datetime:
    """Read an ISO 8601 time, which is in UTC if it has no offset."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _build_facets(
    filters: Mapping[str, str], counts: Json, names: Mapping[str, str]
) -> list[tuple[str, list[Json]]]:
    outcomes = [
        {"name": name, "count": count, "failed": count if name == model.NO_VALID_HOST else 0}
        for name, count in counts["outcomes"].items()
        if count
    ]
    groups = [("Outcome", "outcome", outcomes)]
    groups += [(title, name, counts[key]) for title, name, key in _FACETS]
    return [
        (title, [_build_facet(filters, name, value, names) for value in values])
        for title, name, values in groups
        if values
    ]


def _build_facet(
    filters: Mapping[str, str], name: str, value: Json, names: Mapping[str, str]
) -> Json:
    """Return a value of a filter with its words and query string."""
    text: str = value["name"]
    is_chosen = filters.get(name) == text
    others = {key: value for key, value in filters.items() if key != name}
    words = text.replace("_", " ") if name == "outcome" else text
    if name == "reason":
        words = describe_code(value["kind"], value["subject"], names) or with_names(text, names)
    query = urlencode(others if is_chosen else {**others, name: text})
    return {**value, "words": words, "query": query, "is_chosen": is_chosen}


def _describe_stage(decision: Json, names: Mapping[str, str]) -> str | None:
    """Return words for the stage that left no host.

    A kind without words, and a record of an earlier release, have the name of the stage.
    """
    kind = decision["reason_kind"]
    return (kind and describe_code(kind, decision["reason_subject"], names)) or decision["stage"]


def _build_share(filters: Mapping[str, str], query: Mapping[str, str]) -> Share:
    options = [f"--{_OPTIONS.get(name, name)}={text}" for name, text in query.items()]
    return build_share(
        _DECISIONS,
        urlencode(query),
        # The command has no option for the global request id.
        command=() if "global_request_id" in filters else ["decision", "list", *options],
        csv=f"/decisions.csv?{urlencode(filters)}",
    )


def show(uuid: str) -> flask.Response:
    """Show a recorded decision."""
    decision = get_api_client().get(_build_api_path(uuid))
    candidates = (decision["funnel"] or {}).get("allocation_candidates", {})
    names = get_api_client().map_names(decision)
    values = {
        **_build_decision_values(decision),
        "explanation": build_explanation_view(as_explanation(decision), names),
        "fit": with_names(_find_fit(decision), names),
        "uncounted": 0 if candidates.get("steps") else candidates.get("hosts", 0),
        "share": build_share(
            _build_api_path(uuid),
            command=["decision", "show", uuid],
            report=f"/decisions/{uuid}/report",
        ),
    }
    return render_page("decision.html", "Decision", values)


def _find_fit(decision: Json) -> Json | None:
    """Evaluate a decision's request again, if it found no host.

    Returns the hosts that it would get, or the reason if there are none, and the smallest changes
    after which a host fits (``would_fit``). Returns None if the decision selected a host, or if the
    request cannot be evaluated.
    """
    if decision["outcome"] == model.SELECTED:
        return None
    try:
        result = get_api_client().post(
            f"{_build_api_path(decision['uuid'])}/replay", {"max_rejected": 0}
        )
    except ApiError:
        return None
    obstacle = result["now"]["funnel"].get("obstacle") or {}
    hosts = [best["service_host"] for best, *_ in result["now"]["selections"]]
    return {
        "hosts": list(dict.fromkeys(hosts)),
        "reason": obstacle.get("reason"),
        "would_fit": [miss["words"] for miss in result["now"]["funnel"].get("would_fit", ())],
    }


def report(uuid: str) -> flask.Response:
    """Send a decision as a file."""
    decision = get_api_client().get(_build_api_path(uuid))
    headed = build_heading(f"Decision {decision['uuid']}")
    html = render_decision_report(decision, headed, get_api_client().map_names(decision))
    return download(f"decision-{decision['uuid']}.html", html)


def replay(uuid: str) -> flask.Response:
    """Show a decision, its replay today and the differences."""
    path = _build_api_path(uuid)
    decision = get_api_client().get(path)
    settings = request.args.get("settings") or "now"
    values = {**_build_decision_values(decision), "settings": settings, "choices": _SETTINGS}

    def build_values() -> Mapping[str, Any]:
        runs = get_api_client().post(f"{path}/replay", {"settings": settings})
        names = get_api_client().map_names(runs["then"], runs["now"])
        return {
            "differences": [
                (row["what"], row["then"], row["now"])
                for row in with_names(runs["differences"], names)
            ],
            "then": build_explanation_view(as_explanation(runs["then"]), names),
            "now": build_explanation_view(runs["now"], names),
        }

    return render_result_page("replay.html", "Evaluate again", values, build_values)


def _build_api_path(uuid: str) -> str:
    return join_path("scheduler", "v1", "decisions", uuid)


def _build_decision_values(decision: Json) -> dict[str, Any]:
    """Build the template values that all pages of a decision share."""
    conditions = decision["conditions"] or {}
    overridden = conditions.get("overrides", {})
    return {
        "decision": decision,
        "kind": KINDS.get(decision["kind"], decision["kind"]),
        "request_rows": list_request_parts(decision["request"]),
        "overrides": overridden,
        "form_query": build_form_query(_with_stored_flavor(decision["request"]), overridden),
        "server_names": _map_server_names(decision),
    }


def _with_stored_flavor(spec: Json) -> Json:
    """Replace a request's flavor object by the name of an equal flavor."""
    flavor = spec.get("flavor")
    if not isinstance(flavor, dict) or not flavor.get("name"):
        return spec
    for stored in get_api_client().list_visible("/compute/v2.1/flavors/detail", "flavors"):
        if stored["name"] == flavor["name"]:
            contents = {key: flavor.get(name) or 0 for key, name in _FLAVOR_SIZES.items()}
            sizes = {key: stored.get(key) or 0 for key in contents}
            if sizes == contents and stored["extra_specs"] == (flavor.get("extra_specs") or {}):
                return {**spec, "flavor": flavor["name"]}
    return spec


def _map_server_names(decision: Json) -> dict[str, str]:
    """Map the uuids of a decision's recorded instances to their names."""
    names = {}
    for place in decision["instances"][:_MAX_NAMES]:
        try:
            instance = get_api_client().get(
                join_path("scheduler", "v1", "instances", place["uuid"])
            )
        except ApiError:
            continue
        names[place["uuid"]] = instance["display_name"]
    return names


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/decisions": index,
    "/decisions.csv": table,
    "/decisions/<uuid>": show,
    "/decisions/<uuid>/report": report,
    "/decisions/<uuid>/replay": replay,
}
