# SPDX-License-Identifier: Apache-2.0
"""Ask page: the explanation of a request."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import flask
from werkzeug.datastructures import MultiDict

from placement_sched.cli.report.charts import BEST, StagePicture, get_weight
from placement_sched.cli.report.html import (
    build_explanation_view,
    format_first_names,
    iterate_facts,
    list_request_parts,
    render_explanation_report,
)
from placement_sched.errors import Invalid, NotFound
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import describe_stage
from placement_sched.explain.reader import (
    compare_stages,
    count_passed,
    describe_obstacle,
    format_node,
    format_value,
    list_stage_reasons,
)
from placement_sched.extensions.console.client import ApiClient
from placement_sched.extensions.console.forms import FIELDS, LABELS, FormRequest
from placement_sched.extensions.console.page import (
    build_heading,
    build_share,
    download,
    get_api_client,
    redirect_without_empty_fields,
    render_result_page,
)
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json
from placement_sched.model.short_forms import FORMS

_NONE = "-"


#: A stage or rank, with its text in both explanations and the difference.
_Row = tuple[str, str, str, str]


def compare(results: Sequence[Json], names: tuple[str, str]) -> Json:
    """Compare two explanations by conclusions, stages and best hosts.

    ``names`` are the titles to show for the two explanations.
    """
    first, second = results
    conclusions = [_describe_conclusion(first), _describe_conclusion(second)]
    stages = [_compare_stage(name, *reports) for name, reports in compare_stages(results)]
    hosts = list(_compare_ranks(first["hosts"], second["hosts"]))
    has_different_row = any(difference for *_, difference in [*stages, *hosts])
    return {
        "names": names,
        "conclusions": conclusions,
        "stages": stages,
        "hosts": hosts,
        "differs": conclusions[0] != conclusions[1] or has_different_row,
    }


def _describe_conclusion(result: Json) -> tuple[bool, str]:
    if result["outcome"] != SELECTED:
        return False, describe_obstacle(result)
    best = result["hosts"][0]
    text = f"{count_passed(result):,} passed, the best is {format_node(best['host'], best['node'])}"
    return True, text


def _compare_stage(name: str, first: Json | None, second: Json | None) -> _Row:
    difference = ""
    if first is None or second is None:
        difference = "only here" if first is None else "not here"
    elif more := second["after"] - first["after"]:
        difference = f"{more:,} more left" if more > 0 else f"{-more:,} fewer left"
    words = next(filter(None, (describe_stage(each) for each in (first, second) if each)), "")
    title = f"{words} ({name})" if words else name
    return title, _format_count(first), _format_count(second), difference


def _format_count(report: Json | None) -> str:
    if report is None:
        return _NONE
    before, after = report["before"], report["after"]
    total = "" if before == after else f" of {before:,}"
    return f"{after:,}{total}" if before else "not reached"


def _compare_ranks(first: Sequence[Json], second: Sequence[Json]) -> Iterator[_Row]:
    ranks = {format_node(host["host"], host["node"]): rank for rank, host in enumerate(second, 1)}
    for rank, hosts in enumerate(zip_longest(first[:BEST], second[:BEST]), 1):
        name, new_name = (host and format_node(host["host"], host["node"]) for host in hosts)
        if name is None:
            difference = f"{new_name} passes only here"
        elif name not in ranks:
            difference = f"{name} does not pass"
        else:
            difference = "" if ranks[name] == rank else f"{name} is at place {ranks[name]}"
        text, new_text = (
            f"{format_node(host['host'], host['node'])}, {host['weight']:.3f}" if host else _NONE
            for host in hosts
        )
        yield str(rank), text, new_text, difference


_EXPLAIN = "/scheduler/v1/explain"
#: Rejected hosts per page of a stage.
_PAGE = 100
#: Initial sizes in the form if no flavor is stored.
_INITIAL_SIZES = {"vcpus": "2", "ram": "4096", "disk": "20"}
#: Default values of the template.
_DEFAULTS = dict.fromkeys(
    ("explanation", "verdict", "stage", "compared", "what_if", "request_rows")
)
#: State of the hosts in a change, by the first word of the change's line.
_CHANGE_WORDS = {"drain": "drained", "remove": "removed", "add": "added"}
#: Message for an empty form.
_EMPTY_FORM = "Choose a flavor or enter its sizes, then ask."
_MULTIPLIER = "weight_multiplier"
#: Weights that differ by less than this are shown as equal.
_MIN_DIFFERENCE = 5e-4


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of other views of an explanation."""

    root: str
    form_request: FormRequest
    #: Fields of the comparison, which every link retains.
    comparison_fields: Mapping[str, str]
    #: The requested host, or None.
    requested_host: str | None = None

    def build_address(self, **more: str | Sequence[str] | None) -> str:
        """Return this page's address, with more fields, or without None fields."""
        return (
            f"{self.root}/ask?{self.form_request.build_query(**{**self.comparison_fields, **more})}"
        )

    @property
    def today(self) -> str:
        """Return this page's address, without simulated changes and options."""
        return self.build_address(**dict.fromkeys(self.form_request.simulated_fields))

    @property
    def capacity(self) -> str:
        """Return the address of the capacity for this request."""
        return f"{self.root}/capacity?{self.form_request.build_query(count=None)}"


def index() -> flask.Response:
    """Show the form and, if the address has a request, its explanation."""
    if redirect := redirect_without_empty_fields():
        return redirect
    args, client = flask.request.args, get_api_client()
    form_request = FormRequest(args)
    comparison_fields = {
        name: args[name] for name in ("beside", "beside_as_configured") if args.get(name)
    }
    links = Links(
        f"{flask.request.root_path}/console", form_request, comparison_fields, args.get("host")
    )
    values: dict[str, Any] = {
        "form_request": form_request,
        "share": None,
        "labels": LABELS,
        "forms": FORMS,
        "empty_form_message": _EMPTY_FORM,
        "links": links,
        "comparison_fields": comparison_fields,
        **_DEFAULTS,
        **_list_choices(client, form_request),
    }
    if form_request.is_filled and links.requested_host and args.get("part") == "host":
        against = args.getlist("against")
        return render_result_page(
            "ask_host.html",
            "Ask",
            values,
            lambda: _build_host_values(client, links, against, client.map_aggregate_names()),
        )

    def build_values() -> Mapping[str, Any]:
        if form_request.is_filled:
            simulation = _describe_simulation(form_request, values["multipliers"])
            return {**_explain(client, links, args), "what_if": simulation}
        if any(name in FIELDS for name in args):
            raise Invalid(_EMPTY_FORM)
        return {}

    return render_result_page("ask.html", "Ask", values, build_values)


def report() -> flask.Response:
    """Send the explanation as a file, with the comparison of policies."""
    args, client = flask.request.args, get_api_client()
    body = FormRequest(args).build_body(max_rejected=0)
    headed = build_heading("Explanation", *iterate_facts(body))
    explanation = client.post(_EXPLAIN, body)
    names = client.map_names(explanation)
    compared = _compare_policies(client, body, args, explanation, names)
    html = render_explanation_report(explanation, body["request_spec"], headed, names, compared)
    return download("explanation.html", html)


def _describe_simulation(
    form_request: FormRequest, multipliers: Iterable[Mapping[str, Any]]
) -> list[str]:
    phrases = []
    for line in form_request.typed.get("change", "").splitlines():
        action, _, text = line.partition("=")
        names = [name.strip() for name in text.split(",")]
        phrases.append(f"{_CHANGE_WORDS.get(action, action)} {format_first_names(names)}")
    configured = {item["key"]: item for item in multipliers}
    for name, value in form_request.overrides.items():
        item = configured.get(name)
        title = f"{item['name']} weight" if item else name
        before = f" (configured {format_value(item['configured'])})" if item else ""
        phrases.append(f"{title} {format_value(value)}{before}")
    return phrases


def _list_choices(client: ApiClient, form_request: FormRequest) -> dict[str, Any]:
    """List the values to choose from, as far as the caller may list them."""
    flavors = client.list_visible("/compute/v2.1/flavors/detail", "flavors")
    ids = {flavor["id"] for flavor in flavors}
    policies = client.list_visible("/scheduler/v1/policies", "policies")
    return {
        # An id takes precedence over a name.
        "flavors": [
            item | {"value": item["id"] if item["name"] in ids else item["name"]}
            for item in flavors
        ],
        "images": client.list_visible("/image/v2/images", "images"),
        # With a result, the script takes the zones from the hosts, which are read for the map.
        "zones": [] if form_request.is_filled else client.list_zone_names(),
        "policies": [policy["name"] for policy in policies],
        "multipliers": _list_multipliers(policies, form_request),
        "start": {} if flavors or form_request.is_filled else _INITIAL_SIZES,
    }


def _list_multipliers(policies: Iterable[Json], form_request: FormRequest) -> list[dict[str, Any]]:
    by_name = {policy["name"]: policy["options"] for policy in policies}
    options = by_name.get((form_request.policy or "").lower()) or by_name.get(DEFAULT_POLICY, {})
    multipliers = [
        {
            "key": key,
            "name": _format_multiplier(key),
            "configured": option["value"],
            "typed": form_request.typed.get(key, ""),
        }
        for key, option in options.items()
        if key.endswith(_MULTIPLIER) and isinstance(option["value"], int | float)
    ]
    # Multipliers of 0 or at least 1000 come last.
    return sorted(
        multipliers, key=lambda item: (not 0 < abs(item["configured"]) < 1000, item["key"])
    )


def _format_multiplier(key: str) -> str:
    group, _, name = key.partition(".")
    return name.removesuffix(_MULTIPLIER).strip("_").replace("_", " ") or group


def _explain(client: ApiClient, links: Links, args: Mapping[str, str]) -> dict[str, Any]:
    form_request, host = links.form_request, links.requested_host
    body = form_request.build_body(max_rejected=0)
    explanation = client.post(_EXPLAIN, body)
    names = client.map_names(explanation)
    view = build_explanation_view(explanation, names)
    hosts = {"hosts": [host]} if host else {}
    values: dict[str, Any] = {
        "explanation": view,
        "request_rows": list_request_parts(body["request_spec"]),
        "share": build_share(
            _EXPLAIN,
            body={**body, **hosts},
            command=_build_command(form_request, args, explanation["policy"]),
            report=f"/ask/report?{form_request.build_query(**links.comparison_fields)}",
        ),
    }
    if (compared := _build_compared_body({**body, **hosts}, args)) is not None:
        share = build_share(_EXPLAIN, body=compared)
        values["share"] = replace(values["share"], curl=f"{values['share'].curl}; {share.curl}")
    if stage := args.get("stage"):
        return values | _build_stage_values(view["funnel"].stages, stage, args.get("page", ""))
    values["map_data"] = _build_map_data(explanation, view["funnel"].stages)
    best = [item["node"] for item in explanation["hosts"][:BEST]]
    # The script adds the host. Its weights are compared with the weights of the best hosts.
    values["part"] = links.build_address(part="host", against=best, host="")
    rejecting = [stage for stage in view["funnel"].stages if not stage.cut]
    values["most"] = max(rejecting, key=lambda item: item.removed, default=None)
    values["cut"] = sum(stage.removed for stage in view["funnel"].stages if stage.cut)
    if host:
        values |= _build_host_values(client, links, best, names)
    obstacle_report = explanation["funnel"].get("obstacle", {})
    values["has_no_hosts"] = obstacle_report.get("name") == "providers"
    values["compared"] = _compare_policies(client, body, args, explanation, names)
    return values


def _build_command(
    form_request: FormRequest, args: Mapping[str, str], policy: str
) -> Sequence[str]:
    """Build the words of the command that explains, or compares, the same.

    ``policy`` is the policy of the first explanation. The words are empty if only the first
    explanation has options: no command does that.
    """
    host = {"host": args["host"]} if args.get("host") else {}
    if not (compared := args.get("beside")):
        return form_request.build_command("explain", **host)
    if args.get("beside_as_configured") and form_request.has_options:
        return ()
    without_policy = FormRequest(MultiDict({**form_request.typed, "policy": ""}))
    return without_policy.build_command("explain", compare=f"{policy},{compared}", **host)


def _build_compared_body(body: Json, args: Mapping[str, str]) -> Json | None:
    if not (policy := args.get("beside")):
        return None
    compared = {**body, "policy": policy}
    if args.get("beside_as_configured"):
        compared.pop("overrides", None)
    return compared


def _compare_policies(
    client: ApiClient,
    body: Json,
    args: Mapping[str, str],
    explanation: Json,
    names: Mapping[str, str],
) -> Json | None:
    compared = _build_compared_body(body, args)
    if compared is None:
        return None
    results = [explanation, client.post(_EXPLAIN, compared)]
    first, second = (result["policy"] for result in results)
    if body.get("overrides"):
        source = "requested" if "overrides" in compared else "configured"
        first, second = f"{first}, options as requested", f"{second}, options as {source}"
    return compare(with_names(results, names), (first, second))


def _build_map_data(explanation: Json, stages: Sequence[StagePicture]) -> dict[str, Any]:
    """Build stage and reason of each rejected node, for the map's script.

    Equal reasons are sent once. ``why`` has an index into ``reasons`` for each node in ``nodes``.
    """
    reasons: dict[str, int] = {}
    return {
        "stages": [
            {
                "name": stage.name,
                "words": stage.words or stage.name,
                "letter": stage.letter,
                "colour": stage.colour,
                "removed": stage.removed,
                "cut": bool(stage.cut),
                "nodes": stage.nodes,
                "why": [reasons.setdefault(text, len(reasons)) for _, text in stage.rejected],
            }
            for stage in stages
            if stage.removed
        ],
        "reasons": list(reasons),
        "passed": [host["node"] for host in explanation["hosts"]],
        "selected": [best["nodename"] for best, *_ in explanation["selections"]],
    }


def _build_host_values(
    client: ApiClient, links: Links, against: Sequence[str], names: Mapping[str, str]
) -> dict[str, Any]:
    host = links.requested_host
    others = [node for node in against if node and node != host]
    body = links.form_request.build_body(hosts=[host, *others], max_rejected=1)
    explanation = with_names(client.post(_EXPLAIN, body), names)
    verdict = explanation["verdicts"][0]
    own = next((item for item in explanation["hosts"] if item["node"] == verdict["node"]), None)
    differences = [
        # Positive amounts are for hosts with more weight than the requested host.
        {
            "name": format_node(other["host"], other["node"]),
            "node": other["node"],
            "total": other["weight"] - own["weight"],
            "parts": _compare_weights(other, own),
        }
        for other in explanation["hosts"]
        if own is not None and other is not own
    ]
    path = list_stage_reasons(explanation, verdict) if verdict["verdict"] != "unknown" else []
    return {"verdict": verdict, "path": path, "differences": differences}


def _compare_weights(first: Json, second: Json) -> tuple[tuple[str, float], ...]:
    """Return the differences of two hosts' weights by weigher, largest first."""
    names = dict.fromkeys([*first["weights"], *second["weights"]])
    differences = [(name, get_weight(first, name) - get_weight(second, name)) for name in names]
    unequal = [pair for pair in differences if abs(pair[1]) >= _MIN_DIFFERENCE]
    return tuple(sorted(unequal, key=lambda pair: -abs(pair[1])))


def _build_stage_values(stages: Sequence[StagePicture], name: str, number: str) -> dict[str, Any]:
    stage = next((item for item in stages if item.name == name), None)
    if stage is None:
        raise NotFound(f"No host reached a stage {name!r} in this result")
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
