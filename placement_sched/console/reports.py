"""Reports to hand on: one HTML file with all in it, that loads nothing and needs no script.

Made by the templates of the console's pages, of what the APIs answer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from placement_sched.console.charts import capacity_picture, funnel_picture, weights_picture
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import (
    completed,
    in_words,
    named,
    obstacle,
    passed,
    with_names,
)

#: So many of several names are shown in a sentence.
_FEW = 3


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """Return the HTML of a template in ``templates``."""
    return _environment().get_template(template).render(values)


@cache
def stylesheet() -> str:
    """Return the styles that all pages and reports share."""
    return (files(__package__) / "static" / "console.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["hosts"] = _hosts
    environment.filters["sizes"] = sizes
    environment.filters["first_few"] = _first_few
    environment.filters["words"] = in_words
    # What is drawn twice on a page gets ids of its own by this.
    environment.globals["prefix"] = ""
    # What leads from a host or a stage to more about it; a report leads nowhere.
    environment.globals["links"] = None
    return environment


def _number(value: float) -> str:
    """Return a number with commas between its thousands, a fraction with three digits."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.3f}"
    return f"{int(value):,}"


def sizes(flavor: Mapping[str, Any]) -> str:
    """Return the sizes of a flavor of the compute API: ``2 VCPUs, 4,096 MiB, 40 GiB``."""
    vcpus = flavor["vcpus"]
    return ", ".join(
        [
            f"{_number(vcpus)} {'VCPU' if vcpus == 1 else 'VCPUs'}",
            f"{_number(flavor['ram'])} MiB",
            f"{_number(flavor['disk'])} GiB",
        ]
    )


def _first_few(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {_number(more)} more" if more > 0 else "")


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{_number(count)} hosts"


#: The parts of a request spec that have a line of their own, in this order.
_ASKED = (
    "flavor",
    "image",
    "num_instances",
    "availability_zone",
    "force_hosts",
    "force_nodes",
    "ignore_hosts",
    "scheduler_hints",
    "instance_group",
    "project_id",
)
#: What a decision says of itself beside its request.
_KEPT = ("uuid", "created_at", "kind", "request_id", "global_request_id")
#: What is shown of a decision with which no funnel was recorded.
_NO_FUNNEL: Json = {
    "request_filters": [],
    "allocation_candidates": {"query": "", "steps": []},
    "filters": [],
    "weighers": [],
    "obstacle": {"reason": "No funnel is recorded with this decision"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What stands above a report: when it was made (UTC), of which scheduler, of what."""

    title: str
    place: str
    made: datetime
    facts: Sequence[tuple[str, str]] = ()


def explanation_report(
    explanation: Json, request_spec: Mapping[str, Any], heading: Heading, names: Mapping[str, str]
) -> str:
    """Return the report of an answer of ``POST /explain``.

    ``names`` gives names to be shown instead of the uuids of aggregates.
    """
    values = _values(heading) | {
        "asked": asked(request_spec),
        "one": explanation_shown(explanation, names),
    }
    return rendered("explanation_report.html", values)


def decision_report(decision: Json, heading: Heading, names: Mapping[str, str]) -> str:
    """Return the report of a decision as ``GET /decisions/{uuid}`` answers it."""
    facts = [(key.replace("_", " "), str(decision[key])) for key in _KEPT if decision.get(key)]
    heading = replace(heading, facts=[*heading.facts, *facts])
    return explanation_report(as_explanation(decision), decision["request"], heading, names)


def capacity_report(
    answer: Json, question: Mapping[str, Any], heading: Heading, names: Mapping[str, str]
) -> str:
    """Return the report of an answer of ``POST /capacity`` to this question."""
    values = _values(heading) | {
        "asked": asked(question.get("request_spec", {})),
        "capacity": capacity_picture(with_names(answer, names), question.get("per")),
    }
    return rendered("capacity_report.html", values)


def as_explanation(decision: Json) -> Json:
    """Return a decision that was kept in the shape of an answer of ``POST /explain``."""
    kept = decision["funnel"] or _NO_FUNNEL
    return {**decision, "hosts": decision["best"] or [], "funnel": kept}


def facts_of(body: Json) -> Iterator[tuple[str, str]]:
    """Yield what a question asks beside its request, for a heading."""
    for key, value in body.get("overrides", {}).items():
        yield "override", f"{key} = {value}"
    for change in body.get("changes", ()):
        yield "change", json.dumps(change)


def explanation_shown(explanation: Json, names: Mapping[str, str]) -> Json:
    """Return what templates show of an explanation, or of a decision that was kept."""
    funnel: Json = with_names(completed(explanation["funnel"]), names)
    shown = {**explanation, "funnel": funnel}
    selected = explanation["outcome"] == SELECTED
    hosts = explanation.get("hosts", ())
    return {
        "selected": selected,
        "conclusion": f"{passed(shown)} passed" if selected else obstacle(shown),
        "policy": explanation["policy"],
        "query": funnel["allocation_candidates"]["query"],
        "would_fit": [one["words"] for one in funnel.get("would_fit", ())],
        "warnings": [one["detail"] for one in funnel.get("warnings", ())],
        "request_filters": [
            one for one in funnel["request_filters"] if one["applied"] or one.get("refusal")
        ],
        "funnel": funnel_picture(funnel),
        "is_outline": bool(funnel.get("outline")),
        "weights": weights_picture(hosts, funnel["weighers"]),
        "passed": passed(shown),
        "selections": [
            {
                "host": named(best["service_host"], best["nodename"]),
                "node": best["nodename"],
                "zone": best["availability_zone"],
                "weight": best["weight"],
                "allocations": amounts(best),
                "alternates": [named(one["service_host"], one["nodename"]) for one in others],
            }
            for best, *others in explanation.get("selections", ())
        ],
        "verdicts": with_names(explanation.get("verdicts", []), names),
    }


def amounts(selection: Json) -> str:
    """Return what a selection allocates, provider by provider."""
    allocations = (selection.get("allocation_request") or {}).get("allocations", {})
    return "; ".join(
        ", ".join(f"{name} {amount}" for name, amount in sorted(part["resources"].items()))
        for part in allocations.values()
    )


def asked(request_spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parts of a request spec as names and texts, what is empty left out."""
    found = []
    for name in _ASKED:
        value = request_spec.get(name)
        if value not in (None, "", [], {}) and (name, value) != ("num_instances", 1):
            found.append((name.replace("_", " "), _text(value)))
    return found


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        name = str(value.get("name") or value.get("id") or "")
        if "vcpus" in value:
            return _joined(name, _sizes(value), *_pairs(value.get("extra_specs") or {}))
        if "properties" in value:
            return _joined(name, *_pairs(value["properties"]))
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


def _sizes(flavor: Mapping[str, Any]) -> str:
    """Return the sizes of a flavor of a request spec, what is 0 left out."""
    vcpus = "VCPU" if flavor.get("vcpus") == 1 else "VCPUs"
    units = (("vcpus", vcpus), ("memory_mb", "MiB memory"), ("root_gb", "GiB disk"))
    return ", ".join(f"{value} {unit}" for key, unit in units if (value := flavor.get(key)))


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={one}" for key, one in sorted(values.items())]


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _values(heading: Heading) -> dict[str, Any]:
    return {"heading": heading, "stylesheet": stylesheet()}
