# SPDX-License-Identifier: Apache-2.0
"""Reports as single HTML files without scripts, from templates."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

from placement_sched.cli.report.charts import (
    build_capacity_picture,
    build_funnel_picture,
    build_weights_picture,
)
from placement_sched.explain.amounts import format_amount
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.reader import (
    count_passed,
    describe_obstacle,
    format_node,
    with_all_keys,
)
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json

STYLESHEET = Path(__file__).with_name("report.css")
#: Loader of the templates of reports.
TEMPLATES = PackageLoader(__package__)
#: Maximum number of names in a sentence.
_MAX_NAMES = 3


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template in the folder ``templates``."""
    return build_environment(TEMPLATES).get_template(template).render(values)


@cache
def read_stylesheet() -> str:
    """Return the stylesheet of reports, which pages of the console also use."""
    return STYLESHEET.read_text("utf-8")


@cache
def build_environment(loader: BaseLoader) -> Environment:
    """Build a template environment with the filters of reports."""
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=format_number,
        hosts=lambda count: "1 host" if count == 1 else f"{format_number(count)} hosts",
        first_few=format_first_names,
    )
    # Prefix of ids, for a part that is rendered twice on a page.
    environment.globals["prefix"] = ""
    # Builder of links for hosts and stages. Reports have no links.
    environment.globals["links"] = None
    return environment


def format_number(value: float) -> str:
    """Format a number, such as ``1,234``, with three decimals if not whole."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.3f}"
    return f"{int(value):,}"


def format_first_names(names: Sequence[str]) -> str:
    """Format the first names, and the number of other names."""
    remaining = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (
        f" and {format_number(remaining)} more" if remaining > 0 else ""
    )


#: The parts of a request spec to show, in this order.
_REQUEST_PARTS = (
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
#: The facts of a decision to show above its request.
_DECISION_FACTS = ("uuid", "created_at", "kind", "request_id", "global_request_id")
#: Replacement of the funnel of a decision that was recorded without a funnel.
_NO_FUNNEL: Json = {
    "request_filters": [],
    "allocation_candidates": {"query": "", "steps": []},
    "filters": [],
    "weighers": [],
    "obstacle": {"reason": "No funnel is recorded with this decision"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The heading of a report: scheduler (``source``), time in UTC, facts."""

    title: str
    source: str
    created_at: datetime
    facts: Sequence[tuple[str, str]] = ()


def render_explanation_report(
    explanation: Json,
    request_spec: Mapping[str, Any],
    heading: Heading,
    names: Mapping[str, str],
    compared: Any = None,
) -> str:
    """Render the report of a ``POST /explain`` response, or a comparison."""
    values = {
        "heading": heading,
        "stylesheet": read_stylesheet(),
        "request_rows": list_request_parts(request_spec),
        "explanation": build_explanation_view(explanation, names),
        "compared": compared,
    }
    return render("explanation_report.html", values)


def render_decision_report(decision: Json, heading: Heading, names: Mapping[str, str]) -> str:
    """Render the report of a decision of ``GET /decisions/{uuid}``."""
    facts = [
        (key.replace("_", " "), str(decision[key])) for key in _DECISION_FACTS if decision.get(key)
    ]
    heading = replace(heading, facts=[*heading.facts, *facts])
    return render_explanation_report(as_explanation(decision), decision["request"], heading, names)


def render_capacity_report(
    result: Json, request_body: Mapping[str, Any], heading: Heading, names: Mapping[str, str]
) -> str:
    """Render the report of a ``POST /capacity`` response to this request body."""
    values = build_capacity_values(result, request_body, heading, names)
    return render("capacity_report.html", values)


def build_capacity_values(
    result: Json, request_body: Mapping[str, Any], heading: Heading, names: Mapping[str, str]
) -> dict[str, Any]:
    """Build the values of the template ``capacity_report.html``."""
    return {
        "heading": heading,
        "stylesheet": read_stylesheet(),
        "request_rows": list_request_parts(request_body.get("request_spec", {})),
        "capacity": build_capacity_picture(with_names(result, names), request_body.get("per")),
    }


def as_explanation(decision: Json) -> Json:
    """Convert a decision to the format of a ``POST /explain`` response."""
    funnel = decision["funnel"] or _NO_FUNNEL
    return {**decision, "hosts": decision["best"] or [], "funnel": funnel}


def iterate_facts(body: Json) -> Iterator[tuple[str, str]]:
    """Yield the overrides and changes of a request for a report's heading."""
    for key, value in body.get("overrides", {}).items():
        yield "override", f"{key} = {value}"
    for change in body.get("changes", ()):
        yield "change", json.dumps(change)


def build_explanation_view(explanation: Json, names: Mapping[str, str]) -> Json:
    """Build the template values of an explanation or of a recorded decision."""
    funnel: Json = with_names(with_all_keys(explanation["funnel"]), names)
    reason = with_names(explanation.get("reason"), names)
    renamed = {**explanation, "funnel": funnel, "reason": reason}
    selected = explanation["outcome"] == SELECTED
    hosts = explanation.get("hosts", ())
    selections = []
    for best, *alternates in explanation.get("selections", ()):
        allocations = (best.get("allocation_request") or {}).get("allocations", {})
        selections.append(
            {
                "host": format_node(best["service_host"], best["nodename"]),
                "node": best["nodename"],
                "zone": best["availability_zone"],
                "weight": best["weight"],
                # Provider by provider.
                "allocations": "; ".join(
                    ", ".join(
                        f"{name} {amount}" for name, amount in sorted(part["resources"].items())
                    )
                    for part in allocations.values()
                ),
                "alternates": [
                    format_node(host["service_host"], host["nodename"]) for host in alternates
                ],
            }
        )
    return {
        "selected": selected,
        "conclusion": f"{count_passed(renamed)} passed" if selected else describe_obstacle(renamed),
        # The sentence about near misses, which is the only obstacle with constraints.
        "counts_before_filters": bool(funnel.get("obstacle", {}).get("constraints")),
        "policy": explanation["policy"],
        "query": funnel["allocation_candidates"]["query"],
        "would_fit": [miss["words"] for miss in funnel.get("would_fit", ())],
        "warnings": [warning["detail"] for warning in funnel.get("warnings", ())],
        "request_filters": [
            row for row in funnel["request_filters"] if row["applied"] or row.get("reason")
        ],
        "funnel": build_funnel_picture(funnel),
        "is_outline": bool(funnel.get("outline")),
        "weights": build_weights_picture(hosts, funnel["weighers"]),
        "passed": count_passed(renamed),
        "selections": selections,
        "verdicts": with_names(explanation.get("verdicts", []), names),
    }


def list_request_parts(request_spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the non-empty parts of a request spec as names and texts."""
    parts = []
    for name in _REQUEST_PARTS:
        value = request_spec.get(name)
        if value not in (None, "", [], {}) and (name, value) != ("num_instances", 1):
            parts.append((name.replace("_", " "), _format_value(value)))
    return parts


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        name = str(value.get("name") or value.get("id") or "")
        if "vcpus" in value:
            specs = _format_pairs(value.get("extra_specs") or {})
            return "; ".join(filter(None, [name, _format_spec_sizes(value), *specs]))
        if "properties" in value:
            return "; ".join(filter(None, [name, *_format_pairs(value["properties"])]))
        return ", ".join(f"{key}: {_format_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    return str(value)


def _format_spec_sizes(flavor: Mapping[str, Any]) -> str:
    vcpus = "VCPU" if flavor.get("vcpus") == 1 else "VCPUs"
    amounts = (("memory_mb", "MEMORY_MB", "memory"), ("root_gb", "DISK_GB", "disk"))
    parts = [f"{count} {vcpus}"] if (count := flavor.get("vcpus")) else []
    for key, name, title in amounts:
        if value := flavor.get(key):
            amount = format_amount(value, name) if isinstance(value, int) else value
            parts.append(f"{amount} {title}")
    return ", ".join(parts)


def _format_pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(values.items())]
