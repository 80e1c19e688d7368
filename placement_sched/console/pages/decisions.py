"""The page Decisions: what was decided, one of them as it was, and the same request today."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import flask
from flask import request

from placement_sched.console.client import ApiRefused, path_of
from placement_sched.console.forms import asked_again
from placement_sched.console.page import caller, download, form_error, heading, page
from placement_sched.console.reports import (
    as_explanation,
    asked,
    decision_report,
    explanation_shown,
)
from placement_sched.errors import Invalid
from placement_sched.model import decision as model
from placement_sched.model.clock import moment_of, utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names

_DECISIONS = "/scheduler/v1/decisions"
#: How many decisions a page shows.
_MANY = 50
#: What the form and the address may ask for; each is a parameter of the API of the same name.
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
#: What was requested, in words.
KINDS = {
    model.SELECT: "selection",
    model.NO_CLAIM: "selection without a claim",
    model.EXPLAIN: "explanation",
    model.SHADOW: "request of nova's, evaluated beside it",
}
_SETTINGS = {"now": "the settings of today", "then": "the settings of then"}


def index() -> flask.Response:
    """List decisions, the newest first, as the filters in the address say."""
    given = {name: text for name in _FILTERS if (text := request.args.get(name, "").strip())}
    marker = request.args.get("marker")
    found: Json = {"decisions": [], "links": []}
    refusal = None
    try:
        now = utcnow()
        times = {
            name: moment_of(given[name], now, name.capitalize()) for name in _TIMES if name in given
        }
        query = {**given, **times, "limit": _MANY, "marker": marker}
        found = caller().get(_DECISIONS, query)
    except (ApiRefused, Invalid) as failure:
        refusal = form_error(failure)
    values = {
        "given": given,
        "refusal": refusal,
        "kinds": KINDS,
        "decisions": found["decisions"],
        "examined": found.get("refused"),
        "warnings": found.get("warnings", ()),
        "older": _older(found["links"]),
        "is_newest": not marker and "until" not in given and "refused" not in given,
        "first": urlencode(given),
        "origin": request.host_url.rstrip("/"),
    }
    status = refusal.status if refusal else 200
    return page("decisions.html", "Decisions", values, status=status)


def show(uuid: str) -> flask.Response:
    """Show one decision as it was."""
    decision = caller().get(_path(uuid))
    candidates = (decision["funnel"] or {}).get("allocation_candidates", {})
    values = {
        **_of_one(decision),
        "one": explanation_shown(as_explanation(decision), caller().aggregate_names()),
        "uncounted": 0 if candidates.get("steps") else candidates.get("hosts", 0),
    }
    return page("decision.html", "Decision", values)


def report(uuid: str) -> flask.Response:
    """Send the decision as a file that needs nothing else."""
    decision = caller().get(_path(uuid))
    headed = heading(f"Decision {decision['uuid']}")
    html = decision_report(decision, headed, caller().aggregate_names())
    return download(f"decision-{decision['uuid']}.html", html)


def replay(uuid: str) -> flask.Response:
    """Show the request of a decision then and today, and what differs."""
    path = _path(uuid)
    decision = caller().get(path)
    settings = request.args.get("settings") or "now"
    values = {**_of_one(decision), "settings": settings, "choices": _SETTINGS, "refusal": None}
    try:
        answer = caller().ask(f"{path}/replay", {"settings": settings})
    except ApiRefused as failure:
        values["refusal"] = refusal = form_error(failure)
        return page("replay.html", "Ask again", values, status=refusal.status)
    names = caller().aggregate_names()
    values |= {
        "differences": _rows(with_names(answer["differences"], names)),
        "then": explanation_shown(as_explanation(answer["then"]), names),
        "now": explanation_shown(answer["now"], names),
    }
    return page("replay.html", "Ask again", values)


def _path(uuid: str) -> str:
    return path_of("scheduler", "v1", "decisions", uuid)


def _of_one(decision: Json) -> dict[str, Any]:
    """Return what pages about one decision show of it."""
    conditions = decision["conditions"] or {}
    overridden = conditions.get("overrides", {})
    return {
        "decision": decision,
        "kind": KINDS.get(decision["kind"], decision["kind"]),
        "asked": asked(decision["request"]),
        "overrides": overridden,
        "question": asked_again(decision["request"], overridden),
    }


def _rows(differences: Sequence[Json]) -> list[tuple[str, Any, Any]]:
    return [(one["what"], one["then"], one["now"]) for one in differences]


def _older(links: Sequence[Mapping[str, str]]) -> str | None:
    """Return the query string of the page after this one, which the API's own link has."""
    following = [urlsplit(link["href"]).query for link in links if link["rel"] == "next"]
    return following[0] if following else None


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/decisions": index,
    "/decisions/<uuid>": show,
    "/decisions/<uuid>/report": report,
    "/decisions/<uuid>/replay": replay,
}
