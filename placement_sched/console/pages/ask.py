"""The page Ask: where a request would go, and why not elsewhere."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import flask

from placement_sched.api.response import status_of
from placement_sched.console.charts import BEST, StagePicture
from placement_sched.console.client import ApiRefused, Caller
from placement_sched.console.forms import FIELDS, LABELS, FormQuestion, curl
from placement_sched.console.page import caller, guarded, page, without_empty_fields
from placement_sched.console.reports import (
    Heading,
    asked,
    explanation_report,
    explanation_shown,
    facts_of,
)
from placement_sched.errors import Error, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import utcnow
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import (
    compared_stages,
    named,
    obstacle,
    passed,
    path_of,
    with_names,
)
from placement_sched.model.flat_request import FORMS

_NONE = "-"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A stage or a place: what stands for it under each policy, and how the second differs."""

    name: str
    cells: tuple[str, str]
    difference: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Two answers to one request: what each is called, conclusions, stages and best hosts."""

    names: tuple[str, str]
    conclusions: tuple[tuple[bool, str], tuple[bool, str]]
    stages: tuple[ComparedRow, ...]
    hosts: tuple[ComparedRow, ...]

    @property
    def differs(self) -> bool:
        """Return whether anything is different."""
        rows = [*self.stages, *self.hosts]
        first, second = self.conclusions
        return first != second or any(row.difference for row in rows)


def compared(answers: Sequence[Json], names: tuple[str, str]) -> Compared:
    """Return two explanations side by side, called by these names."""
    first, second = answers
    return Compared(
        names=names,
        conclusions=(_conclusion(first), _conclusion(second)),
        stages=tuple(_stage(name, *reports) for name, reports in compared_stages(answers)),
        hosts=tuple(_places(first["hosts"], second["hosts"])),
    )


def _conclusion(answer: Json) -> tuple[bool, str]:
    if answer["outcome"] != SELECTED:
        return False, obstacle(answer)
    best = answer["hosts"][0]
    words = f"{passed(answer):,} passed, the best is {named(best['host'], best['node'])}"
    return True, words


def _stage(name: str, first: Json | None, second: Json | None) -> ComparedRow:
    if first is None or second is None:
        difference = "only here" if first is None else "not here"
    else:
        difference = _more(second["after"] - first["after"])
    return ComparedRow(name, (_count(first), _count(second)), difference)


def _count(report: Json | None) -> str:
    """Return how many hosts a stage left, and of how many where it refused some."""
    if report is None:
        return _NONE
    before, after = report["before"], report["after"]
    refused = "" if before == after else f" of {before:,}"
    return f"{after:,}{refused}" if before else "not reached"


def _more(by: int) -> str:
    if not by:
        return ""
    return f"{by:,} more left" if by > 0 else f"{-by:,} fewer left"


def _places(first: Sequence[Json], second: Sequence[Json]) -> Iterator[ComparedRow]:
    """Yield the best hosts of both, place by place, and what became of the first policy's."""
    ranks = {_name(host): rank for rank, host in enumerate(second, 1)}
    for place in range(min(BEST, max(len(first), len(second)))):
        cells = (_host(first, place), _host(second, place))
        difference = ""
        if place < len(first):
            difference = _moved(_name(first[place]), place + 1, ranks)
        elif place < len(second):
            difference = f"{_name(second[place])} passes only here"
        yield ComparedRow(str(place + 1), cells, difference)


def _moved(name: str, rank: int, ranks: Mapping[str, int]) -> str:
    then = ranks.get(name)
    if then is None:
        return f"{name} does not pass"
    return "" if then == rank else f"{name} is at place {then}"


def _host(hosts: Sequence[Json], place: int) -> str:
    if place >= len(hosts):
        return _NONE
    return f"{_name(hosts[place])}, {hosts[place]['weight']:.3f}"


def _name(host: Json) -> str:
    return named(host["host"], host["node"])


_EXPLAIN = "/scheduler/v1/explain"
#: So many rejected hosts stand on a page of a stage.
_PAGE = 100
#: What a first question may be where no flavor is stored.
_START = {"vcpus": "2", "ram": "4096", "disk": "20"}
#: What templates are given where there is no answer, or another.
_NOTHING = dict.fromkeys(("refusal", "one", "asked", "paths", "stage", "compared"))
#: What is said to who asks with nothing chosen.
_NOTHING_ASKED = "Choose a flavor or type its sizes, then ask."
_MULTIPLIER = "weight_multiplier"


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of what else there is to an answer."""

    root: str
    question: FormQuestion
    #: What is asked beside the request, which each address keeps.
    beside: Mapping[str, str]

    def here(self, **more: str | None) -> str:
        """Return the address of this question, with ``more`` fields or without (None)."""
        return f"{self.root}/ask?{self.question.query(**{**self.beside, **more})}"

    def host(self, name: str) -> str:
        """Return the address of all that the answer says of a host."""
        return self.here(host=name)

    def stage(self, name: str, number: int = 1) -> str:
        """Return the address of the hosts that a stage rejects, or of a later page of them."""
        return self.here(stage=name, page=None if number == 1 else str(number))

    @property
    def report(self) -> str:
        """Return the address of the answer as a report."""
        return f"{self.root}/ask/report?{self.question.query()}"

    @property
    def capacity(self) -> str:
        """Return the address of the count of how many more of this fit."""
        return f"{self.root}/capacity?{self.question.query(count=None)}"


def index() -> flask.Response:
    """Show the form, and the answer where the address has a question."""
    if tidy := without_empty_fields():
        return tidy
    given, ask = flask.request.args, caller()
    question = FormQuestion(given)
    beside = {name: given[name] for name in ("beside", "beside_as_configured") if given.get(name)}
    links = Links(f"{flask.request.root_path}/console", question, beside)
    values: dict[str, Any] = {
        "question": question,
        "labels": LABELS,
        "forms": FORMS,
        "nothing_asked": _NOTHING_ASKED,
        "links": links,
        "given": beside,
        **_NOTHING,
        **_choices(ask, question),
    }
    status: int = HTTPStatus.OK
    if question.is_asked:
        try:
            values |= _answer(ask, links, given)
        except ApiRefused as refusal:
            status = refusal.status
            values["refusal"] = refusal.detail
        except Error as failure:
            status = status_of(failure)
            values["refusal"] = failure.detail
    elif any(name in FIELDS for name in given):
        status, values["refusal"] = HTTPStatus.BAD_REQUEST, _NOTHING_ASKED
    return page("ask.html", "Ask", values, status=status)


def report() -> flask.Response:
    """Return the answer as one file to hand on."""
    question, ask = FormQuestion(flask.request.args), caller()
    body = question.body(max_rejected=0)
    heading = Heading(
        title="Explanation",
        place=flask.request.url_root.rstrip("/"),
        made=utcnow(),
        facts=tuple(facts_of(body)),
    )
    spec = body["request_spec"]
    made = explanation_report(ask.ask(_EXPLAIN, body), spec, heading, ask.aggregate_names())
    response = flask.Response(made)
    response.headers["Content-Disposition"] = 'attachment; filename="explanation.html"'
    return guarded(response)


def _choices(ask: Caller, question: FormQuestion) -> dict[str, Any]:
    """Return what there is to choose from, as far as this caller may see it."""
    flavors = _seen(ask, "/compute/v2.1/flavors/detail", "flavors")
    ids = {one["id"] for one in flavors}
    zones = _seen(ask, "/compute/v2.1/os-availability-zone", "availabilityZoneInfo")
    policies = _seen(ask, "/scheduler/v1/policies", "policies")
    return {
        # An id counts before a name.
        "flavors": [
            one | {"value": one["id"] if one["name"] in ids else one["name"]} for one in flavors
        ],
        "images": _seen(ask, "/image/v2/images", "images"),
        "zones": [one["zoneName"] for one in zones],
        "policies": [one["name"] for one in policies],
        "multipliers": _multipliers(policies, question),
        "start": {} if flavors or question.is_asked else _START,
    }


def _seen(ask: Caller, path: str, key: str) -> list[Json]:
    try:
        found: list[Json] = ask.get(path)[key]
    except ApiRefused:
        return []
    return found


def _multipliers(policies: Iterable[Json], question: FormQuestion) -> list[dict[str, Any]]:
    """Return the options that weigh the weighers of the policy: name, value as configured, typed.

    Those that are 0 or huge decide nothing or all, and stand last.
    """
    by_name = {one["name"]: one["options"] for one in policies}
    options = by_name.get((question.policy or "").lower()) or by_name.get(DEFAULT_POLICY, {})
    found = [
        {
            "key": key,
            "name": _shortened(key),
            "configured": option["value"],
            "typed": question.typed.get(key, ""),
        }
        for key, option in options.items()
        if key.endswith(_MULTIPLIER) and isinstance(option["value"], int | float)
    ]
    return sorted(found, key=lambda one: (not 0 < abs(one["configured"]) < 1000, one["key"]))


def _shortened(key: str) -> str:
    """Return what a multiplier weighs: ``metrics``, ``soft affinity``."""
    group, _, name = key.partition(".")
    return name.removesuffix(_MULTIPLIER).strip("_").replace("_", " ") or group


def _answer(ask: Caller, links: Links, given: Mapping[str, str]) -> dict[str, Any]:
    question, names, host = links.question, ask.aggregate_names(), given.get("host")
    body = question.body(**{"hosts": [host]} if host else {}, max_rejected=0)
    url = flask.request.url_root.rstrip("/")
    shown: dict[str, Any] = {
        "asked": asked(body["request_spec"]),
        "curl": curl(url + _EXPLAIN, body),
        "command": question.command("explain", url, **{"host": host} if host else {}),
        "address": f"{flask.request.host_url.rstrip('/')}{links.here(host=host)}",
        "body": body,
    }
    if host:
        return shown | _of_host(ask.ask(_EXPLAIN, body), names)
    stage = given.get("stage")
    explanation = ask.ask(_EXPLAIN, body)
    shown["one"] = explanation_shown(explanation, names)
    if stage:
        return shown | _of_stage(shown["one"]["funnel"].stages, stage, given.get("page", ""))
    shown["stages"] = [
        {"name": one.name, "letter": one.letter, "colour": one.colour}
        for one in shown["one"]["funnel"].stages
    ]
    found = explanation["funnel"].get("obstacle", {})
    shown["has_no_hosts"] = found.get("name") == "providers"
    if policy := given.get("beside"):
        other = {**body, "policy": policy}
        if given.get("beside_as_configured"):
            other.pop("overrides", None)
        answers = [explanation, ask.ask(_EXPLAIN, other)]
        first, second = (one["policy"] for one in answers)
        if body.get("overrides"):
            theirs = "asked" if "overrides" in other else "configured"
            first, second = f"{first}, options as asked", f"{second}, options as {theirs}"
        shown["compared"] = compared(with_names(answers, names), (first, second))
    return shown


def _of_host(explanation: Json, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what is shown of one host: verdicts, and the path through all stages for each."""
    explanation = with_names(explanation, names)
    return {
        "one": explanation_shown(explanation, {}),
        "paths": [(one, path_of(explanation, one)) for one in explanation["verdicts"]],
    }


def _of_stage(stages: Sequence[StagePicture], name: str, number: str) -> dict[str, Any]:
    """Return what is shown of one stage: a page of the hosts that it rejects.

    Raises :class:`NotFound` where the answer has no stage of this name, or no such page.
    """
    found = next((one for one in stages if one.name == name), None)
    if found is None:
        raise NotFound(f"No host came to a stage {name!r} in this answer")
    pages = max(-(-len(found.rejected) // _PAGE), 1)
    at = int(number) if number.isdecimal() else 1
    if not 1 <= at <= pages:
        raise NotFound(f"{name} has {pages} pages of rejected hosts, not {at}")
    return {
        "stage": found,
        "rejected": found.rejected[(at - 1) * _PAGE : at * _PAGE],
        "first": (at - 1) * _PAGE,
        "at": at,
        "pages": pages,
    }


VIEWS: Mapping[str, Callable[..., flask.Response]] = {"/ask": index, "/ask/report": report}
