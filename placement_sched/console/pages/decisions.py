# SPDX-License-Identifier: Apache-2.0
"""Decisions page: recorded decisions, and a decision compared with its replay."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import flask
from flask import request

from placement_sched.console.client import ApiRefused, join_path
from placement_sched.console.forms import form_query
from placement_sched.console.page import api_client, download, form_error, heading, page
from placement_sched.console.reports import (
    as_explanation,
    decision_report,
    explanation_view,
    request_parts,
)
from placement_sched.errors import Invalid
from placement_sched.model import decision as model
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names

_DECISIONS = "/scheduler/v1/decisions"
#: Decisions per page.
_PAGE_SIZE = 50
#: Filters of the form, which are parameters of the API.
_FILTERS = (
    "outcome",
    "kind",
    "since",
    "until",
    "policy",
    "flavor",
    "project_id",
    "host",
    "refused",
    "instance",
    "request_id",
    "global_request_id",
)
_TIMES = ("since", "until")
#: Texts of the kinds of decisions.
KINDS = {
    model.SELECT: "selection",
    model.NO_CLAIM: "selection without a claim",
    model.EXPLAIN: "explanation",
    model.SHADOW: "shadow evaluation of a request of nova",
}
_SETTINGS = {"now": "the current settings", "then": "the settings of the decision"}


def index() -> flask.Response:
    """List decisions, newest first, that match the filters of the address."""
    filters = {name: text for name in _FILTERS if (text := request.args.get(name, "").strip())}
    marker = request.args.get("marker")
    document: Json = {"decisions": [], "links": []}
    error = None
    try:
        now = utcnow()
        times = {
            name: parse_time(filters[name], now, name.capitalize())
            for name in _TIMES
            if name in filters
        }
        query = {**filters, **times, "limit": _PAGE_SIZE, "marker": marker}
        document = api_client().get(_DECISIONS, query)
    except (ApiRefused, Invalid) as failure:
        error = form_error(failure)
    values = {
        "given": filters,
        "refusal": error,
        "kinds": KINDS,
        "decisions": document["decisions"],
        "examined": document.get("refused"),
        "warnings": document.get("warnings", ()),
        "older": _next_page_query(document["links"]),
        "is_newest": not marker and "until" not in filters and "refused" not in filters,
        "first": urlencode(filters),
        "origin": request.host_url.rstrip("/"),
    }
    status = error.status if error else 200
    return page("decisions.html", "Decisions", values, status=status)


def show(uuid: str) -> flask.Response:
    """Show a recorded decision."""
    decision = api_client().get(_api_path(uuid))
    candidates = (decision["funnel"] or {}).get("allocation_candidates", {})
    values = {
        **_decision_values(decision),
        "one": explanation_view(as_explanation(decision), api_client().aggregate_names()),
        "uncounted": 0 if candidates.get("steps") else candidates.get("hosts", 0),
    }
    return page("decision.html", "Decision", values)


def report(uuid: str) -> flask.Response:
    """Send a decision as a file."""
    decision = api_client().get(_api_path(uuid))
    headed = heading(f"Decision {decision['uuid']}")
    html = decision_report(decision, headed, api_client().aggregate_names())
    return download(f"decision-{decision['uuid']}.html", html)


def replay(uuid: str) -> flask.Response:
    """Show a decision, its replay today and the differences."""
    path = _api_path(uuid)
    decision = api_client().get(path)
    settings = request.args.get("settings") or "now"
    values = {
        **_decision_values(decision),
        "settings": settings,
        "choices": _SETTINGS,
        "refusal": None,
    }
    try:
        answer = api_client().ask(f"{path}/replay", {"settings": settings})
    except ApiRefused as failure:
        values["refusal"] = error = form_error(failure)
        return page("replay.html", "Ask again", values, status=error.status)
    names = api_client().aggregate_names()
    values |= {
        "differences": _build_rows(with_names(answer["differences"], names)),
        "then": explanation_view(as_explanation(answer["then"]), names),
        "now": explanation_view(answer["now"], names),
    }
    return page("replay.html", "Ask again", values)


def _api_path(uuid: str) -> str:
    return join_path("scheduler", "v1", "decisions", uuid)


def _decision_values(decision: Json) -> dict[str, Any]:
    """Return the template values that the pages of a decision share."""
    conditions = decision["conditions"] or {}
    overridden = conditions.get("overrides", {})
    return {
        "decision": decision,
        "kind": KINDS.get(decision["kind"], decision["kind"]),
        "asked": request_parts(decision["request"]),
        "overrides": overridden,
        "question": form_query(decision["request"], overridden),
    }


def _build_rows(differences: Sequence[Json]) -> list[tuple[str, Any, Any]]:
    return [(row["what"], row["then"], row["now"]) for row in differences]


def _next_page_query(links: Sequence[Mapping[str, str]]) -> str | None:
    """Return the query string of the next page, taken from the link of the API."""
    queries = [urlsplit(link["href"]).query for link in links if link["rel"] == "next"]
    return queries[0] if queries else None


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/decisions": index,
    "/decisions/<uuid>": show,
    "/decisions/<uuid>/report": report,
    "/decisions/<uuid>/replay": replay,
}
