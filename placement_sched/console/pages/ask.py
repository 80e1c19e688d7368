# SPDX-License-Identifier: Apache-2.0
"""Ask page: the explanation of a request."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import flask

from placement_sched.api.response import status_of
from placement_sched.console.charts import BEST, StagePicture
from placement_sched.console.client import ApiClient, ApiRefused
from placement_sched.console.forms import FIELDS, LABELS, FormRequest, curl
from placement_sched.console.page import (
    api_client,
    page,
    redirect_without_empty_fields,
    with_headers,
)
from placement_sched.console.reports import (
    Heading,
    explanation_report,
    explanation_view,
    facts_of,
    request_parts,
)
from placement_sched.errors import Error, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import utcnow
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import (
    compare_stages,
    node_label,
    obstacle,
    passed,
    path_of,
    with_names,
)
from placement_sched.model.flat_request import FORMS

_NONE = "-"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A stage or rank with its text under each policy and the difference."""

    name: str
    cells: tuple[str, str]
    difference: str


@dataclass(frozen=True, slots=True)
class HostComparison:
    """Two explanations of a request: names, conclusions, stages and best hosts."""

    names: tuple[str, str]
    conclusions: tuple[tuple[bool, str], tuple[bool, str]]
    stages: tuple[ComparedRow, ...]
    hosts: tuple[ComparedRow, ...]

    @property
    def differs(self) -> bool:
        """Return whether the explanations differ."""
        rows = [*self.stages, *self.hosts]
        first, second = self.conclusions
        return first != second or any(row.difference for row in rows)


def compare(answers: Sequence[Json], names: tuple[str, str]) -> HostComparison:
    """Compare two explanations, shown under these names."""
    first, second = answers
    return HostComparison(
        names=names,
        conclusions=(_describe_conclusion(first), _describe_conclusion(second)),
        stages=tuple(_compare_stage(name, *reports) for name, reports in compare_stages(answers)),
        hosts=tuple(_compare_ranks(first["hosts"], second["hosts"])),
    )


def _describe_conclusion(answer: Json) -> tuple[bool, str]:
    if answer["outcome"] != SELECTED:
        return False, obstacle(answer)
    best = answer["hosts"][0]
    text = f"{passed(answer):,} passed, the best is {node_label(best['host'], best['node'])}"
    return True, text


def _compare_stage(name: str, first: Json | None, second: Json | None) -> ComparedRow:
    if first is None or second is None:
        difference = "only here" if first is None else "not here"
    else:
        difference = _format_difference(second["after"] - first["after"])
    return ComparedRow(name, (_format_count(first), _format_count(second)), difference)


def _format_count(report: Json | None) -> str:
    """Format the number of hosts after a stage, and before it if it rejected any."""
    if report is None:
        return _NONE
    before, after = report["before"], report["after"]
    total = "" if before == after else f" of {before:,}"
    return f"{after:,}{total}" if before else "not reached"


def _format_difference(by: int) -> str:
    if not by:
        return ""
    return f"{by:,} more left" if by > 0 else f"{-by:,} fewer left"


def _compare_ranks(first: Sequence[Json], second: Sequence[Json]) -> Iterator[ComparedRow]:
    """Yield a row for each rank with the best hosts of both explanations."""
    ranks = {_format_name(host): rank for rank, host in enumerate(second, 1)}
    for index in range(min(BEST, max(len(first), len(second)))):
        cells = (_format_host(first, index), _format_host(second, index))
        difference = ""
        if index < len(first):
            difference = _describe_move(_format_name(first[index]), index + 1, ranks)
        elif index < len(second):
            difference = f"{_format_name(second[index])} passes only here"
        yield ComparedRow(str(index + 1), cells, difference)


def _describe_move(name: str, rank: int, ranks: Mapping[str, int]) -> str:
    new_rank = ranks.get(name)
    if new_rank is None:
        return f"{name} does not pass"
    return "" if new_rank == rank else f"{name} is at place {new_rank}"


def _format_host(hosts: Sequence[Json], index: int) -> str:
    if index >= len(hosts):
        return _NONE
    return f"{_format_name(hosts[index])}, {hosts[index]['weight']:.3f}"


def _format_name(host: Json) -> str:
    return node_label(host["host"], host["node"])


_EXPLAIN = "/scheduler/v1/explain"
#: Rejected hosts per page of a stage.
_PAGE = 100
#: Initial sizes in the form if no flavor is stored.
_INITIAL_SIZES = {"vcpus": "2", "ram": "4096", "disk": "20"}
#: Default values of the template.
_DEFAULTS = dict.fromkeys(("refusal", "one", "asked", "paths", "stage", "compared"))
#: Message for an empty form.
_EMPTY_FORM = "Choose a flavor or enter its sizes, then ask."
_MULTIPLIER = "weight_multiplier"


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses related to an explanation."""

    root: str
    question: FormRequest
    #: Fields of the comparison, which every link retains.
    beside: Mapping[str, str]

    def here(self, **more: str | None) -> str:
        """Return the address of this query, with ``more`` fields or without (None)."""
        return f"{self.root}/ask?{self.question.query(**{**self.beside, **more})}"

    def host(self, name: str) -> str:
        """Return the address of the explanation of a host."""
        return self.here(host=name)

    def stage(self, name: str, number: int = 1) -> str:
        """Return the address of a page of the hosts that a stage rejects."""
        return self.here(stage=name, page=None if number == 1 else str(number))

    @property
    def report(self) -> str:
        """Return the address of the explanation as a report."""
        return f"{self.root}/ask/report?{self.question.query()}"

    @property
    def capacity(self) -> str:
        """Return the address of the capacity for this request."""
        return f"{self.root}/capacity?{self.question.query(count=None)}"


def index() -> flask.Response:
    """Show the form and, if the address has a request, its explanation."""
    if redirect := redirect_without_empty_fields():
        return redirect
    args, client = flask.request.args, api_client()
    question = FormRequest(args)
    beside = {name: args[name] for name in ("beside", "beside_as_configured") if args.get(name)}
    links = Links(f"{flask.request.root_path}/console", question, beside)
    values: dict[str, Any] = {
        "question": question,
        "labels": LABELS,
        "forms": FORMS,
        "nothing_asked": _EMPTY_FORM,
        "links": links,
        "given": beside,
        **_DEFAULTS,
        **_list_choices(client, question),
    }
    status: int = HTTPStatus.OK
    if question.is_asked:
        try:
            values |= _explain(client, links, args)
        except ApiRefused as api_error:
            status = api_error.status
            values["refusal"] = api_error.detail
        except Error as error:
            status = status_of(error)
            values["refusal"] = error.detail
    elif any(name in FIELDS for name in args):
        status, values["refusal"] = HTTPStatus.BAD_REQUEST, _EMPTY_FORM
    return page("ask.html", "Ask", values, status=status)


def report() -> flask.Response:
    """Send the explanation as a file."""
    question, client = FormRequest(flask.request.args), api_client()
    body = question.body(max_rejected=0)
    heading = Heading(
        title="Explanation",
        place=flask.request.url_root.rstrip("/"),
        made=utcnow(),
        facts=tuple(facts_of(body)),
    )
    spec = body["request_spec"]
    html = explanation_report(client.ask(_EXPLAIN, body), spec, heading, client.aggregate_names())
    response = flask.Response(html)
    response.headers["Content-Disposition"] = 'attachment; filename="explanation.html"'
    return with_headers(response)


def _list_choices(client: ApiClient, question: FormRequest) -> dict[str, Any]:
    """Return the values to choose from that this caller may list."""
    flavors = _list_visible(client, "/compute/v2.1/flavors/detail", "flavors")
    ids = {flavor["id"] for flavor in flavors}
    zones = _list_visible(client, "/compute/v2.1/os-availability-zone", "availabilityZoneInfo")
    policies = _list_visible(client, "/scheduler/v1/policies", "policies")
    return {
        # An id takes precedence over a name.
        "flavors": [
            item | {"value": item["id"] if item["name"] in ids else item["name"]}
            for item in flavors
        ],
        "images": _list_visible(client, "/image/v2/images", "images"),
        "zones": [zone["zoneName"] for zone in zones],
        "policies": [policy["name"] for policy in policies],
        "multipliers": _list_multipliers(policies, question),
        "start": {} if flavors or question.is_asked else _INITIAL_SIZES,
    }


def _list_visible(client: ApiClient, path: str, key: str) -> list[Json]:
    try:
        items: list[Json] = client.get(path)[key]
    except ApiRefused:
        return []
    return items


def _list_multipliers(policies: Iterable[Json], question: FormRequest) -> list[dict[str, Any]]:
    """Return the weight multipliers of the policy: name, configured value and form value.

    Multipliers of 0 or at least 1000 are sorted last.
    """
    by_name = {policy["name"]: policy["options"] for policy in policies}
    options = by_name.get((question.policy or "").lower()) or by_name.get(DEFAULT_POLICY, {})
    multipliers = [
        {
            "key": key,
            "name": _multiplier_label(key),
            "configured": option["value"],
            "typed": question.typed.get(key, ""),
        }
        for key, option in options.items()
        if key.endswith(_MULTIPLIER) and isinstance(option["value"], int | float)
    ]
    return sorted(
        multipliers, key=lambda item: (not 0 < abs(item["configured"]) < 1000, item["key"])
    )


def _multiplier_label(key: str) -> str:
    """Return the name of a multiplier: ``metrics``, ``soft affinity``."""
    group, _, name = key.partition(".")
    return name.removesuffix(_MULTIPLIER).strip("_").replace("_", " ") or group


def _explain(client: ApiClient, links: Links, args: Mapping[str, str]) -> dict[str, Any]:
    question, names, host = links.question, client.aggregate_names(), args.get("host")
    body = question.body(**{"hosts": [host]} if host else {}, max_rejected=0)
    url = flask.request.url_root.rstrip("/")
    values: dict[str, Any] = {
        "asked": request_parts(body["request_spec"]),
        "curl": curl(url + _EXPLAIN, body),
        "command": question.command("explain", url, **{"host": host} if host else {}),
        "address": f"{flask.request.host_url.rstrip('/')}{links.here(host=host)}",
        "body": body,
    }
    if host:
        return values | _host_values(client.ask(_EXPLAIN, body), names)
    stage = args.get("stage")
    explanation = client.ask(_EXPLAIN, body)
    values["one"] = explanation_view(explanation, names)
    if stage:
        return values | _stage_values(values["one"]["funnel"].stages, stage, args.get("page", ""))
    values["stages"] = [
        {"name": item.name, "letter": item.letter, "colour": item.colour}
        for item in values["one"]["funnel"].stages
    ]
    obstacle_report = explanation["funnel"].get("obstacle", {})
    values["has_no_hosts"] = obstacle_report.get("name") == "providers"
    if policy := args.get("beside"):
        other = {**body, "policy": policy}
        if args.get("beside_as_configured"):
            other.pop("overrides", None)
        answers = [explanation, client.ask(_EXPLAIN, other)]
        first, second = (answer["policy"] for answer in answers)
        if body.get("overrides"):
            source = "requested" if "overrides" in other else "configured"
            first, second = f"{first}, options as requested", f"{second}, options as {source}"
        values["compared"] = compare(with_names(answers, names), (first, second))
    return values


def _host_values(explanation: Json, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the template values of a host: verdicts and the path through all stages."""
    explanation = with_names(explanation, names)
    return {
        "one": explanation_view(explanation, {}),
        "paths": [(row, path_of(explanation, row)) for row in explanation["verdicts"]],
    }


def _stage_values(stages: Sequence[StagePicture], name: str, number: str) -> dict[str, Any]:
    """Return the template values of a page of the hosts that a stage rejects.

    Raises :class:`NotFound` if the explanation has no such stage or page.
    """
    stage = next((item for item in stages if item.name == name), None)
    if stage is None:
        raise NotFound(f"No host came to a stage {name!r} in this answer")
    pages = max(-(-len(stage.rejected) // _PAGE), 1)
    page_number = int(number) if number.isdecimal() else 1
    if not 1 <= page_number <= pages:
        raise NotFound(f"{name} has {pages} pages of rejected hosts, not {page_number}")
    return {
        "stage": stage,
        "rejected": stage.rejected[(page_number - 1) * _PAGE : page_number * _PAGE],
        "first": (page_number - 1) * _PAGE,
        "at": page_number,
        "pages": pages,
    }


VIEWS: Mapping[str, Callable[..., flask.Response]] = {"/ask": index, "/ask/report": report}
